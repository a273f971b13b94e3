package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

func appendRequestOf(t testing.TB, shard layout.Shard, off uint64, data []byte) []byte {
	t.Helper()
	req := wire.Append{Shard: []byte(shard.String()), Offset: off, Data: data}
	head, err := req.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return append(head, data...)
}

// Appends that are pipelined on one connection lie, and are answered, in the order
// in which they were sent; a refused one among them too.
func TestRealAppendsKeepTheirOrder(t *testing.T) {
	s := serve(t, func(c *Config) { c.Durable.Policy = durable.Always })
	nc := rawDial(t, s)
	greet(t, nc)
	const rounds, each = 20, 60
	var id, pos uint64
	for range rounds {
		var out []byte
		for i := range each {
			id++
			off := uint64(wire.NoOffset)
			if i == each/2 {
				off = 1 << 40
			}
			p := appendRequestOf(t, shardA, off, fmt.Appendf(nil, "%08d", id))
			out = append(out, frame(wire.Header{Op: wire.OpAppend, ID: id}, p)...)
		}
		if _, err := nc.Write(out); err != nil {
			t.Fatal(err)
		}
		for i := range each {
			h, p := receive(t, nc)
			if want := id - each + 1 + uint64(i); h.ID != want {
				t.Fatalf("reply to %d, want %d", h.ID, want)
			}
			if i == each/2 {
				if h.Status != wire.StatusOffset {
					t.Fatalf("status %v for an offset beyond the end", h.Status)
				}
				continue
			}
			a, err := wire.ParseAppended(p)
			if h.Status != wire.StatusOK || err != nil || a.Pos != pos {
				t.Fatalf("append %d: %v, at %d, want %d: %v", h.ID, h.Status, a.Pos, pos, err)
			}
			pos = a.End
		}
	}
	got := make([]byte, pos)
	if _, err := s.store.ReadAt(t.Context(), shardA.String(), 0, got); err != nil {
		t.Fatal(err)
	}
	last := ""
	for rec := range slices.Chunk(got, 8) {
		if string(rec) <= last {
			t.Fatalf("record %s behind %s", rec, last)
		}
		last = string(rec)
	}
	st := s.Stats()
	if st.InFlight != 0 || st.Producer.Records != rounds*(each-1) || st.Producer.Batches >= st.Producer.Records/2 {
		t.Errorf("%d in flight, %d records in %d batches", st.InFlight, st.Producer.Records, st.Producer.Batches)
	}
}

// What many connections append to one shard shares its flushes.
func TestRealConnectionsShareFlushes(t *testing.T) {
	s := serve(t, func(c *Config) { c.Durable.Policy = durable.Always })
	const clients, each = 16, 50
	var wg sync.WaitGroup
	for range clients {
		store := durable.NewRemote(dial(t, s))
		wg.Go(func() {
			for range each {
				if _, _, err := store.Append(t.Context(), shardA.String(), wire.NoOffset, []byte("record")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	st := s.Stats().Producer
	if st.Records != clients*each || st.Batches > st.Records/2 {
		t.Errorf("%d records in %d batches", st.Records, st.Batches)
	}
	t.Logf("report: %d connections, %d appends, %d flushes, sink p50 %v p99 %v", clients, st.Records, st.Batches, st.SinkP50, st.SinkP99)
}

// A sink that hangs: appends run into their own deadlines, in any number and with an
// outcome that is said to be unknown, and come through when it goes on.
func TestRealAppendDeadline(t *testing.T) {
	hold := make(chan struct{})
	p := newPool(t, 10, time.Hour)
	p.change = func(l *openLog) { l.wait = hold }
	s := serve(t, func(c *Config) { c.EvictEvery = time.Hour }) // the sweep looks at what is replaced here
	own := s.appenders
	s.appenders = p.appenders
	defer func() { s.appenders = own }()
	nc := rawDial(t, s)
	greet(t, nc)
	budgets := []time.Duration{30 * time.Millisecond, 30 * time.Millisecond, patience}
	for i, budget := range budgets {
		send(t, nc, wire.Header{Op: wire.OpAppend, ID: uint64(i), Budget: budget}, appendRequestOf(t, shardA, wire.NoOffset, []byte("record")))
	}
	for i := range budgets {
		if i == 2 {
			close(hold)
		}
		h, b := receive(t, nc)
		switch {
		case h.ID != uint64(i):
			t.Fatalf("reply to %d, want %d", h.ID, i)
		case i < 2 && h.Status != wire.StatusDeadline:
			t.Errorf("append %d to a sink that hangs: %v", i, h.Status)
		case i == 2:
			if a, err := wire.ParseAppended(b); h.Status != wire.StatusOK || err != nil || a.Pos != 12 {
				t.Errorf("append behind those that were given up: %v, at %d, %v", h.Status, a.Pos, err)
			}
		}
	}
	eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
}
