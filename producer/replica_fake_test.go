package producer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// fakeNode is a node with a real arena, behind the wire protocol on a pipe, that
// can be made to misbehave.
type fakeNode struct {
	t    testing.TB
	name string
	// local: it is called directly, as the node of this process.
	local bool
	mu    struct {
		sync.Mutex
		arena  *chunkstore.Arena
		ttl    time.Duration
		conns  map[net.Conn]bool
		dead   bool                        // refuses connections
		frozen chan struct{}               // not nil: nothing is answered before it is closed
		delay  time.Duration               // of each request
		refuse func(wire.Op, []byte) error // of a payload: if it returns an error, that is the answer
	}
	requests atomic.Int64
	ended    chan struct{} // closed at the end of the test
}

func newFakeNode(t testing.TB, name string, ttl time.Duration) *fakeNode {
	n := &fakeNode{t: t, name: name, ended: make(chan struct{})}
	n.mu.ttl = ttl
	n.mu.conns = make(map[net.Conn]bool)
	n.mu.arena = n.newArena()
	return n
}

func (n *fakeNode) newArena() *chunkstore.Arena {
	a, err := chunkstore.New(chunkstore.Config{Bytes: 8 << 20, TTL: n.mu.ttl})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { a.Close() })
	return a
}

func (n *fakeNode) arena() *chunkstore.Arena {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.arena
}

func (n *fakeNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// cut ends all connections.
func (n *fakeNode) cut() {
	n.set(func() {
		for c := range n.mu.conns {
			c.Close()
		}
	})
}

func (n *fakeNode) kill()   { n.set(func() { n.mu.dead = true }); n.cut() }
func (n *fakeNode) revive() { n.set(func() { n.mu.dead = false }) }

// restart makes it a node that has been started again, empty.
func (n *fakeNode) restart() {
	a := n.newArena()
	n.set(func() { n.mu.arena, n.mu.dead = a, false })
	n.cut()
}

// forget empties the arena behind everybody's back, as an arena does that is too
// small.
func (n *fakeNode) forget() {
	a, err := chunkstore.New(chunkstore.Config{Bytes: 8 << 20, TTL: n.mu.ttl, Epoch: n.arena().Epoch()})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { a.Close() })
	n.set(func() { n.mu.arena = a })
}

func (n *fakeNode) freeze() { n.set(func() { n.mu.frozen = make(chan struct{}) }) }

func (n *fakeNode) thaw() {
	n.set(func() {
		if n.mu.frozen != nil {
			close(n.mu.frozen)
			n.mu.frozen = nil
		}
	})
}

func (n *fakeNode) dial(ctx context.Context) (*wire.Client, error) {
	ours, theirs := socketPair()
	dead := false
	n.set(func() {
		if dead = n.mu.dead; !dead {
			n.mu.conns[theirs] = true
		}
	})
	if dead {
		ours.Close()
		theirs.Close()
		return nil, errors.New("connection refused")
	}
	go n.serve(theirs)
	return wire.NewClient(ctx, ours, wire.Options{Timeout: time.Minute})
}

// socketPair is a net.Pipe with room for some megabytes each way, as a socket has.
func socketPair() (a, b net.Conn) {
	a, inner := net.Pipe()
	outer, b := net.Pipe()
	go pump(outer, inner)
	go pump(inner, outer)
	return a, b
}

func pump(dst, src net.Conn) {
	way := make(chan []byte, 4096)
	go func() {
		defer close(way)
		for {
			b := make([]byte, 64<<10)
			n, err := src.Read(b)
			if err != nil {
				return
			}
			way <- b[:n]
		}
	}()
	for b := range way {
		if _, err := dst.Write(b); err != nil {
			src.Close() // ends the other loop
		}
	}
	dst.Close()
	src.Close()
}

func (n *fakeNode) serve(nc net.Conn) {
	defer func() {
		nc.Close()
		n.set(func() { delete(n.mu.conns, nc) })
	}()
	in := wire.NewFrameReader(bufio.NewReaderSize(nc, 64<<10))
	var out wire.Replies
	for {
		h, p, err := in.Next()
		if err != nil {
			return
		}
		n.mu.Lock()
		frozen, delay := n.mu.frozen, n.mu.delay
		n.mu.Unlock()
		if frozen != nil {
			select {
			case <-frozen:
			case <-n.ended:
			}
		}
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-n.ended:
			}
		}
		reply, err := n.answer(h.Op, p)
		if err != nil {
			out.Error(h, err)
		} else {
			out.Reply(h, reply)
		}
		if delay > 0 || !in.Ready() {
			if out.Flush(nc) != nil {
				return
			}
		}
	}
}

func (n *fakeNode) answer(op wire.Op, p []byte) ([]byte, error) {
	n.requests.Add(1)
	n.mu.Lock()
	refuse := n.mu.refuse
	n.mu.Unlock()
	if refuse != nil {
		if err := refuse(op, p); err != nil {
			return nil, err
		}
	}
	switch op {
	case wire.OpHello:
		return wire.HelloReply{Version: wire.Version, Epoch: n.arena().Epoch(), ArenaSize: uint64(len(n.arena().Bytes()))}.AppendTo(nil)
	case wire.OpPing:
		return nil, nil
	case wire.OpPut:
		req, err := wire.ParsePut(p)
		if err != nil {
			return nil, err
		}
		return nil, n.put(layout.Put{Shard: req.ShardHash, Chunk: req.Chunk, From: int(req.From), CRC: req.CRC, Data: req.Data})
	case wire.OpPublish:
		req, err := wire.ParsePublish(p)
		if err != nil {
			return nil, err
		}
		shard, err := layout.ParseShard(string(req.Shard))
		if err != nil {
			return nil, err
		}
		e := layout.Entry{Length: req.Length, TailCRC: req.TailCRC, HeartbeatMS: req.HeartbeatMS, Incarnation: req.Incarnation, Flags: uint16(req.Flags)}
		return nil, n.Publish(layout.Publication{Shard: shard, Entry: e, Ballot: layout.Ballot(req.Ballot)})
	case wire.OpLease:
		req, err := wire.ParseLease(p)
		if err != nil {
			return nil, err
		}
		r, err := n.Lease(req)
		if err != nil {
			return nil, err
		}
		return r.AppendTo(nil)
	}
	return nil, wire.ErrBadRequest
}

func (n *fakeNode) put(p layout.Put) error {
	err := n.arena().Put(p)
	if errors.Is(err, chunkstore.ErrPrefix) {
		return &wire.Error{Status: wire.StatusNeedPrefix}
	}
	return err
}

// Put implements LocalNode.
func (n *fakeNode) Put(_ layout.Shard, p layout.Put) error {
	err := n.put(p)
	if whole, ok := p.FromStart(); ok && errors.Is(err, wire.ErrNeedPrefix) {
		err = n.put(whole)
	}
	return err
}

// Publish implements LocalNode.
func (n *fakeNode) Publish(p layout.Publication) error {
	err := n.arena().Publish(p)
	if err == nil {
		return nil // without held, which would be allocated
	}
	var held *chunkstore.LeaseError
	if errors.As(err, &held) {
		return &wire.Error{Status: wire.StatusLease, Arg0: held.Held.Ballot.Sequence, Arg1: held.Held.Ballot.Nonce, Message: held.Held.Owner}
	}
	return err
}

// Lease implements LocalNode.
func (n *fakeNode) Lease(l wire.Lease) (wire.LeaseReply, error) {
	shard, err := layout.ParseShard(string(l.Shard))
	if err != nil {
		return wire.LeaseReply{}, err
	}
	leases := n.arena().Leases()
	var h chunkstore.Lease
	switch l.Action {
	case wire.LeaseQuery:
		h = leases.Query(shard)
	case wire.LeaseAcquire:
		h = leases.Acquire(shard, layout.Ballot(l.Ballot), string(l.Owner), l.TTL)
	case wire.LeaseRelease:
		h = leases.Release(shard, layout.Ballot(l.Ballot))
	}
	return wire.LeaseReply{Ballot: wire.Ballot(h.Ballot), Left: h.Left, Owner: []byte(h.Owner)}, nil
}

// fakeSource is a cluster whose description changes.
type fakeSource struct {
	mu struct {
		sync.Mutex
		view    *cluster.View
		changed chan struct{}
	}
}

func (s *fakeSource) View() (*cluster.View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.view, s.mu.changed
}

// describe changes the description.
func (s *fakeSource) describe(t testing.TB, d cluster.Description) {
	v, err := cluster.NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.mu.changed
	s.mu.view, s.mu.changed = v, make(chan struct{})
	if old != nil {
		close(old)
	}
}

// site is a cluster of fake nodes around one log.
type site struct {
	t      testing.TB
	ttl    time.Duration
	desc   cluster.Description
	source *fakeSource
	nodes  map[string]*fakeNode
	log    *fakeLog
	// reads counts what repair has read from the store, in bytes.
	reads atomic.Int64
}

// newSite is one of n nodes n1, n2, ..., all with both roles.
func newSite(t testing.TB, n int, change func(*cluster.Description)) *site {
	s := &site{t: t, ttl: time.Minute, source: &fakeSource{}, nodes: map[string]*fakeNode{}, log: newFakeLog(new(trace))}
	for i := range n {
		s.desc.Nodes = append(s.desc.Nodes, fakeMember(i+1))
	}
	s.desc.Store.Dir = "/store"
	s.desc.TTL = s.ttl
	if change != nil {
		change(&s.desc)
	}
	for _, n := range s.desc.Nodes {
		s.nodes[n.Name] = newFakeNode(t, n.Name, s.ttl)
	}
	s.source.describe(t, s.desc)
	return s
}

func fakeMember(i int) cluster.Node {
	name := fmt.Sprintf("n%d", i)
	return cluster.Node{Name: name, Addr: name + ":7440", Roles: cluster.Data | cluster.Metadata, Weight: 1}
}

func (s *site) node(i int) *fakeNode { return s.nodes[fmt.Sprintf("n%d", i)] }

// Stat and ReadAt make the log the store of all shards.
func (s *site) Stat(context.Context, string) (durable.Info, error) { return s.log.Info(), nil }

func (s *site) ReadAt(ctx context.Context, _ string, pos uint64, p []byte) (int, error) {
	n, err := s.log.ReadAt(ctx, pos, p)
	s.reads.Add(int64(n))
	return n, err
}

// cache is a producer's; change may be nil.
func (s *site) cache(change func(*ReplicaConfig)) *ReplicaCache {
	s.t.Helper()
	cfg := ReplicaConfig{
		Source: s.source, Store: s, Owner: "writer", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Local: map[string]LocalNode{},
		Dial: func(ctx context.Context, n cluster.Node) (*wire.Client, error) { return s.nodes[n.Name].dial(ctx) },
	}
	for name, n := range s.nodes {
		if n.local {
			cfg.Local[name] = n
		}
	}
	if change != nil {
		change(&cfg)
	}
	c, err := NewReplicaCache(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// open is an Appender over a cache.
func (s *site) open(c *ReplicaCache) *Appender {
	s.t.Helper()
	a, err := Open(s.t.Context(), Config{Shard: testShard, Log: s.log, ReadTail: s.log.ReadAt, Cache: c})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// end closes everything, so that a bubble can end.
func (s *site) end(a *Appender, c *ReplicaCache) {
	s.t.Helper()
	for _, n := range s.nodes {
		close(n.ended)
	}
	if a != nil {
		mustClose(s.t, a)
	}
	if err := c.Close(); err != nil {
		s.t.Error(err)
	}
	for _, n := range s.nodes {
		n.kill()
	}
	synctest.Wait()
}

// add appends n bytes, and returns how long that took.
func (s *site) add(a *Appender, n int) time.Duration {
	s.t.Helper()
	began, at := time.Now(), s.log.Info().Length
	pos, err := appendOne(context.Background(), a, pattern(at, n))
	if err != nil || pos != at {
		s.t.Fatalf("append of %d at %d: %d, %v", n, at, pos, err)
	}
	return time.Since(began)
}

func (s *site) hash() layout.Hash { return testShard.Hash(s.log.Info().Incarnation) }

// holds says whether a node has a chunk of the log as far as the log goes; a
// chunk with other bytes fails the test.
func (s *site) holds(n *fakeNode, chunk uint64) bool {
	s.t.Helper()
	start, length := chunk*layout.ChunkSize, s.log.Info().Length
	got := chunkOf(s.t, n.arena().Bytes(), s.hash(), chunk)
	if !bytes.Equal(got, pattern(start, len(got))) {
		s.t.Fatalf("node %s has wrong bytes in chunk %d", n.name, chunk)
	}
	return uint64(len(got)) == min(layout.ChunkSize, length-start)
}

// full are the full replicas of a chunk in the present View.
func (s *site) full(chunk uint64) (nodes []*fakeNode) {
	view, _ := s.source.View()
	var set cluster.Replicas
	view.Extent(s.hash(), chunk/layout.ChunksPerExtent, &set)
	for _, i := range set.Full() {
		nodes = append(nodes, s.nodes[view.Nodes[i].Name])
	}
	return nodes
}

// pages are the metadata replicas of the shard.
func (s *site) pages() (nodes []*fakeNode) {
	view, _ := s.source.View()
	var set cluster.Replicas
	view.Page(layout.StreamHash(testShard.Stream), testShard.Page(), &set)
	for _, i := range set.Full() {
		nodes = append(nodes, s.nodes[view.Nodes[i].Name])
	}
	return nodes
}

// published is the length on a node; 0: none.
func (s *site) published(n *fakeNode) uint64 {
	e := entryOf(s.t, n.arena().Bytes(), testShard)
	if e.Incarnation == 0 || !e.Valid(s.hash()) {
		return 0
	}
	return e.Length
}

// copies counts the full replicas that hold each chunk of [from, to), and returns
// the fewest.
func (s *site) copies(from, to uint64) (fewest int) {
	s.t.Helper()
	fewest = cluster.MaxReplicas
	for chunk := layout.Chunk(from); chunk*layout.ChunkSize < to; chunk++ {
		n := 0
		for _, node := range s.full(chunk) {
			if s.holds(node, chunk) {
				n++
			}
		}
		fewest = min(fewest, n)
	}
	return fewest
}

// lengths counts the metadata replicas that have published the whole log.
func (s *site) lengths() (n int) {
	for _, node := range s.pages() {
		if s.published(node) == s.log.Info().Length {
			n++
		}
	}
	return n
}

// stat is what a cache has counted for a node.
func stat(c *ReplicaCache, name string) NodeStats {
	for _, n := range c.Stats().Nodes {
		if n.Node == name {
			return n
		}
	}
	return NodeStats{}
}
