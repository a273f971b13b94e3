package chaos

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// siteConfig is what the scenarios vary.
type siteConfig struct {
	full, partial int // nodes
	arena         uint64
	// ownsStore makes the first node own the durable directory, take the appends and
	// mirror them; else the appenders are in this process.
	ownsStore bool
	shards    int // 2
	// rate is the cap of the readers' limiter, durableRate by default.
	rate int64
	// elsewhere: the producers are the test's matter.
	elsewhere bool
	// netns gives each node a network namespace of its own; else all are on one host
	// and the networks are proxies.
	netns bool
	// rxe makes the nodes export their arenas by its first device, and the direct
	// readers use its second one; they have no shared memory.
	rxe  *rxe
	seed uint64
}

// site is a cluster of real nodes with producers and readers, and networks between
// them that can be broken: one for the writers and one for the readers of each node.
type site struct {
	siteConfig
	t      testing.TB
	dir    string
	store  *durable.Dir
	nodes  []*node
	write  []network
	read   []network
	cache  *producer.ReplicaCache
	feeds  []*feed
	tails  []*tailer
	direct *reader.Cluster // over shared memory (or RDMA), by the nodes' own addresses
	tcp    *reader.Cluster // over the readers' networks
	began  time.Time
	faults map[string]int

	observers []observer
	gone      []bool       // nodes that are not of the cluster at present
	clockBack atomic.Int64 // of the producers in this process, ns

	feeding, reading struct {
		ctx context.Context
		context.CancelFunc
		sync.WaitGroup
	}
}

// durableRate is the limiter's cap of each process of readers, bytes a second.
const durableRate = 8 << 20

// kept is what a long run leaves of each shard: more than readers are ever behind.
const kept = 512 << 20

// catchUp bounds the wait for readers to have everything once faults end.
const catchUp = 30 * time.Second

func newSite(t testing.TB, c siteConfig) *site {
	if c.shards == 0 {
		c.shards = 2
	}
	c.rate = cmp.Or(c.rate, durableRate)
	if c.arena == 0 {
		c.arena = 16 << 20
	}
	s := &site{t: t, siteConfig: c, dir: t.TempDir(), faults: map[string]int{}, began: time.Now(), gone: make([]bool, c.full+c.partial)}
	sockets, err := os.MkdirTemp("", "chaos") // t's own is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	for i := range c.full + c.partial {
		n := &node{t: t, nodeSpec: nodeSpec{Name: string(rune('a' + i)), Arena: c.arena}}
		n.Socket = filepath.Join(sockets, n.Name)
		if i >= c.full { // a partial replica has less room
			n.Arena = max(c.arena/4, 2<<20)
		}
		s.nodes = append(s.nodes, n)
		switch {
		case c.netns:
			s.inNamespace(n, i)
			continue
		case c.rxe != nil:
			n.Listen, n.Device, n.Socket = freeAddr(t, c.rxe.addr[0]), c.rxe.dev[0], server.SocketNone
		default:
			n.Listen = freeAddr(t, "127.0.0.1")
		}
		s.write, s.read = append(s.write, newProxy(t, n.Listen)), append(s.read, newProxy(t, n.Listen))
	}
	if c.ownsStore {
		s.nodes[0].Dir = s.dir
	}
	written := s.described(func(i int) string { return s.write[i].addr() })
	for _, n := range s.nodes {
		n.Cluster = written
		n.start()
		t.Cleanup(n.kill)
	}
	if s.produce(); !c.elsewhere {
		s.follow()
	}
	return s
}

// freeAddr is an address of this host that nobody listens at. Its port is below those
// that the kernel gives to whoever asks for any: a node that is down must find its
// own free when it comes back.
func freeAddr(t testing.TB, host string) string {
	const first, ports, most = 15_000, 15_000, 1000
	for range most {
		addr := fmt.Sprintf("%s:%d", host, first+rand.IntN(ports))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatalf("no free port in %d tries", most)
	return ""
}

// described is the cluster as seen through some network.
func (s *site) described(addr func(i int) string) cluster.Description {
	var d cluster.Description
	for i, n := range s.nodes {
		if s.gone[i] {
			continue
		}
		roles := cluster.Data | cluster.Metadata
		if i >= len(s.nodes)-s.partial {
			roles = cluster.Data
		}
		d.Nodes = append(d.Nodes, cluster.Node{Name: n.Name, Addr: addr(i), Roles: roles, Weight: 1, Partial: i >= len(s.nodes)-s.partial})
	}
	if d.Store.Dir = s.dir; s.ownsStore {
		d.Store = cluster.Store{Node: s.nodes[0].Name}
	}
	return d
}

// own is a node's own address.
func (s *site) own(i int) string {
	if s.netns { // it listens at all of its namespace
		return s.read[i].addr()
	}
	return s.nodes[i].Listen
}

func (s *site) source(d cluster.Description) cluster.Source {
	f, err := cluster.NewFixed(d)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel()}))
}

// produce opens the producers, and appends a first record to each shard.
func (s *site) produce() {
	t := s.t
	var err error
	if s.elsewhere {
		for i := range s.shards {
			s.feeds = append(s.feeds, &feed{shard: layout.Shard{Stream: "chaos", Number: uint32(i)}})
		}
		return
	}
	if !s.ownsStore {
		if s.store, err = durable.Open(s.dir, durable.Options{Policy: durable.Never, SegmentBytes: 32 << 20, RetainBytes: kept}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.store.Close() })
		s.cache, err = producer.NewReplicaCache(producer.ReplicaConfig{Source: s.observed(func(i int) string { return s.write[i].addr() }), Store: s.store, Owner: "chaos", Logger: logger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.cache.Close() })
	}
	for i := range s.shards {
		shard := layout.Shard{Stream: "chaos", Number: uint32(i)}
		var k sink = &nodeSink{addr: s.nodes[0].Listen, shard: shard}
		if !s.ownsStore {
			k = &appenderSink{open: func(ctx context.Context) (*producer.Appender, error) {
				return s.openAppender(ctx, shard)
			}}
		}
		f := newFeed(shard, k, s.seed)
		if f.one(); f.errs.Load() > 0 {
			t.Fatal(f.lastErr())
		}
		s.feeds = append(s.feeds, f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.feeding.CancelFunc = cancel
	t.Cleanup(s.stopFeeding)
	for _, f := range s.feeds {
		s.feeding.Go(func() { f.run(ctx) })
	}
}

func (s *site) openAppender(ctx context.Context, shard layout.Shard) (*producer.Appender, error) {
	log, err := s.store.Log(shard.String())
	if err != nil {
		return nil, err
	}
	a, err := producer.Open(ctx, producer.Config{Shard: shard, Log: log, Cache: s.cache, Logger: logger(),
		Clock: func() time.Time { return time.Unix(0, time.Now().UnixNano()-s.clockBack.Load()) },
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
			return s.store.ReadAt(ctx, shard.String(), pos, p)
		}})
	if err != nil {
		log.Close()
	}
	return a, err
}

func (s *site) stopFeeding() {
	if s.feeding.CancelFunc == nil {
		return
	}
	s.feeding.CancelFunc()
	s.feeding.CancelFunc = nil
	s.feeding.Wait()
	for _, f := range s.feeds {
		if err := f.sink.close(); err != nil && f.errs.Load() == 0 {
			s.t.Errorf("close of %v: %v", f.shard, err)
		}
	}
}

// follow opens a reader of each shard over each transport, from its beginning.
func (s *site) follow() {
	if s.reading.CancelFunc == nil {
		s.reading.ctx, s.reading.CancelFunc = context.WithCancel(context.Background())
		s.t.Cleanup(s.stopReading)
	}
	direct := reader.Config{Transport: reader.SHM, Cluster: s.observed(s.own)}
	if s.rxe != nil {
		direct.Transport, direct.RDMA = reader.RDMA, rdma.DefaultConfig()
		direct.RDMA.Device = s.rxe.dev[1]
		direct.ReadTimeout = time.Second // of an emulated processor
	}
	s.direct = s.readers(direct)
	s.tcp = s.readers(reader.Config{Transport: reader.TCP, Cluster: s.observed(func(i int) string { return s.read[i].addr() })})
}

func (s *site) stopReading() {
	if s.reading.CancelFunc != nil {
		s.reading.CancelFunc()
	}
	s.reading.Wait()
}

func (s *site) readers(cfg reader.Config) *reader.Cluster {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cfg.DurableBytesPerSecond, cfg.Logger = s.rate, logger()
	if !s.ownsStore {
		cfg.Dir = s.dir
	}
	all, err := reader.Open(ctx, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { all.Close() })
	for _, f := range s.feeds {
		s.tail(all, f, &tailer{name: fmt.Sprintf("%v reader of %v", cfg.Transport, f.shard), feed: f.timed()})
	}
	return all
}

// tail starts a reader of a shard.
func (s *site) tail(c *reader.Cluster, f *feed, x *tailer) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	if x.r, err = c.Reader(ctx, f.shard.String(), reader.Earliest()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { x.r.Close() })
	x.shard = f.shard
	s.tails = append(s.tails, x)
	s.reading.Go(func() { x.run(s.reading.ctx) })
}

// wanderers adds readers that seek to and fro.
func (s *site) wanderers() {
	for i, c := range []*reader.Cluster{s.direct, s.tcp} {
		for _, f := range s.feeds {
			s.tail(c, f, &tailer{name: fmt.Sprintf("wanderer %d of %v", i, f.shard), wander: rand.New(rand.NewPCG(s.seed, uint64(f.shard.Number)))})
		}
	}
}
