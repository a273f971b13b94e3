package deploy_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/reader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metric is what the product exposes under a name.
type metric struct {
	kind   string // counter, gauge or histogram
	labels []string
	help   string
}

// recorder is a registry that remembers what was registered, so that metrics without a
// sample yet are known too.
type recorder struct {
	*prometheus.Registry
	mu struct {
		sync.Mutex
		descs map[string]*prometheus.Desc // by text
	}
}

func newRecorder() *recorder {
	r := &recorder{Registry: prometheus.NewPedanticRegistry()}
	r.mu.descs = map[string]*prometheus.Desc{}
	return r
}

func (r *recorder) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		c.Describe(ch)
	}()
	r.mu.Lock()
	for d := range ch {
		r.mu.descs[d.String()] = d
	}
	r.mu.Unlock()
	return r.Registry.Register(c)
}

var descText = regexp.MustCompile(`fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*").*constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}`)

// metrics are those that were registered, with the kinds that a scrape has told.
func (r *recorder) metrics(t *testing.T) map[string]metric {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	all := map[string]metric{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for text := range r.mu.descs {
		p := descText.FindStringSubmatch(text)
		if p == nil {
			t.Fatalf("no name in %s", text)
		}
		name, err := strconv.Unquote(p[1])
		help, err2 := strconv.Unquote(p[2])
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		m := metric{kind: kinds[name], help: help}
		if m.kind == "" && strings.HasSuffix(name, "_total") {
			m.kind = "counter"
		}
		if m.kind == "" {
			t.Errorf("%s has no sample, and its name does not tell what it is", name)
		}
		for _, l := range strings.FieldsFunc(p[3], func(c rune) bool { return c == ',' }) {
			m.labels = append(m.labels, strings.SplitN(l, "=", 2)[0])
		}
		m.labels = append(m.labels, strings.FieldsFunc(p[4], func(c rune) bool { return c == ',' })...)
		slices.Sort(m.labels)
		all[name] = m
	}
	for name := range kinds {
		if _, ok := all[name]; !ok {
			t.Errorf("%s has samples and was not described", name)
		}
	}
	return all
}

// product runs a node, a producer and a consumer, all on one Registerer and each
// twice, lets a few bytes go all the way, and returns what they expose.
func product(t *testing.T) map[string]metric {
	t.Helper()
	registry := newRecorder()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	shard := layout.Shard{Stream: "logs", Number: 0}
	for range 2 {
		addr := node(t, registry)
		write(ctx, t, registry, addr, shard)
		for range 2 {
			read(ctx, t, registry, addr, shard)
		}
	}
	lookedAt(ctx, t, registry)
	if found, err := testutil.GatherAndLint(registry); err != nil || len(found) > 0 {
		t.Errorf("lint: %v, %v", found, err)
	}
	return registry.metrics(t)
}

// lookedAt waits until the nodes have looked at their shards.
func lookedAt(ctx context.Context, t *testing.T, g prometheus.Gatherer) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := testutil.GatherAndCount(g, "rmatail_node_shard_published_bytes")
		if err != nil {
			t.Fatal(err)
		}
		if n >= 4 { // two shards at each of two nodes
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d shards are told by the nodes", n)
		}
	}
}

// node serves until the end of the test, and returns its address.
func node(t *testing.T, r prometheus.Registerer) string {
	t.Helper()
	s, err := server.New(server.Config{Listen: "127.0.0.1:0", Dir: t.TempDir(), Socket: server.SocketNone, RDMAMode: server.RDMAOff, ReadThrough: 1 << 20,
		Durable: durable.Options{Policy: durable.Never}, Arena: chunkstore.Config{Bytes: 4 << 20}, Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, server.ErrClosed) {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// write appends through the node, and to a directory that is mirrored into it.
func write(ctx context.Context, t *testing.T, r prometheus.Registerer, addr string, shard layout.Shard) {
	t.Helper()
	c, err := wire.Dial(ctx, addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := durable.NewRemote(c).Append(ctx, shard.String(), wire.NoOffset, []byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	dir, err := durable.Open(t.TempDir(), durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	cache, err := producer.NewReplicaCache(producer.ReplicaConfig{Source: cluster.Single(addr), Store: dir, Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cache.Close() })
	other := layout.Shard{Stream: "direct", Number: 0}
	log, err := dir.Log(other.String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := producer.Open(ctx, producer.Config{Shard: other, Log: log, Cache: cache, Registerer: r,
		ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
			return dir.ReadAt(ctx, other.String(), pos, p)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	k, err := a.Append(ctx, []byte("a line\n"))
	if err == nil {
		_, err = k.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// read delivers what the node has.
func read(ctx context.Context, t *testing.T, r prometheus.Registerer, addr string, shard layout.Shard) {
	t.Helper()
	c, err := reader.Open(ctx, reader.Config{Server: addr, Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	rd, err := c.Reader(ctx, shard.String(), reader.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := rd.Next(ctx); err != nil || string(b.Data) != "a line\n" {
		t.Fatalf("%q, %v", b.Data, err)
	}
}
