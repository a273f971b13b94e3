package producer

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// ReplicaCache is the cache of a cluster: it puts each chunk to the nodes of its
// replica set and publishes lengths on those of their pages, as the package
// comment says. One serves all Appenders of a process. Its methods may be called
// at once.
type ReplicaCache struct {
	cfg     ReplicaConfig
	top     atomic.Pointer[topology]
	rounds  sync.Pool // of *round
	metrics *replicaCollector

	degradedPuts, degradedPublishes, failedPuts, failedPublishes atomic.Uint64

	life  context.Context // ends with Close
	end   context.CancelFunc
	ended sync.WaitGroup // every goroutine
	work  chan struct{}  // capacity 1: there may be something to repair

	mu struct {
		sync.Mutex
		shards map[layout.Shard]*recent // put to within the time to live
		nodes  map[string]*node
		closed bool
	}
}

// topology is a View with its nodes. It never changes.
type topology struct {
	view   *cluster.View
	nodes  []*node // by index in the View
	remote bool    // there are nodes elsewhere
}

// NewReplicaCache returns the cache of a cluster. It connects in the background:
// a node that is away is no error. Errors match ErrConfig.
func NewReplicaCache(cfg ReplicaConfig) (*ReplicaCache, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &ReplicaCache{cfg: cfg, work: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.Background())
	c.mu.shards, c.mu.nodes = make(map[layout.Shard]*recent), make(map[string]*node)
	view, changed := cfg.Source.View()
	c.cfg.TTL = cmp.Or(cfg.TTL, view.TTL)
	c.install(view)
	c.metrics = newReplicaCollector(cfg.Registerer, c)
	c.ended.Add(2)
	go c.watch(changed)
	go c.repair()
	return c, nil
}

// Put implements Cache: it returns when each put is with a quorum of the full
// replicas of its extent, or with those that live. An error says why no full
// replica has taken the put; it matches ErrClosed after Close. It takes no longer
// than ReplicaConfig.Timeout.
func (c *ReplicaCache) Put(shard layout.Shard, puts []layout.Put, errs []error) {
	if len(puts) == 0 {
		return
	}
	s := c.shard(shard, puts[0].Shard, puts[0].Incarnation)
	if s == nil {
		for i := range errs {
			errs[i] = ErrClosed
		}
		return
	}
	// Noted first: a node that is found empty from now on lacks these, too.
	from, to := span(puts)
	s.note(from, to, time.Now())
	top := c.top.Load()
	r := c.round(s, wire.OpPut)
	r.place(top, puts)
	r.send(top)
	r.await(top)
	r.mu.Lock()
	for i := range r.mu.slots {
		switch v := &r.mu.slots[i]; v.outcome() {
		case taken:
		case degraded:
			c.degradedPuts.Add(1)
		case failed:
			c.failedPuts.Add(1)
			errs[i] = v.fault(r.op, c.cfg.Timeout)
		}
	}
	r.mu.Unlock()
	r.release()
}

// span is where the puts lie, from the start of the first chunk on.
func span(puts []layout.Put) (from, to uint64) {
	from = puts[0].Chunk * layout.ChunkSize
	for i := range puts {
		at := puts[i].Chunk * layout.ChunkSize
		from, to = min(from, at), max(to, at+uint64(puts[i].From+len(puts[i].Data)))
	}
	return from, to
}

// place gives each put a slot with the replicas of its extent.
func (r *round) place(top *topology, puts []layout.Put) {
	if top.remote {
		r.copy(puts)
	} else {
		r.puts = append(r.puts, puts...) // nobody needs them after the call
	}
	var set cluster.Replicas
	last := ^uint64(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range puts {
		if e := puts[i].Chunk / layout.ChunksPerExtent; e != last {
			top.view.Extent(puts[i].Shard, e, &set)
			last = e
		}
		r.mu.slots = append(r.mu.slots, slot{replicas: replicasOf(&set), quorum: min(top.view.Quorum, len(set.Full()))})
	}
}

// Publish implements Cache: it returns when a quorum of the metadata replicas of
// the shard's page has the length, or all of those that live. Once any of them has
// refused a ballot for a newer one, an error that matches wire.ErrLease is
// returned. It takes no longer than ReplicaConfig.Timeout.
func (c *ReplicaCache) Publish(p layout.Publication) error {
	s := c.shard(p.Shard, p.Shard.Hash(p.Entry.Incarnation), p.Entry.Incarnation)
	if s == nil {
		return ErrClosed
	}
	if err := s.refusal(p.Ballot); err != nil {
		return err
	}
	top := c.top.Load()
	r := c.round(s, wire.OpPublish)
	defer r.release()
	r.publication = p
	if err := r.publish(s.name, p); err != nil {
		return err
	}
	switch v := r.page(top, p.Shard, weak); v.outcome() {
	case degraded:
		c.degradedPublishes.Add(1)
	case failed:
		c.failedPublishes.Add(1)
		return v.fault(r.op, c.cfg.Timeout)
	case taken:
		if v.lease != nil && p.Ballot != (layout.Ballot{}) {
			return v.lease
		}
	}
	return nil
}

// publish encodes a publication.
func (r *round) publish(name string, p layout.Publication) (err error) {
	req := wire.Publish{
		Incarnation: p.Entry.Incarnation, Length: p.Entry.Length, TailCRC: p.Entry.TailCRC, HeartbeatMS: p.Entry.HeartbeatMS,
		Ballot: wire.Ballot(p.Ballot),
	}
	if p.Entry.Flags&layout.FlagSealed != 0 {
		req.Flags |= wire.ShardSealed
	}
	r.name = append(r.name[:0], name...)
	req.Shard = r.name
	r.head, err = req.AppendTo(r.head)
	return err
}

// strictness says whether a quorum shrinks to the replicas that live.
type strictness int

const (
	weak strictness = iota
	strict
)

// page runs a round over the metadata replicas of the shard's page, and returns
// its only slot as it was then.
func (r *round) page(top *topology, shard layout.Shard, how strictness) slot {
	var set cluster.Replicas
	top.view.Page(layout.StreamHash(shard.Stream), shard.Page(), &set)
	s := slot{replicas: replicasOf(&set), strict: how == strict, quorum: min(top.view.MetadataQuorum, len(set.Full()))}
	r.mu.Lock()
	r.mu.slots = append(r.mu.slots, s)
	r.mu.Unlock()
	r.send(top)
	r.await(top)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.slots[0]
}

// shard returns what is known of a shard; nil after Close.
func (c *ReplicaCache) shard(shard layout.Shard, hash layout.Hash, incarnation uint64) *recent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil
	}
	s := c.mu.shards[shard]
	if s == nil || s.hash != hash {
		if s != nil {
			s.kill() // the shard was deleted and made again
		}
		s = &recent{shard: shard, name: shard.String(), hash: hash, incarnation: incarnation, ttl: c.cfg.TTL}
		c.mu.shards[shard] = s
	}
	return s
}

// Stats are the counts since NewReplicaCache.
func (c *ReplicaCache) Stats() ReplicaStats {
	s := ReplicaStats{
		DegradedPuts: c.degradedPuts.Load(), DegradedPublishes: c.degradedPublishes.Load(),
		FailedPuts: c.failedPuts.Load(), FailedPublishes: c.failedPublishes.Load(),
	}
	for _, n := range c.top.Load().nodes {
		s.Nodes = append(s.Nodes, n.stats())
	}
	return s
}

// Close ends the connections and all goroutines. What is under way fails, and so
// does every later call, with ErrClosed.
func (c *ReplicaCache) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.end()
	c.ended.Wait()
	c.metrics.unregister()
	return nil
}
