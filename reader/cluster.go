package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// Cluster is a process's view of one node and its durable store: connections,
// one poller and one set of limits, shared by all Readers opened from it. Safe
// for concurrent use.
type Cluster struct {
	cfg   Config
	peer  *peer // nil without a server
	dir   *durable.Dir
	gate  *gate
	count counters

	ctx     context.Context // ends with the Cluster; bounds its dials
	cancel  context.CancelFunc
	stop    <-chan struct{}
	tasks   sync.WaitGroup
	pollNow chan struct{}
	metrics prometheus.Collector // registered, or nil; taken by Close

	// blind is set while no memory path answers the poller: lengths then come from
	// the store.
	blind atomic.Bool

	// pages are what the poller reads. The list and each page's shards are
	// replaced under mu, never changed: the poller takes them without a lock.
	pages atomic.Pointer[[]*page]

	mu struct {
		sync.Mutex
		closed  bool
		follows map[shardKey]*follow
	}
}

// Open connects to the node of cfg and starts following nothing yet. A node that
// is away is an error only if no durable directory is set. ctx bounds the first
// connections.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newCluster(cfg)
	var s store = nodeStore{c}
	if cfg.Dir != "" {
		if c.dir, err = durable.Open(cfg.Dir, durable.Options{Logger: cfg.Logger, ReadOnly: true}); err != nil {
			c.cancel()
			return nil, err
		}
		s = c.dir
	}
	c.gate = newGate(s, cfg, &c.count)
	if cfg.Cluster != nil {
		view, _ := cfg.Cluster.View()
		if err := c.connect(ctx, view.Nodes[0]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	c.register()
	return c, nil
}

func newCluster(cfg Config) *Cluster {
	c := &Cluster{cfg: cfg, pollNow: make(chan struct{}, 1)}
	c.mu.follows = map[shardKey]*follow{}
	c.pages.Store(new([]*page))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.stop = c.ctx.Done()
	return c
}

func (c *Cluster) connect(ctx context.Context, node cluster.Node) error {
	c.peer = newPeer(c, node)
	c.tasks.Go(c.peer.run)
	poll := &poller{c: c}
	c.tasks.Go(poll.run)
	select {
	case <-c.peer.ready:
		switch {
		case c.peer.err == nil:
		case c.dir != nil:
			c.cfg.Logger.Warn("node not reached, reading from the durable directory", "node", node.Name, "dir", c.cfg.Dir, "err", c.peer.err)
		default:
			return fmt.Errorf("%w; start it with 'rmatail serve', or set a durable directory to read without it", c.peer.err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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

// Stats returns what was done so far.
func (c *Cluster) Stats() Stats {
	s := c.count.snapshot()
	s.Transport, s.Why = "none", "no node is set"
	if c.peer != nil {
		st := c.peer.status.Load()
		s.Transport, s.Why = st.transport, st.why
	}
	return s
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

// paths returns the memory paths that are up, best first. The result is shared:
// it is not to be changed.
func (c *Cluster) paths(now time.Time) []*path {
	if c.peer == nil {
		return nil
	}
	live := *c.peer.live.Load()
	for i, p := range live {
		if !p.up(now) {
			up := append([]*path(nil), live[:i]...) // rare: something is wrong
			for _, p := range live[i+1:] {
				if p.up(now) {
					up = append(up, p)
				}
			}
			return up
		}
	}
	return live
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

// view returns what a Reader of f decides upon, with the paths that are up.
func (c *Cluster) view(f *follow, now time.Time) (view, published, []*path) {
	paths := c.paths(now)
	v, pub := f.view(now, len(paths), c.blind.Load() || len(paths) == 0)
	if len(paths) == 0 {
		v.backAt = c.pathsBack()
	}
	return v, pub, paths
}

// pathsBack returns when the first of the paths that rest is up again; zero if
// none is connected.
func (c *Cluster) pathsBack() (at time.Time) {
	if c.peer == nil {
		return at
	}
	for _, p := range *c.peer.live.Load() {
		select {
		case <-p.Lost():
		default:
			until := p.restUntil.Load()
			if until == nil { // it has come since it was asked for
				return time.Now()
			}
			at = earliest(at, *until)
		}
	}
	return at
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
		f.mu.statAt = time.Now().Add(statRestMin) // i is the store's answer
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
		g := &page{key: layout.StreamHash(f.shard.Stream), number: f.shard.Page()}
		g.shards.Store(&[]*follow{f})
		pages = append(slices.Clone(pages), g)
		c.pages.Store(&pages)
	} else {
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

// nodeStore is the durable store of the connected node.
type nodeStore struct{ c *Cluster }

func (n nodeStore) remote() (*durable.Remote, error) {
	if n.c.peer != nil {
		if client := n.c.peer.client.Load(); client != nil {
			return durable.NewRemote(client), nil
		}
	}
	return nil, errNoStore
}

func (n nodeStore) Stat(ctx context.Context, shard string) (durable.Info, error) {
	r, err := n.remote()
	if err != nil {
		return durable.Info{}, err
	}
	return r.Stat(ctx, shard)
}

func (n nodeStore) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error) {
	r, err := n.remote()
	if err != nil {
		return 0, err
	}
	return r.ReadAt(ctx, shard, pos, p)
}

func (n nodeStore) List(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
	r, err := n.remote()
	if err != nil {
		return nil, err
	}
	return r.List(ctx, after, limit)
}
