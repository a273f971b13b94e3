package reader_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/reader"
)

// nodes describes a cluster of the nodes at addresses, named a, b and so on. The first
// one has the durable store.
func nodes(t *testing.T, addrs ...string) *cluster.View {
	t.Helper()
	d := cluster.Description{Store: cluster.Store{Node: "a"}}
	for i, addr := range addrs {
		d.Nodes = append(d.Nodes, cluster.Node{Name: string(rune('a' + i)), Addr: addr, Roles: cluster.Data | cluster.Metadata, Weight: 1})
	}
	v, err := cluster.NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// moving is a Source that a test moves.
type moving struct {
	mu      sync.Mutex
	view    *cluster.View
	changed chan struct{}
}

func (m *moving) View() (*cluster.View, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.changed
}

func (m *moving) set(v *cluster.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.view, m.changed = v, make(chan struct{})
}

// TestRealMembers: one node has the shard, another one is empty, a third one does not
// exist. Readers get everything from the memory of the first, whoever joins and
// leaves, and connections to those that left are closed.
func TestRealMembers(t *testing.T) {
	const nobody = "127.0.0.1:1"
	for _, transport := range []reader.Transport{reader.SHM, reader.TCP} {
		t.Run(transport.String(), func(t *testing.T) {
			full, empty := startNode(t, nodeConfig{Arena: largeArena}), startNode(t, nodeConfig{Arena: smallArena})
			w := &writer{t: t, shard: "members/0"}
			w.append(full, 100, 300_000)
			source := &moving{view: nodes(t, full.Listen, empty.Listen, nobody), changed: make(chan struct{})}
			c, r := w.open(reader.Config{Cluster: source, Transport: transport}, reader.Earliest())
			read := func() {
				t.Helper()
				w.append(full, 50_000, 1, 70_000)
				if by := w.read(r, 20*time.Second); by["durable"] != 0 || by[transport.String()] == 0 {
					t.Fatalf("by source: %v, %+v", by, c.Stats())
				}
			}
			read()
			st := c.Stats()
			if len(st.Peers) != 3 || st.Peers[0].State != "up" || st.Peers[1].State != "up" || st.Peers[2].State != "away" || !strings.Contains(st.Peers[2].Why, "refused") {
				t.Fatalf("%+v", st.Peers)
			}
			source.set(nodes(t, full.Listen))
			eventually(t, 10*time.Second, "two nodes to leave", func() bool { return len(c.Stats().Peers) == 1 })
			read()
			if s := c.Stats(); s.Connects[transport.String()] != st.Connects[transport.String()] {
				t.Errorf("the node that stayed was connected again: %v, before %v", s.Connects, st.Connects)
			}
			source.set(nodes(t, full.Listen, empty.Listen))
			eventually(t, 10*time.Second, "a node to join", func() bool { p := c.Stats().Peers; return len(p) == 2 && p[1].State == "up" })
			read()
		})
	}
}

// TestRealOpenNamesEachCause: when no node answers, the error says why of each; with a
// directory that is no error, and neither is it when one node answers.
func TestRealOpenNamesEachCause(t *testing.T) {
	n := startNode(t, nodeConfig{})
	w := &writer{t: t, shard: "causes/0"}
	w.append(n, 100)
	ctx := t.Context()
	fixed := func(addrs ...string) *moving { return &moving{view: nodes(t, addrs...)} }
	_, err := reader.Open(ctx, reader.Config{Cluster: fixed("127.0.0.1:1", "unix:/nowhere/socket")})
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, syscall.ENOENT) ||
		!strings.Contains(err.Error(), "node a: ") || !strings.Contains(err.Error(), "node b: ") {
		t.Fatalf("no node answers: %v", err)
	}
	for _, cfg := range []reader.Config{
		{Cluster: fixed("127.0.0.1:1", "127.0.0.1:2"), Dir: n.Dir},
		{Cluster: fixed(n.Listen, "127.0.0.1:1")},
	} {
		said := &saying{}
		cfg.Logger = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		c, r := w.open(cfg, reader.Earliest())
		r2, err := c.Reader(ctx, "causes/0", reader.At(50))
		if err != nil {
			t.Fatal(err)
		}
		w.read(r, 20*time.Second)
		w.read(r2, 20*time.Second)
		r2.Close()
		eventually(t, 10*time.Second, "the log to say that node b is away", func() bool { return said.has("node=b transport=none") && said.has("refused") })
	}
}

// saying is a log that is read while it is written.
type saying struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *saying) has(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), words)
}

// TestRealReadThrough: a node comes back empty, and the readers of several processes
// miss the same megabytes at once. The node reads each extent once, for all of them,
// and they go on from its memory; when it may read only little, they read the rest of
// the store themselves.
func TestRealReadThrough(t *testing.T) {
	const extents, processes, readers = 48, 4, 3
	for name, rate := range map[string]int64{"enough": 1 << 30, "too little": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, nodeConfig{Arena: largeArena, ReadThrough: rate})
			w := &writer{t: t, shard: "through/0"}
			for range extents / 16 {
				w.append(n, 1<<20)
			}
			n.kill()
			n.start()
			w.append(n, 1000) // publishes what the cache has lost
			var all sync.WaitGroup
			var durable atomic.Uint64
			for range processes {
				c, first := w.open(reader.Config{Server: n.Listen}, reader.Earliest())
				rs := []*reader.Reader{first}
				for range readers - 1 {
					r, err := c.Reader(t.Context(), w.shard, reader.Earliest())
					if err != nil {
						t.Fatal(err)
					}
					defer r.Close()
					rs = append(rs, r)
				}
				for _, r := range rs {
					all.Go(func() {
						by, err := drain(t.Context(), r, w.pos, time.Minute)
						if err != nil {
							t.Error(err)
						}
						durable.Add(uint64(by["durable"]))
					})
				}
			}
			all.Wait()
			st := n.stat(t)
			t.Logf("report: %d fills of %d extents for %d readers, %d bytes read of the store by themselves", st.Fills, extents, processes*readers, durable.Load())
			if rate > 1<<20 {
				if st.Fills > extents*5/4 || st.Fills < extents/2 || durable.Load() > w.pos { // a slow host may give up on a fill
					t.Errorf("%d fills for %d extents, %d durable bytes", st.Fills, extents, durable.Load())
				}
			} else if st.Fills > extents/2 || durable.Load() == 0 {
				t.Errorf("%d fills, %d durable bytes", st.Fills, durable.Load())
			}
		})
	}
}

// stat asks the node how it fares.
func (n *node) stat(t *testing.T) (s server.Stats) {
	t.Helper()
	c, err := wire.Dial(t.Context(), n.Listen, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := c.Call(t.Context(), wire.OpNodeStat, nil, nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
