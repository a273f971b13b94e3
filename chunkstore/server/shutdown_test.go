package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// Clients append and read while the node goes down: each append that was
// acknowledged is in the store, where it was said to be.
func TestRealShutdownUnderLoad(t *testing.T) {
	for round := range 5 {
		cfg := testConfig(t)
		if round%2 == 1 {
			cfg.Durable.Policy = durable.Always
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background()) }()

		type acked struct {
			shard  string
			pos    uint64
			record []byte
		}
		var mu sync.Mutex
		var all []acked
		var count atomic.Int64
		var clients sync.WaitGroup
		for i := range 8 {
			c := dial(t, s)
			clients.Go(func() { // an appender, which stops at its first error
				store := durable.NewRemote(c)
				shard := layout.Shard{Stream: "logs", Number: uint32(i % 3)}.String()
				for n := 0; ; n++ {
					record := bytes.Repeat(fmt.Appendf(nil, "client %d record %d;", i, n), 1+n%50)
					pos, _, err := store.Append(context.Background(), shard, wire.NoOffset, record)
					if err != nil {
						if !errors.Is(err, wire.ErrClosing) && !errors.Is(err, wire.ErrLost) {
							t.Errorf("append: %v", err)
						}
						return
					}
					mu.Lock()
					all = append(all, acked{shard, pos, record})
					mu.Unlock()
					count.Add(1)
				}
			})
			clients.Go(func() { // a reader of the arena
				req, _ := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 64 << 10}})
				for {
					if _, err := c.Call(context.Background(), wire.OpReadArena, req, nil); err != nil {
						return
					}
				}
			})
		}
		eventually(t, "load", func() bool { return count.Load() > 100 })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		cancel()
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Error("serve:", err)
		}
		clients.Wait()

		dir, err := durable.Open(cfg.Dir, durable.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			got := make([]byte, len(a.record))
			if _, err := dir.ReadAt(t.Context(), a.shard, a.pos, got); err != nil || !bytes.Equal(got, a.record) {
				t.Fatalf("%s at %d: acknowledged %.30q, stored %.30q, %v", a.shard, a.pos, a.record, got, err)
			}
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("round %d: %d acknowledged appends are all there", round, len(all))
	}
}

// A shutdown whose time is up cuts off who hangs, says so, and leaves the arena
// alone while something may touch it.
func TestRealShutdownCutsOff(t *testing.T) {
	cfg := testConfig(t)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	appendPattern(t, durable.NewRemote(dial(t, s)), shardA, 0, 1000)
	let := holdDisk(t, s)
	defer let()
	nc := rawDial(t, s)
	greet(t, nc)
	send(t, nc, wire.Header{Op: wire.OpReadDurable, ID: 1, Budget: time.Minute}, readDurableRequest(t, 1000))
	eventually(t, "the read waits", func() bool { return s.Stats().InFlight == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	closedByPeer(t, nc)
	if err := <-served; errors.Is(err, ErrClosed) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("serve: %v", err)
	}
	if err := s.Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second shutdown tells another story: %v", err)
	}
}

// A client that does not read its replies keeps a node from going down only as
// long as Shutdown has time.
func TestRealShutdownWithAStuckReader(t *testing.T) {
	cfg := testConfig(t)
	cfg.Limits.Write = time.Hour
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	flood(t, s, rawDial(t, s))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if d := time.Since(began); d > patience/2 {
		t.Errorf("shutdown took %v", d)
	}
	<-served
	if n := s.Stats().Connections; n != 0 {
		t.Errorf("%d connections after shutdown", n)
	}
}

// A shard whose last flush fails is reported, and nothing is left open for it.
func TestRealShutdownReportsAFailedFlush(t *testing.T) {
	s, err := New(testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	bad := errors.New("flush failed")
	s.appenders.open = func(ctx context.Context, shard layout.Shard) (*producer.Appender, error) {
		return producer.Open(ctx, producer.Config{Shard: shard, Log: &badClose{err: bad}, Heartbeat: time.Hour})
	}
	if _, _, err := durable.NewRemote(dial(t, s)).Append(t.Context(), "a/0000", wire.NoOffset, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); !errors.Is(err, bad) {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-served; !errors.Is(err, bad) {
		t.Errorf("serve: %v", err)
	}
	if err := s.main().cache.Put(layout.Put{CRC: layout.ExtendCRC(layout.SeedCRC(layout.Hash{}, 0), []byte("x")), Data: []byte("x")}); !errors.Is(err, wire.ErrClosing) {
		t.Errorf("the arena is still open: %v", err)
	}
}

// badClose is a log in memory that cannot be closed cleanly.
type badClose struct {
	length uint64
	err    error
}

func (l *badClose) Append(_ context.Context, off uint64, p []byte) (uint64, error) {
	l.length = off + uint64(len(p))
	return l.length, nil
}
func (l *badClose) Info() durable.Info          { return durable.Info{Incarnation: 1, Length: l.length} }
func (l *badClose) Flush(context.Context) error { return nil }
func (l *badClose) Seal() error                 { return nil }
func (l *badClose) Close() error                { return l.err }

func TestRealClosingIsSaid(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	s.closing.Store(true)
	for _, op := range []wire.Op{wire.OpPing, wire.OpNodeStat} {
		if _, err := c.Call(t.Context(), op, nil, nil); !errors.Is(err, wire.ErrClosing) {
			t.Errorf("%v on a node that goes down: %v", op, err)
		}
	}
}

func TestShutdownWithoutServe(t *testing.T) {
	s, err := New(testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Serve(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("serve after shutdown: %v", err)
	}
}

// Nodes that come and go leave no descriptor and no goroutine.
func TestRealNothingLeaks(t *testing.T) {
	cycle := func() {
		cfg := testConfig(t)
		cfg.HTTP = "127.0.0.1:0"
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx) }()
		for range 4 {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			c, err := wire.Dial(ctx, s.Addr().String(), wire.Options{})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			appendPattern(t, durable.NewRemote(c), shardA, uint64(0)+mustLength(t, c), mustLength(t, c)+5000)
			c.Close()
		}
		stop()
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	cycle() // the first use of a thing may keep some for good
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 10 {
		cycle()
	}
	eventually(t, "as many descriptors and goroutines as before", func() bool {
		return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
	})
}

func mustLength(t testing.TB, c *wire.Client) uint64 {
	t.Helper()
	info, err := durable.NewRemote(c).Stat(t.Context(), shardA.String())
	if err != nil && !errors.Is(err, wire.ErrUnknownShard) {
		t.Fatal(err)
	}
	return info.Length
}
