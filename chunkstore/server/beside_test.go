package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// holdDisk takes all places for durable reads, as a disk that hangs does, once
// everything else has ended.
func holdDisk(t testing.TB, s *Server) (let func()) {
	t.Helper()
	eventually(t, "nothing in flight", func() bool { return s.Stats().InFlight == 0 })
	for range cap(s.disk) {
		s.disk <- struct{}{}
	}
	return func() {
		for range cap(s.disk) {
			<-s.disk
		}
	}
}

func readDurableRequest(t testing.TB, n uint32) []byte {
	t.Helper()
	req := wire.ReadDurable{Shard: []byte(shardA.String()), Max: n}
	p, err := req.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRealSlowDiskHoldsUpNoArenaRead(t *testing.T) {
	s := serve(t, nil)
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 1000)
	let := holdDisk(t, s)
	nc := rawDial(t, s)
	greet(t, nc)
	arena, _ := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 100}})
	var b []byte
	b = append(b, frame(wire.Header{Op: wire.OpReadDurable, ID: 1}, readDurableRequest(t, 1000))...)
	b = append(b, frame(wire.Header{Op: wire.OpReadArena, ID: 2}, arena)...)
	b = append(b, frame(wire.Header{Op: wire.OpPing, ID: 3}, nil)...)
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{2, 3} {
		if h, _ := receive(t, nc); h.ID != id || h.Status != wire.StatusOK {
			t.Fatalf("reply to %d with %v, want %d", h.ID, h.Status, id)
		}
	}
	let()
	if h, p := receive(t, nc); h.ID != 1 || !slices.Equal(p, pattern(0, 1000)) {
		t.Errorf("durable read: reply to %d with %v and %d bytes", h.ID, h.Status, len(p))
	}
}

func TestRealBudgetOfARequest(t *testing.T) {
	s := serve(t, nil)
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 1000)
	defer holdDisk(t, s)()
	nc := rawDial(t, s)
	greet(t, nc)
	send(t, nc, wire.Header{Op: wire.OpReadDurable, ID: 1, Budget: 20 * time.Millisecond}, readDurableRequest(t, 1000))
	h, p := receive(t, nc)
	if e, err := wire.ParseError(h.Status, p); err != nil || !errors.Is(e, wire.ErrDeadline) {
		t.Errorf("a read that the disk does not get to: %v %v", e, err)
	}
}

func TestRealInFlightLimit(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.InFlight = 3 })
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 1000)
	let := holdDisk(t, s)
	nc := rawDial(t, s)
	greet(t, nc)
	for id := range uint64(5) {
		send(t, nc, wire.Header{Op: wire.OpReadDurable, ID: id}, readDurableRequest(t, 1000))
	}
	for _, id := range []uint64{3, 4} {
		if h, _ := receive(t, nc); h.ID != id || h.Status != wire.StatusBusy {
			t.Errorf("reply to %d with %v, want busy for %d", h.ID, h.Status, id)
		}
	}
	if n := s.Stats().InFlight; n != 3 {
		t.Errorf("%d in flight", n)
	}
	let()
	for range 3 {
		if h, p := receive(t, nc); h.ID > 2 || h.Status != wire.StatusOK || len(p) != 1000 {
			t.Errorf("reply to %d with %v", h.ID, h.Status)
		}
	}
	eventually(t, "nothing in flight", func() bool { return s.Stats().InFlight == 0 })
}

// A client that is gone is not read for.
func TestRealReadForAClientThatLeft(t *testing.T) {
	s := serve(t, nil)
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 1000)
	defer holdDisk(t, s)()
	nc := rawDial(t, s)
	greet(t, nc)
	send(t, nc, wire.Header{Op: wire.OpReadDurable, ID: 1, Budget: time.Minute}, readDurableRequest(t, 1000))
	eventually(t, "the read waits", func() bool { return s.Stats().InFlight == 1 })
	nc.Close()
	eventually(t, "the read is given up", func() bool { return s.Stats().InFlight == 0 })
}

func TestRealPanicEndsOneConnection(t *testing.T) {
	bug := fakeExport{connect: func([]byte) ([]byte, io.Closer, error) { panic("a bug") }}
	cfg := testConfig(t)
	cfg.RDMAMode = RDMAAuto
	s := serveParts(t, cfg, withExport(bug, nil))
	victim, other := dial(t, s), dial(t, s)
	if _, err := victim.Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil); !errors.Is(err, wire.ErrLost) {
		t.Errorf("request that panics: %v", err)
	}
	if _, err := other.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("another client: %v", err)
	}
	if n := s.counters.panics.Swap(0); n != 1 { // so that the end of the test finds none
		t.Errorf("%d panics counted", n)
	}
}

// counted is a queue pair that counts those that are open.
type counted struct{ open *atomic.Int64 }

func (c counted) Close() error { c.open.Add(-1); return nil }

func TestRealQueuePairLivesWithItsConnection(t *testing.T) {
	var open atomic.Int64
	cfg := testConfig(t)
	cfg.RDMAMode = RDMARequire
	s := serveParts(t, cfg, withExport(fakeExport{connect: func(offer []byte) ([]byte, io.Closer, error) {
		open.Add(1)
		return append([]byte("re:"), offer...), counted{&open}, nil
	}}, nil))
	c := dial(t, s)
	if c.Hello().Features&wire.FeatureRDMA == 0 {
		t.Error("RDMA is not announced")
	}
	for i := range 5 {
		answer, err := c.Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil)
		if err != nil || string(answer) != "re:offer" {
			t.Fatalf("answer %q, %v", answer, err)
		}
		if want := min(int64(i)+1, 2); open.Load() != want {
			t.Errorf("%d queue pairs after %d connects, want %d", open.Load(), i+1, want)
		}
	}
	if n := s.Stats().QueuePairs; n != 2 {
		t.Errorf("%d queue pairs in the stats", n)
	}
	for _, offer := range [][]byte{nil, make([]byte, wire.MaxOpaque)} {
		_, err := c.Call(t.Context(), wire.OpRDMAConnect, offer, nil)
		if len(offer) == 0 && !errors.Is(err, wire.ErrBadRequest) || len(offer) > 0 && err != nil && !errors.Is(err, wire.ErrInternal) {
			t.Errorf("offer of %d bytes: %v", len(offer), err)
		}
	}
	c.Close()
	eventually(t, "no queue pair outlives its connection", func() bool { return open.Load() == 0 && s.Stats().QueuePairs == 0 })
}

// An accept that ends after its connection leaves no queue pair behind.
func TestRealQueuePairOfAConnectionThatLeft(t *testing.T) {
	var open atomic.Int64
	entered, let := make(chan struct{}), make(chan struct{})
	cfg := testConfig(t)
	cfg.RDMAMode = RDMAAuto
	s := serveParts(t, cfg, withExport(fakeExport{connect: func([]byte) ([]byte, io.Closer, error) {
		close(entered)
		<-let
		open.Add(1)
		return []byte("answer"), counted{&open}, nil
	}}, nil))
	nc := rawDial(t, s)
	greet(t, nc)
	send(t, nc, wire.Header{Op: wire.OpRDMAConnect, ID: 1}, []byte("offer"))
	<-entered
	nc.Close()
	eventually(t, "the connection's end is noticed", func() bool {
		noticed := false
		s.eachConn(func(c *conn) { noticed = noticed || c.life.Err() != nil })
		return noticed
	})
	close(let)
	eventually(t, "the late queue pair is closed", func() bool { return s.Stats().Connections == 0 && open.Load() == 0 })
}

func TestRDMAModes(t *testing.T) {
	no := errors.New("memory cannot be registered: raise it (ulimit -l)")
	for mode, want := range map[RDMAMode]string{RDMAAuto: no.Error(), RDMAOff: "switched off"} {
		cfg := testConfig(t)
		cfg.RDMAMode = mode
		s := serveParts(t, cfg, withExport(nil, no))
		if st := s.Stats(); st.RDMA || !strings.Contains(st.RDMAReason, want) {
			t.Errorf("%v: RDMA %v, reason %q", mode, st.RDMA, st.RDMAReason)
		}
		c := dial(t, s)
		if _, err := c.Call(t.Context(), wire.OpRDMAConnect, []byte("x"), nil); !errors.Is(err, wire.ErrNoRDMA) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: connect: %v", mode, err)
		}
	}
	cfg := testConfig(t)
	cfg.RDMAMode = RDMARequire
	if _, err := newServer(cfg, withExport(nil, no)); !errors.Is(err, ErrRDMA) || !errors.Is(err, no) {
		t.Errorf("require: %v", err)
	}
	// What was started before the failure is undone: the port is free again.
	cfg.RDMAMode = RDMAOff
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = l.Addr().String()
	l.Close()
	cfg.RDMAMode = RDMARequire
	if _, err := newServer(cfg, withExport(nil, no)); err == nil {
		t.Fatal("started")
	}
	cfg.RDMAMode = RDMAOff
	serveParts(t, cfg, realParts())
}

func TestRealNodeStat(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	appendPattern(t, durable.NewRemote(c), shardA, 0, 10_000)
	b, err := c.Call(t.Context(), wire.OpNodeStat, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var st Stats
	if err := json.Unmarshal(b, &st); err != nil {
		t.Fatal(err)
	}
	if st.Epoch != s.main().arena.Epoch() || st.AppendBytes != 10_000 || st.Requests["Append"] == 0 || st.Arena.Publishes == 0 || st.Connections != 1 {
		t.Errorf("stats over the wire: %s", b)
	}
}

func TestBudget(t *testing.T) {
	b := newBudget(100)
	if !b.tryTake(60) || b.tryTake(60) {
		t.Fatal("60 of 100 can be taken once")
	}
	ctx, cancel := context.WithCancel(t.Context())
	large, small := make(chan error, 1), make(chan error, 1)
	waiting := func(n int) func() bool {
		return func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.mu.waiting) == n }
	}
	go func() { large <- b.take(ctx, 90) }()
	eventually(t, "one waits", waiting(1))
	go func() { small <- b.take(t.Context(), 10) }()
	eventually(t, "two wait: the small one does not overtake", waiting(2))
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := <-small; err != nil { // served when the one before it left
		t.Error(err)
	}
	b.give(70)
	if !b.tryTake(100) {
		t.Error("bytes were lost")
	}
}

// A taker that gives up in the moment in which it is served keeps nothing.
func TestBudgetGivenUpAndServed(t *testing.T) {
	b := newBudget(0)
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan error, 1)
		go func() { taken <- b.take(ctx, 1) }()
		eventually(t, "it waits", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.mu.waiting) == 1 })
		b.mu.Lock()
		cancel()
		b.mu.free++
		b.serve()
		b.mu.Unlock()
		if err := <-taken; err == nil {
			b.give(1)
		}
		if !b.tryTake(1) {
			t.Fatal("a byte was lost")
		}
	}
}

func TestParseShard(t *testing.T) {
	if s, err := parseShard([]byte("a/7")); err != nil || s != (layout.Shard{Stream: "a", Number: 7}) {
		t.Error(s, err)
	}
	if _, err := parseShard([]byte("a")); !errors.Is(err, wire.ErrBadRequest) || !errors.Is(err, layout.ErrName) {
		t.Error(err)
	}
}
