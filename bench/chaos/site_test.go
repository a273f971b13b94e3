package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	if c.arena == 0 {
		c.arena = 16 << 20
	}
	s := &site{t: t, siteConfig: c, dir: t.TempDir(), faults: map[string]int{}, began: time.Now()}
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
	if s.produce(written); !c.elsewhere {
		s.follow()
	}
	return s
}

// freeAddr is an address of this host that nobody listens at.
func freeAddr(t testing.TB, host string) string {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// described is the cluster as seen through some network.
func (s *site) described(addr func(i int) string) cluster.Description {
	var d cluster.Description
	for i, n := range s.nodes {
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
func (s *site) produce(d cluster.Description) {
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
		s.cache, err = producer.NewReplicaCache(producer.ReplicaConfig{Source: s.source(d), Store: s.store, Owner: "chaos", Logger: logger()})
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
				return openAppender(ctx, s.store, shard, s.cache)
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

func openAppender(ctx context.Context, store *durable.Dir, shard layout.Shard, cache producer.Cache) (*producer.Appender, error) {
	log, err := store.Log(shard.String())
	if err != nil {
		return nil, err
	}
	a, err := producer.Open(ctx, producer.Config{Shard: shard, Log: log, Cache: cache, Logger: logger(),
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
			return store.ReadAt(ctx, shard.String(), pos, p)
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
	direct := reader.Config{Transport: reader.SHM, Cluster: s.source(s.described(s.own))}
	if s.rxe != nil {
		direct.Transport, direct.RDMA = reader.RDMA, rdma.DefaultConfig()
		direct.RDMA.Device = s.rxe.dev[1]
		direct.ReadTimeout = time.Second // of an emulated processor
	}
	s.direct = s.readers(direct)
	s.tcp = s.readers(reader.Config{Transport: reader.TCP, Cluster: s.source(s.described(func(i int) string { return s.read[i].addr() }))})
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
	cfg.DurableBytesPerSecond, cfg.Logger = durableRate, logger()
	if !s.ownsStore {
		cfg.Dir = s.dir
	}
	all, err := reader.Open(ctx, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { all.Close() })
	for _, f := range s.feeds {
		r, err := all.Reader(ctx, f.shard.String(), reader.Earliest())
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { r.Close() })
		x := &tailer{name: fmt.Sprintf("%v reader of %v", cfg.Transport, f.shard), shard: f.shard, feed: f.timed(), r: r}
		s.tails = append(s.tails, x)
		s.reading.Go(func() { x.run(s.reading.ctx) })
	}
	return all
}

// fault notes that something was broken.
func (s *site) fault(kind string) { s.faults[kind]++ }

// pass lets the site run for a time, or until a reader fails.
func (s *site) pass(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-tick.C:
			s.check()
		}
	}
}

func (s *site) check() {
	s.t.Helper()
	for _, x := range s.tails {
		if err := x.err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// holders returns the nodes that hold what is appended to a shard now, full
// replicas only, as indices.
func (s *site) holders(f *feed) []int {
	v, err := cluster.NewView(s.nodes[0].Cluster)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := s.info(f.shard)
	if err != nil {
		s.t.Fatal(err)
	}
	var set cluster.Replicas
	v.Extent(f.shard.Hash(info.Incarnation), layout.Extent(info.Length), &set)
	var all []int
	for _, i := range set.Full() {
		all = append(all, int(i))
	}
	return all
}

func (s *site) info(shard layout.Shard) (durable.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.direct.Stat(ctx, shard.String())
}

// durableBytes is what the direct readers and those over tcp were given from the
// store.
func (s *site) durableBytes() (direct, tcp uint64) {
	return s.direct.Stats().DeliveredBy["durable"], s.tcp.Stats().DeliveredBy["durable"]
}

// back waits until every reader is served by the cache again, and stays so for a
// second; it returns how long after from the last byte of the store came.
func (s *site) back(from time.Time, limit time.Duration) time.Duration {
	s.t.Helper()
	const steady = time.Second
	latest := func(of func(*tailer) int64) (at time.Time) {
		for _, x := range s.tails {
			at = later(at, time.Unix(0, of(x)))
		}
		return at
	}
	ok := within(limit+steady, func() bool {
		s.check()
		last := later(from, latest(func(x *tailer) int64 { return x.durableAt.Load() }))
		for _, x := range s.tails {
			if !time.Unix(0, x.cacheAt.Load()).After(last.Add(steady)) {
				return false
			}
		}
		return true
	})
	if !ok {
		s.t.Errorf("%v after the cache is back it does not serve every reader: %s", limit, s.state())
	}
	return max(latest(func(x *tailer) int64 { return x.durableAt.Load() }).Sub(from), 0)
}

// state says where everything is, for a failure.
func (s *site) state() string {
	var b strings.Builder
	for _, f := range s.feeds {
		fmt.Fprintf(&b, "\n%v appended to %d, %d appends failed, last: %v", f.shard, f.acked.Load(), f.errs.Load(), f.lastErr())
	}
	for _, x := range s.tails {
		fmt.Fprintf(&b, "\n%s at %d, cache %v ago, store %v ago", x.name, x.pos.Load(),
			time.Since(time.Unix(0, x.cacheAt.Load())).Round(time.Millisecond), time.Since(time.Unix(0, x.durableAt.Load())).Round(time.Millisecond))
	}
	for name, c := range map[string]*reader.Cluster{"direct": s.direct, "tcp": s.tcp} {
		fmt.Fprintf(&b, "\n%s: %+v", name, c.Stats())
	}
	if s.cache != nil {
		fmt.Fprintf(&b, "\nwriter: %+v", s.cache.Stats())
	}
	return b.String()
}

// finish stops the producers, waits for the readers to have everything that is
// durable, holds the store against what was acknowledged, and reports.
func (s *site) finish(what string) {
	s.t.Helper()
	s.stopFeeding()
	lost := 0
	for _, f := range s.feeds {
		info, err := s.info(f.shard)
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Length < f.acked.Load() {
			lost++
			s.t.Errorf("%v has %d bytes, %d were acknowledged", f.shard, info.Length, f.acked.Load())
		}
		if !within(catchUp, func() bool {
			s.check()
			for _, x := range s.tails {
				if x.shard == f.shard && x.pos.Load() < info.Length {
					return false
				}
			}
			return true
		}) {
			s.t.Fatalf("%v after the last append not everything is delivered: %s", catchUp, s.state())
		}
		s.verify(f, info)
	}
	var checked uint64
	var wrong, gaps int64
	for _, x := range s.tails {
		checked, wrong, gaps = checked+x.checked.Load(), wrong+x.wrong.Load(), gaps+x.gaps.Load()
	}
	s.stopReading()
	direct, tcp := s.durableBytes()
	s.t.Logf("report: %s: %.3f GB checked, faults %s; wrong bytes %d, gaps %d, appends lost %d; %.1f MB from the store over %v",
		what, float64(checked)/1e9, s.counted(), wrong, gaps, lost, float64(direct+tcp)/1e6, time.Since(s.began).Round(time.Second))
}

func (s *site) counted() string {
	if len(s.faults) == 0 {
		return "none"
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		all = append(all, fmt.Sprintf("%d %s", s.faults[kind], kind))
	}
	return strings.Join(all, ", ")
}

// verify reads a shard from the store and checks every byte.
func (s *site) verify(f *feed, info durable.Info) {
	store, err := durable.Open(s.dir, durable.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	p, room := make([]byte, 1<<20), []byte(nil)
	for pos := info.First; pos < info.Length; {
		n, err := store.ReadAt(context.Background(), f.shard.String(), pos, p)
		if err != nil || n == 0 {
			s.t.Fatalf("store at %d of %d: %d bytes, %v", pos, info.Length, n, err)
		}
		if i := wrongAt(p[:n], f.shard, pos, &room); i >= 0 {
			s.t.Fatalf("the store's byte at %d is wrong", pos+uint64(i))
		}
		pos += uint64(n)
	}
}
