// Package survey asks every node of a cluster how it is and what it holds, and the
// durable store what there is to hold: what `rmatail stat --cluster`, `rmatail top` and a
// node's page show.
//
// It reads as a consumer does, and changes nothing: node statistics, leases, and,
// over TCP, the length pages and identities in each node's memory. A node that is
// away is a result, not an error.
//
// Lag is what a consumer that polls one metadata replica cannot know of yet: the
// durable length of a shard, minus the length that the replica has published. The
// store is asked first, so that a shard that grows meanwhile has no lag by that.
//
// The hit rate of a data node is the part of the complete chunks of the last 256 KiB
// of each shard that the node holds, of those that placement gives it. (Reads over
// shared memory and RDMA are none that a node could count.) Of many shards less of each
// is looked for, so that a survey stays cheap: see recentMost.
package survey

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// recentExtents of each shard are looked for, but one at least, and no more than
	// recentMost of all shards together.
	recentExtents = 4
	recentMost    = 512
)

// Options of a survey.
type Options struct {
	// Dial connects to a node.
	Dial func(ctx context.Context, addr string) (*wire.Client, error)
	// Done gets back what Dial returned, with what went wrong on it (nil: nothing),
	// instead of its being closed.
	Done func(addr string, c *wire.Client, err error)
	// List returns shards of the durable store behind a name.
	List func(ctx context.Context, after string, limit int) ([]durable.Entry, error)
	// Wanted says which shards count; nil: all.
	Wanted func(shard string) bool
	// Shards bounds how many are looked at.
	Shards int
	// Timeout bounds what one node may take.
	Timeout time.Duration
}

// Report is a cluster's state. Its JSON keys are an interface.
type Report struct {
	Name  string `json:"name,omitempty"`
	Nodes []Node `json:"nodes"`
	// Shards are those of the durable store, up to Options.Shards of them; More says
	// that there are others.
	Shards []Shard `json:"shards"`
	More   bool    `json:"more,omitempty"`
	// StoreError is why the durable store could not be listed.
	StoreError string `json:"store_error,omitempty"`
}

// Node is what one node says.
type Node struct {
	Name    string   `json:"name"`
	Addr    string   `json:"addr"`
	Roles   []string `json:"roles"`
	Weight  uint32   `json:"weight"`
	Partial bool     `json:"partial"`
	Store   bool     `json:"store"` // owns the durable directory
	Up      bool     `json:"up"`
	Error   string   `json:"error,omitempty"` // why it is not up, or what it could not say
	Epoch   uint64   `json:"epoch"`
	Uptime  float64  `json:"uptime_seconds"`
	// RoundTrip is how long the node took to answer a Ping, in seconds.
	RoundTrip float64 `json:"round_trip_seconds"`
	Arena     uint64  `json:"arena_bytes"`
	Extents   Table   `json:"extents"`
	Pages     Table   `json:"pages"`
	Puts      uint64  `json:"puts"`
	Publishes uint64  `json:"publishes"`
	Reads     uint64  `json:"tcp_reads"` // ranges of its memory read over TCP
	Durable   uint64  `json:"durable_reads"`
	Appends   uint64  `json:"appends"`
	Leases    int     `json:"leases"` // of the shards below, that live by its clock
	// HitRate is the part of the recent chunks placed on it that it holds; nil: there
	// are none.
	HitRate *float64 `json:"hit_rate"`
	// Missing is what the writers of the store's node have put, and this node still
	// lacks, in bytes; nil: not known.
	Missing *uint64 `json:"missing_bytes"`
	// Stat is everything that the node says of itself.
	Stat json.RawMessage `json:"stat,omitempty"`

	chunks, held int
}

// Table is how full one of a node's tables is.
type Table struct {
	Ways int `json:"ways"`
	Used int `json:"used"`
}

// Shard is what the store and the metadata replicas say of a shard.
type Shard struct {
	Shard    string    `json:"shard"`
	First    uint64    `json:"first"`
	Length   uint64    `json:"length"` // durable
	Sealed   bool      `json:"sealed"`
	Lag      uint64    `json:"lag"` // of the replica that is the furthest; the length if none has published
	Replicas []Replica `json:"replicas"`
	// Verdict is what is the matter; of who settles it, the survey leaves it unknown.
	cause.Verdict

	name layout.Shard
	hash layout.Hash
}

// Replica is what one metadata replica says of a shard.
type Replica struct {
	Node string `json:"node"`
	// Published is the length that it has published, 0 if none; Lag what it lacks.
	Published uint64 `json:"published"`
	Lag       uint64 `json:"lag"`
	Error     string `json:"error,omitempty"` // why it could not say
	// Hidden: the shard is in a tenant's memory, which only its tenant can read. Published
	// is what the node tells then, if it tells anything of the shard.
	Hidden bool `json:"hidden,omitempty"`
	// Heartbeat is the producer's in the entry, in ms of its own clock: news when it
	// has changed. 0: there is no entry.
	Heartbeat uint64 `json:"heartbeat_ms,omitempty"`
	// Writer holds the lease by this replica, for Left more; empty if nobody does.
	Writer string  `json:"writer,omitempty"`
	Ballot uint64  `json:"ballot,omitempty"` // its sequence
	Left   float64 `json:"lease_seconds,omitempty"`
}

// Of surveys the cluster of a View.
func Of(ctx context.Context, v *cluster.View, o Options) Report {
	s := &survey{view: v, o: o, report: Report{Name: v.Name, Nodes: make([]Node, len(v.Nodes)), Shards: []Shard{}}}
	s.list(ctx)
	s.prepare()
	var all sync.WaitGroup
	for i := range v.Nodes {
		all.Go(func() { s.visit(ctx, i) })
	}
	all.Wait()
	s.sum()
	return s.report
}

// survey is one survey. Each node has a goroutine, which writes its own Node and its
// own Replicas only.
type survey struct {
	view   *cluster.View
	o      Options
	report Report
	// tasks of each node.
	tasks []task
}

// task is what one node is asked for.
type task struct {
	replicas []replicaOf
	extents  []extentOf
}

// replicaOf is a Replica that a node fills.
type replicaOf struct {
	shard *Shard
	to    *Replica
}

// extentOf is an extent that placement gives to a node.
type extentOf struct {
	shard  *Shard
	number uint64
}

// list asks the store which shards there are.
func (s *survey) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	for after := ""; ; {
		entries, err := s.o.List(ctx, after, s.page())
		if err != nil {
			s.report.StoreError = err.Error()
			return
		}
		if len(entries) == 0 {
			return
		}
		for _, e := range entries {
			after = e.Shard
			name, err := layout.ParseShard(e.Shard)
			if err != nil || s.o.Wanted != nil && !s.o.Wanted(e.Shard) {
				continue
			}
			if len(s.report.Shards) == s.o.Shards {
				s.report.More = true
				return
			}
			s.report.Shards = append(s.report.Shards, Shard{Shard: e.Shard, First: e.First, Length: e.Length, Sealed: e.Sealed,
				name: name, hash: name.Hash(e.Incarnation)})
		}
	}
}

// page is how many shards are asked for at once: no more than are looked at, if all
// of them count.
func (s *survey) page() int {
	if s.o.Wanted != nil {
		return wire.MaxList
	}
	return min(wire.MaxList, s.o.Shards-len(s.report.Shards)+1)
}

// prepare finds who is asked for what.
func (s *survey) prepare() {
	s.tasks = make([]task, len(s.view.Nodes))
	var r cluster.Replicas
	recent := uint64(min(max(recentMost/max(len(s.report.Shards), 1), 1), recentExtents))
	for i := range s.report.Shards {
		shard := &s.report.Shards[i]
		s.view.Page(layout.StreamHash(shard.name.Stream), shard.name.Page(), &r)
		shard.Replicas = make([]Replica, len(r.All()))
		for k, n := range r.All() {
			shard.Replicas[k].Node = s.view.Nodes[n].Name
			s.tasks[n].replicas = append(s.tasks[n].replicas, replicaOf{shard, &shard.Replicas[k]})
		}
		if shard.Length == 0 {
			continue
		}
		last := (shard.Length - 1) / layout.ExtentSize
		for e := max(last, recent-1) - (recent - 1); e <= last; e++ {
			s.view.Extent(shard.hash, e, &r)
			for _, n := range r.All() {
				s.tasks[n].extents = append(s.tasks[n].extents, extentOf{shard, e})
			}
		}
	}
}

// sum fills in what follows from all answers.
func (s *survey) sum() {
	s.missing()
	for i := range s.report.Nodes {
		if n := &s.report.Nodes[i]; n.chunks > 0 {
			rate := float64(n.held) / float64(n.chunks)
			n.HitRate = &rate
		}
	}
	for i := range s.report.Shards {
		shard := &s.report.Shards[i]
		shard.Lag = shard.Length
		for _, r := range shard.Replicas {
			if r.Error == "" {
				shard.Lag = min(shard.Lag, r.Lag)
			}
		}
	}
}

// missing takes from the owner of the store what its writers know of the other nodes.
func (s *survey) missing() {
	owner, ok := s.view.Node(s.view.Store.Node)
	if !ok || !s.report.Nodes[owner].Up {
		return
	}
	var st struct {
		Replicas struct {
			Nodes []struct {
				Node    string `json:"node"`
				Missing uint64 `json:"missing_bytes"`
			} `json:"nodes"`
		} `json:"replicas"`
	}
	if json.Unmarshal(s.report.Nodes[owner].Stat, &st) != nil { // it was read as a nodeStat before
		return
	}
	for _, r := range st.Replicas.Nodes {
		if i, ok := s.view.Node(r.Node); ok {
			s.report.Nodes[i].Missing = &r.Missing
		}
	}
}
