package reader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// Cluster is a process's view of the nodes of one site and their durable store:
// connections, one poller and one set of limits, shared by all Readers opened from
// it. Safe for concurrent use.
type Cluster struct {
	cfg      Config
	name     string                 // of the nodes together, for metrics
	roster   atomic.Pointer[roster] // nil without nodes
	dir      *durable.Dir
	gate     *gate
	count    counters
	observer observer
	hangar   hangar
	// runPeer keeps the connections to a node: (*peer).run but in tests.
	runPeer func(p *peer, after time.Duration)
	// now is the clock that Readers decide by: time.Now but in a Virtual.
	now func() time.Time

	ctx     context.Context // ends with the Cluster; bounds its dials
	cancel  context.CancelFunc
	stop    <-chan struct{}
	tasks   sync.WaitGroup // see spawn
	pollNow chan struct{}
	metrics prometheus.Collector // registered, or nil; taken by Close

	// pages are what the poller reads. The list and each page's shards are
	// replaced under mu, never changed: the poller takes them without a lock.
	pages atomic.Pointer[[]*page]

	mu struct {
		sync.Mutex
		closed  bool
		follows map[shardKey]*follow
		nics    map[string]*nic // by device
	}
}

// Open connects to the nodes of cfg and starts following nothing yet. That none of
// them answers is an error only if no durable directory is set. ctx bounds the
// first connections.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newCluster(cfg)
	var view *cluster.View
	var changed <-chan struct{}
	if cfg.Cluster != nil {
		view, changed = cfg.Cluster.View()
	}
	s, err := c.openStore(view)
	if err != nil {
		c.cancel()
		return nil, err
	}
	c.gate = newGate(s, cfg, &c.count)
	if view != nil {
		c.name = cmp.Or(cfg.Server, view.Name)
		if err := c.connect(ctx, view, changed); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	c.register()
	if cfg.Name != "" {
		c.spawn(c.report)
	}
	return c, nil
}

func newCluster(cfg Config) *Cluster {
	c := &Cluster{cfg: cfg, pollNow: make(chan struct{}, 1), runPeer: (*peer).run, now: time.Now}
	c.observer.c = c
	c.mu.follows = map[shardKey]*follow{}
	c.mu.nics = map[string]*nic{}
	c.pages.Store(new([]*page))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.stop = c.ctx.Done()
	return c
}

// spawn runs f as a task that Close waits for. It does not once Close has begun.
func (c *Cluster) spawn(f func()) (running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.tasks.Go(f)
	return true
}

// nic returns the budget of the network device that a connection goes over; nil for
// shared memory. All tcp shares one, as its device is the kernel's choice.
func (c *Cluster) nic(m memory) *nic {
	device := "tcp"
	switch m := m.(type) {
	case shmMemory:
		return nil
	case rdmaMemory:
		device = "rdma " + m.Path.Device
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.mu.nics[device]
	if b == nil {
		b = newNIC(c.cfg.BytesInFlight)
		c.mu.nics[device] = b
	}
	return b
}

// register offers the counters to the Registerer. A second Cluster for the same
// node on one Registerer keeps its counters to itself, and says so.
func (c *Cluster) register() {
	if c.cfg.Registerer == nil {
		return
	}
	k := newCollector(c)
	if err := c.cfg.Registerer.Register(k); err != nil {
		c.cfg.Logger.Warn("reader metrics are not registered; give each Cluster a Registerer of its own (prometheus.WrapRegistererWith)", "err", err)
		return
	}
	c.metrics = k
	c.observer.begin()
}

// Close ends all Readers, connections and goroutines of the Cluster. Closing twice
// is fine.
func (c *Cluster) Close() error {
	c.mu.Lock()
	follows, metrics := c.mu.follows, c.metrics
	c.mu.follows, c.metrics, c.mu.closed = nil, nil, true
	c.mu.Unlock()
	c.cancel()
	for _, f := range follows {
		f.mu.Lock()
		f.wake()
		f.mu.Unlock()
	}
	c.tasks.Wait()
	if metrics != nil {
		c.cfg.Registerer.Unregister(metrics)
	}
	if c.dir != nil {
		return c.dir.Close()
	}
	return nil
}

// Stat asks the durable store about a shard. Errors match wire.ErrUnknownShard
// and the other sentinels of fallback/wire.
func (c *Cluster) Stat(ctx context.Context, shard string) (durable.Info, error) {
	return c.gate.store.Stat(ctx, shard)
}

// List returns up to limit shards of the durable store behind a name.
func (c *Cluster) List(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
	return c.gate.store.List(ctx, after, limit)
}

// pathsChanged wakes the poller and every Reader: what waits for a path, or
// waits instead of a path, decides anew.
func (c *Cluster) pathsChanged() {
	c.pollSoon()
	c.wakeAll()
}

func (c *Cluster) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.mu.follows {
		f.mu.Lock()
		f.wake()
		f.mu.Unlock()
	}
}

// follow returns the shared state of a shard under an incarnation, with r among
// its Readers, and has its length page polled.
func (c *Cluster) follow(shard layout.Shard, i durable.Info, r *Reader) (*follow, error) {
	key := shardKey{shard.String(), i.Incarnation}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, ErrClosed
	}
	f := c.mu.follows[key]
	if f == nil {
		f = newFollow(shard, i.Incarnation)
		f.mu.statAt = c.now().Add(statRestMin) // i is the store's answer
		c.mu.follows[key] = f
		c.pollPage(f)
	}
	f.join(r)
	f.info(i)
	return f, nil
}

// pollPage adds a shard to its page. The lock is held.
func (c *Cluster) pollPage(f *follow) {
	pages := *c.pages.Load()
	i := c.pageOf(pages, f)
	if i < 0 {
		g := newPage(c.roster.Load(), f.shard)
		g.shards.Store(&[]*follow{f})
		f.page = g
		pages = append(slices.Clone(pages), g)
		c.pages.Store(&pages)
	} else {
		f.page = pages[i]
		shards := append(slices.Clone(*pages[i].shards.Load()), f)
		pages[i].shards.Store(&shards)
	}
	c.pollSoon()
}

// unfollow takes a Reader away; the last one of a shard ends its polling.
func (c *Cluster) unfollow(f *follow, r *Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := f.leave(r); !last || c.mu.closed {
		return
	}
	delete(c.mu.follows, f.key)
	pages := *c.pages.Load()
	g := pages[c.pageOf(pages, f)]
	shards := without(*g.shards.Load(), f)
	g.shards.Store(&shards)
	if len(shards) == 0 {
		pages = without(pages, g)
		c.pages.Store(&pages)
	}
}

// pageOf returns the index of a shard's page; negative if it is not polled.
func (c *Cluster) pageOf(pages []*page, f *follow) int {
	key, number := layout.StreamHash(f.shard.Stream), f.shard.Page()
	return slices.IndexFunc(pages, func(g *page) bool { return g.key == key && g.number == number })
}

// pollSoon has the poller read now instead of at the end of its interval.
func (c *Cluster) pollSoon() {
	select {
	case c.pollNow <- struct{}{}:
	default:
	}
}

// without returns a copy of s without x.
func without[T comparable](s []T, x T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(y T) bool { return y == x })
}
