package watch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/chunkstore/watch"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

const patience = 30 * time.Second

// start starts a node, and returns what ends it.
func start(t *testing.T, cfg server.Config) (s *server.Server, end func()) {
	t.Helper()
	cfg.Arena, cfg.Socket, cfg.RDMAMode = chunkstore.Config{Bytes: 4 << 20}, server.SocketNone, server.RDMAOff
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; !errors.Is(err, server.ErrClosed) {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return s, end
}

func dial(ctx context.Context, addr string) (*wire.Client, error) {
	return wire.Dial(ctx, addr, wire.Options{Name: "test"})
}

// TestRealWatchANode: rates and a state; connections that are kept; a node that is away
// and comes back at its address; shards that stay known while the store does not answer.
func TestRealWatchANode(t *testing.T) {
	dir := t.TempDir()
	s, end := start(t, server.Config{Listen: "127.0.0.1:0", Dir: dir, Heartbeat: 20 * time.Millisecond})
	addr := s.Addr().String()
	source := cluster.Single(addr)
	w := watch.New(watch.Options{View: func() *cluster.View { v, _ := source.View(); return v }, Dial: dial})
	defer w.Close()
	next := func() *watch.Frame { return w.Next(t.Context()) }
	c, err := dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	store := durable.NewRemote(c)
	add := func() {
		t.Helper()
		if _, _, err := store.Append(t.Context(), "logs/0000", wire.NoOffset, make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	add()
	f := next()
	if len(f.Nodes) != 1 || !f.Nodes[0].Up || f.Window != 0 || len(f.Shards) != 1 || f.StoreError != "" || f.Nodes[0].RoundTrip <= 0 || f.Nodes[0].Memory.Used == 0 || slices.Max(f.Nodes[0].Memory.Cells) == 0 {
		t.Fatalf("%+v", f)
	}
	connections := s.Stats().ConnectionsTotal
	add()
	f = next()
	n := f.Nodes[0]
	if f.Window <= 0 || n.Rates.Appends*f.Window < 0.99 || n.Rates.AppendBytes*f.Window < 9_999 || n.Ack == nil || n.Append == nil || n.Ack.P99 <= 0 || n.Rates.TCPReads <= 0 || f.Totals.AppendBytes != n.Rates.AppendBytes {
		t.Errorf("after an append: %+v of %v s", n, f.Window)
	}
	if sh := f.Shards[0]; sh.Length != 20_000 || sh.Rate*f.Window < 9_999 {
		t.Errorf("shard %+v", sh)
	}
	eventually(t, func() bool { f = next(); return f.Shards[0].State == cause.Fine }, func() any { return f.Shards })
	if n := s.Stats().ConnectionsTotal; n != connections {
		t.Errorf("%d connections were made for further frames", n-connections)
	}
	c.Close()
	end()
	eventually(t, func() bool { f = next(); return !f.Nodes[0].Up && f.Nodes[0].Away > 0 }, func() any { return f.Nodes })
	if f.StoreError == "" || len(f.Shards) != 1 || f.Shards[0].Length != 20_000 || f.Shards[0].State != cause.CacheMissing {
		t.Errorf("the store is away: %q, %+v", f.StoreError, f.Shards)
	}
	start(t, server.Config{Listen: addr, Dir: dir})
	eventually(t, func() bool { f = next(); return f.Nodes[0].Up && f.StoreError == "" }, func() any { return f.Nodes })
	if f.Nodes[0].Rates.Appends != 0 || f.Shards[0].Length != 20_000 {
		t.Errorf("the node is back: %+v", f)
	}
}

// TestRealWatchSomeShards: more than are looked at.
func TestRealWatchSomeShards(t *testing.T) {
	s, _ := start(t, server.Config{Listen: "127.0.0.1:0"})
	var entries []durable.Entry
	for _, name := range []string{"a/0000", "b/0000", "c/0000", "d/0000"} {
		entries = append(entries, durable.Entry{Shard: name, Info: durable.Info{Incarnation: 1, Length: 5}})
	}
	source := cluster.Single(s.Addr().String())
	asked := 0
	o := watch.Options{View: func() *cluster.View { v, _ := source.View(); return v }, Dial: dial, Shards: 2,
		List: func(_ context.Context, after string, limit int) (page []durable.Entry, err error) {
			for _, e := range entries {
				if e.Shard > after && len(page) < limit {
					page = append(page, e)
				}
			}
			asked += len(page)
			return page, nil
		}}
	names := func(f *watch.Frame) (all []string) {
		for _, s := range f.Shards {
			all = append(all, s.Name)
		}
		return all
	}
	w := watch.New(o)
	defer w.Close()
	if f := w.Next(t.Context()); !slices.Equal(names(f), []string{"a/0000", "b/0000"}) || !f.More || asked != 3 {
		t.Errorf("%v, more %v; %d were asked for", names(f), f.More, asked)
	}
	o.Wanted = func(s string) bool { return s > "c" }
	w = watch.New(o)
	defer w.Close()
	if f := w.Next(t.Context()); !slices.Equal(names(f), []string{"c/0000", "d/0000"}) || f.More {
		t.Errorf("%v, more %v", names(f), f.More)
	}
	o.List = nil // the node has no store
	w = watch.New(o)
	defer w.Close()
	if f := w.Next(t.Context()); f.StoreError == "" || len(f.Shards) != 0 || !f.Nodes[0].Up {
		t.Errorf("%+v", f)
	}
}

func eventually(t *testing.T, ok func() bool, seen func() any) {
	t.Helper()
	tick, end := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %v, seen last: %+v", patience, seen())
		}
	}
}
