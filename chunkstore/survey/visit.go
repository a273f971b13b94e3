package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
)

// nodeStat is the part of a node's statistics that is shown.
type nodeStat struct {
	Node         string  `json:"node"`
	Epoch        uint64  `json:"epoch"`
	Uptime       float64 `json:"uptime_seconds"`
	ArenaReads   uint64  `json:"arena_reads"`
	DurableReads uint64  `json:"durable_reads"`
	Appends      uint64  `json:"appends"`
	Arena        struct {
		Puts, Publishes uint64
		Extents, Pages  Table
	} `json:"arena"`
	// Tenants have memories of their own.
	Tenants []struct {
		Streams auth.Patterns `json:"streams"`
	} `json:"tenants"`
	Shards []struct {
		Shard     string `json:"shard"`
		Published uint64 `json:"published"`
	} `json:"shards"`
	Others []struct {
		Shard     string `json:"shard"`
		Published uint64 `json:"published"`
	} `json:"others"`
}

// hides says whether a shard is in a memory that cannot be looked at from outside.
func (st *nodeStat) hides(s *Shard) bool {
	for i := range st.Tenants {
		if st.Tenants[i].Streams.Match(s.name.Stream) {
			return true
		}
	}
	return false
}

// hide takes what lies in tenants' memories out of a task, and fills in what the node
// tells of it.
func (st *nodeStat) hide(t task) task {
	if len(st.Tenants) == 0 {
		return t
	}
	published := map[string]uint64{}
	for _, s := range append(st.Shards, st.Others...) {
		published[s.Shard] = s.Published
	}
	t.replicas = slices.DeleteFunc(slices.Clone(t.replicas), func(r replicaOf) bool {
		if !st.hides(r.shard) {
			return false
		}
		r.to.Hidden, r.to.Published = true, published[r.shard.Shard]
		if r.to.Published > 0 { // else nothing is told
			r.to.Lag = r.shard.Length - min(r.to.Published, r.shard.Length)
		}
		return true
	})
	t.extents = slices.DeleteFunc(slices.Clone(t.extents), func(e extentOf) bool { return st.hides(e.shard) })
	return t
}

// visit asks one node for everything.
func (s *survey) visit(ctx context.Context, i int) {
	n := &s.report.Nodes[i]
	described := s.view.Nodes[i]
	n.Name, n.Addr, n.Weight, n.Partial, n.Store = described.Name, described.Addr, described.Weight, described.Partial, described.Name == s.view.Store.Node
	n.Roles = described.Roles.Names()
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if err := s.ask(ctx, n, s.tasks[i]); err != nil {
		n.Error = err.Error()
		for _, r := range s.tasks[i].replicas {
			r.to.Error, r.to.Lag = n.Error, r.shard.Length
		}
		n.chunks = 0
	}
}

func (s *survey) ask(ctx context.Context, n *Node, t task) (err error) {
	c, err := s.o.Dial(ctx, n.Addr)
	if err != nil {
		return err
	}
	defer func() {
		if s.o.Done == nil {
			c.Close()
			return
		}
		s.o.Done(n.Addr, c, err)
	}()
	began := time.Now()
	if _, err := c.Call(ctx, wire.OpPing, nil, nil); err != nil {
		return err
	}
	n.RoundTrip = time.Since(began).Seconds()
	if n.Stat, err = c.Call(ctx, wire.OpNodeStat, nil, nil); err != nil {
		return err
	}
	var st nodeStat
	if err := json.Unmarshal(n.Stat, &st); err != nil {
		return fmt.Errorf("node statistics: %w", err)
	}
	n.Up = true
	if st.Node != n.Name {
		return fmt.Errorf("the node at %s is %q by its own account, not %q: was it started with this file?", n.Addr, st.Node, n.Name)
	}
	n.Epoch, n.Uptime, n.Reads, n.Durable, n.Appends = st.Epoch, st.Uptime, st.ArenaReads, st.DurableReads, st.Appends
	n.Arena, n.Extents, n.Pages, n.Puts, n.Publishes = c.Hello().ArenaSize, st.Arena.Extents, st.Arena.Pages, st.Arena.Puts, st.Arena.Publishes
	path := tcp.New(c, tcp.Options{})
	defer path.Close()
	deadline, _ := ctx.Deadline()
	m := &memory{path: path, deadline: deadline}
	if err := m.open(); err != nil {
		return err
	}
	seen := st.hide(t)
	if err := lengths(m, seen.replicas); err != nil {
		return err
	}
	if n.chunks, n.held, err = holds(m, seen.extents); err != nil {
		return err
	}
	n.Leases, err = leases(c, deadline, t.replicas)
	return err
}

// lengths reads what a node has published.
func lengths(m *memory, replicas []replicaOf) error {
	type pageKey struct {
		stream layout.Hash
		number uint64
	}
	var keys []pageKey
	byKey := map[pageKey]int{}
	for _, r := range replicas {
		k := pageKey{layout.StreamHash(r.shard.name.Stream), r.shard.name.Page()}
		if _, known := byKey[k]; !known {
			byKey[k] = len(keys)
			keys = append(keys, k)
		}
	}
	g := m.geometry
	var sets []span
	for _, k := range keys {
		for _, set := range g.PageSetsOf(k.stream, k.number) {
			sets = append(sets, span{g.PageSet(set), layout.SetSize})
		}
	}
	found, err := m.read(sets)
	if err != nil {
		return err
	}
	var slots []span
	at := make([]int, len(keys)) // of each key's page among slots, from 1; 0: the node has none
	for i, k := range keys {
		for j, set := range g.PageSetsOf(k.stream, k.number) {
			if way, _, ok := layout.FindIdentity(found[2*i+j], k.stream, k.number); ok {
				slots = append(slots, span{g.PageSlot(set*layout.Ways + uint32(way)), layout.PageSize})
				at[i] = len(slots)
				break
			}
		}
	}
	pages, err := m.read(slots)
	if err != nil {
		return err
	}
	for _, r := range replicas {
		i := at[byKey[pageKey{layout.StreamHash(r.shard.name.Stream), r.shard.name.Page()}]]
		if i > 0 {
			if e := layout.ParseEntry(pages[i-1], r.shard.name.EntryOffset()); e.Valid(r.shard.hash) {
				r.to.Published, r.to.Heartbeat = e.Length, e.HeartbeatMS
			}
		}
		r.to.Lag = r.shard.Length - min(r.to.Published, r.shard.Length)
	}
	return nil
}

// holds counts the complete chunks of extents, and those of them that the node has.
func holds(m *memory, extents []extentOf) (chunks, held int, err error) {
	g := m.geometry
	sets := make([]span, 0, 2*len(extents))
	for _, e := range extents {
		for _, set := range g.ExtentSetsOf(e.shard.hash, e.number) {
			sets = append(sets, span{g.ExtentSet(set), layout.SetSize})
		}
	}
	found, err := m.read(sets)
	if err != nil {
		return 0, 0, err
	}
	var descriptors []span
	var of []extentOf
	var generations []uint32
	for i, e := range extents {
		chunks += complete(e)
		for j, set := range g.ExtentSetsOf(e.shard.hash, e.number) {
			if way, generation, ok := layout.FindIdentity(found[2*i+j], e.shard.hash, e.number); ok {
				descriptors = append(descriptors, span{g.Descriptors(set*layout.Ways + uint32(way)), layout.DescriptorsSize})
				of, generations = append(of, e), append(generations, generation)
				break
			}
		}
	}
	words, err := m.read(descriptors)
	if err != nil {
		return 0, 0, err
	}
	for i, e := range of {
		for c := range complete(e) {
			if d := layout.ParseDescriptor(words[i], c); d.Of(generations[i]) && d.Valid() == layout.ChunkSize {
				held++
			}
		}
	}
	return chunks, held, nil
}

// complete is how many chunks of an extent are complete in the durable store.
func complete(e extentOf) int {
	return int(min((e.shard.Length-e.number*layout.ExtentSize)/layout.ChunkSize, layout.ChunksPerExtent))
}

// leases asks who writes, and counts the leases that live.
func leases(c *wire.Client, deadline time.Time, replicas []replicaOf) (live int, err error) {
	calls := make([]*wire.Call, len(replicas))
	for i, r := range replicas {
		req := wire.Lease{Action: wire.LeaseQuery, Shard: []byte(r.shard.Shard)}
		head, err := req.AppendTo(nil)
		if err != nil {
			return 0, err
		}
		if calls[i], err = c.Queue(deadline, wire.OpLease, head, nil, nil); err != nil {
			return 0, err
		}
	}
	for i, r := range replicas {
		b, err := calls[i].Wait()
		if err != nil {
			return 0, fmt.Errorf("lease of %s: %w", r.shard.Shard, err)
		}
		l, err := wire.ParseLeaseReply(b)
		if err != nil {
			return 0, fmt.Errorf("lease of %s: %w", r.shard.Shard, err)
		}
		r.to.Ballot = l.Ballot.Sequence
		if l.Left > 0 {
			live++
			r.to.Writer, r.to.Left = string(l.Owner), l.Left.Seconds()
			if len(l.Owner) == 0 {
				r.to.Writer = "(not known by name)"
			}
		}
	}
	return live, nil
}
