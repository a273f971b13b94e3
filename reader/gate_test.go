package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// scriptStore answers as a test says.
type scriptStore struct {
	stat func() (durable.Info, error)
	read func(ctx context.Context, pos uint64, p []byte) (int, error)
}

func (s scriptStore) Stat(context.Context, string) (durable.Info, error) { return s.stat() }
func (s scriptStore) ReadAt(ctx context.Context, _ string, pos uint64, p []byte) (int, error) {
	return s.read(ctx, pos, p)
}
func (s scriptStore) List(context.Context, string, int) ([]durable.Entry, error) { return nil, nil }

// endless is a store of shards without an end.
func endless(incarnation uint64) scriptStore {
	return scriptStore{
		stat: func() (durable.Info, error) { return durable.Info{Incarnation: incarnation, Length: 1 << 40}, nil },
		read: func(_ context.Context, pos uint64, p []byte) (int, error) { fill(p, pos); return len(p), nil },
	}
}

func gateFor(t *testing.T, s store, change func(*Config)) *gate {
	cfg := Config{Dir: "d"}
	if change != nil {
		change(&cfg)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newGate(s, cfg, &counters{})
}

var gateShard = shardKey{"gate/0000", 1}

// TestGateKeepsIncarnationsApart: a shard is made again under its name. Neither
// does the new one get bytes that were read of the old one, nor the old one bytes
// of the new.
func TestGateKeepsIncarnationsApart(t *testing.T) {
	content, incarnation := byte('a'), uint64(1)
	g := gateFor(t, scriptStore{
		stat: func() (durable.Info, error) { return durable.Info{Incarnation: incarnation}, nil },
		read: func(_ context.Context, _ uint64, p []byte) (int, error) { p[0] = content; return 1, nil },
	}, nil)
	ctx := t.Context()
	if p, err := g.read(ctx, gateShard, 0, 1); err != nil || string(p) != "a" {
		t.Fatalf("%q, %v", p, err)
	}
	content, incarnation = 'b', 2
	if p, err := g.read(ctx, shardKey{gateShard.name, 2}, 0, 1); err != nil || string(p) != "b" {
		t.Fatalf("the new shard: %q, %v", p, err)
	}
	if p, err := g.read(ctx, gateShard, 1, 2); !errors.Is(err, ErrRecreated) {
		t.Fatalf("the old shard, behind what was read of it: %q, %v", p, err)
	}
}

// TestGateSharesOneRead: any number ask for the same bytes, one read is done. Its
// leader gives up in the middle: another one reads for the rest.
func TestGateSharesOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := endless(1)
		s.read = func(ctx context.Context, pos uint64, p []byte) (int, error) {
			if reads++; reads == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			<-time.After(time.Second / 2)
			fill(p, pos)
			return len(p), nil
		}
		g := gateFor(t, s, nil)
		leader, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := g.read(leader, gateShard, 7, 100); !errors.Is(err, context.Canceled) {
				t.Errorf("leader: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			all.Go(func() {
				if p, err := g.read(t.Context(), gateShard, 7, 100); err != nil || wrongAt(p, 7) >= 0 {
					t.Errorf("follower: %d bytes, %v", len(p), err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if reads != 2 {
			t.Errorf("%d reads, want the leader's and one more", reads)
		}
		if len(g.mu.shards) != 0 {
			t.Errorf("%d shards are read by nobody", len(g.mu.shards))
		}
	})
}

// TestGateSharesOneReadOfNeighbours: Readers wait at neighbouring positions, each one
// before those that came earlier. The next read is for all of them, and it begins
// where the store has bytes.
func TestGateSharesOneReadOfNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			kept  uint64 // first position
			reads int
		}{"all kept": {0, 2}, "the first ones gone": {20_500, 3}} {
			reads := 0
			s := endless(1)
			s.stat = func() (durable.Info, error) { return durable.Info{Incarnation: 1, First: c.kept, Length: 1 << 40}, nil }
			s.read = func(_ context.Context, pos uint64, p []byte) (int, error) {
				reads++
				<-time.After(10 * time.Millisecond)
				if pos < c.kept {
					return 0, fmt.Errorf("%w: %d", wire.ErrOutOfRetention, pos)
				}
				fill(p, pos)
				return len(p), nil
			}
			g := gateFor(t, s, nil)
			var all sync.WaitGroup
			for i := range 40 {
				pos := 40_000 - uint64(i)*1000
				all.Go(func() {
					p, err := g.read(t.Context(), gateShard, pos, 41_000)
					if pos < c.kept {
						if !errors.Is(err, wire.ErrOutOfRetention) {
							t.Errorf("%s: %d: %d bytes, %v", name, pos, len(p), err)
						}
					} else if err != nil || len(p) == 0 || wrongAt(p, pos) >= 0 {
						t.Errorf("%s: %d: %d bytes, %v", name, pos, len(p), err)
					}
				})
				synctest.Wait()
			}
			all.Wait()
			if reads > c.reads {
				t.Errorf("%s: %d reads for 40 neighbours, want at most %d", name, reads, c.reads)
			}
			if len(g.mu.shards) != 0 {
				t.Errorf("%s: %d shards are read by nobody", name, len(g.mu.shards))
			}
		}
	})
}

// TestGateSurvivesAPanic in the store: the others do not wait for ever.
func TestGateSurvivesAPanic(t *testing.T) {
	s := endless(1)
	s.read = func(context.Context, uint64, []byte) (int, error) { panic("store") }
	g := gateFor(t, s, func(c *Config) { c.DurableConcurrency = 1 })
	try := func() (r any) {
		defer func() { r = recover() }()
		_, err := g.read(t.Context(), gateShard, 0, 1)
		return err
	}
	for range 3 {
		if r := try(); r != "store" {
			t.Fatalf("got %v", r)
		}
	}
}

// TestGateRateIsUsed: more readers than the rate can serve, each of which gives up
// after 5 s. The rate is neither exceeded nor wasted on those that have gone.
func TestGateRateIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, seconds = 100 << 10, 120
		g := gateFor(t, endless(1), func(c *Config) { c.DurableBytesPerSecond, c.DurableConcurrency = rate, 32 })
		end := time.Now().Add(seconds * time.Second)
		var read [32]int
		var all sync.WaitGroup
		for i := range read {
			all.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), durableTimeout)
					p, err := g.read(ctx, shardKey{fmt.Sprint("gate/", i), 1}, uint64(read[i]), 1<<40)
					if read[i] += len(p); err != nil {
						<-time.After(durableRestMax)
					}
					cancel()
				}
			})
		}
		all.Wait()
		sum := 0
		for _, n := range read {
			sum += n
		}
		if limit := rate * seconds; sum < limit*9/10 || sum > limit*11/10 {
			t.Fatalf("%d bytes in %d s at %d a second", sum, seconds, rate)
		}
	})
}

// TestGateRateIsForWhatWasRead, not for what was asked, nor for who gave up.
func TestGateRateIsForWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endless(1)
		s.read = func(_ context.Context, pos uint64, p []byte) (int, error) { fill(p[:1<<10], pos); return 1 << 10, nil }
		g := gateFor(t, s, func(c *Config) { c.DurableBytesPerSecond = 100 << 10 })
		start := time.Now()
		for i := range uint64(50) {
			if _, err := g.read(t.Context(), gateShard, i<<10, 1<<40); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithCancel(t.Context())
			go cancel()
			if _, err := g.read(short, gateShard, (i+1)<<10, 1<<40); err == nil {
				t.Fatal("not given up") // it waits for the rate, and ends before
			}
		}
		if d := time.Since(start); d > time.Second {
			t.Fatalf("50 KiB at 100 KiB a second took %v", d)
		}
	})
}

// TestGateMemory: what is kept for others is bounded over all shards and ends
// with its time; what is lent is no larger than what was read.
func TestGateMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endless(1)
		g := gateFor(t, s, nil)
		for i := range 100 {
			if _, err := g.read(t.Context(), shardKey{fmt.Sprint("gate/", i), 1}, 0, 1<<40); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(g.mu.kept); n != blocksKept {
			t.Fatalf("%d blocks are kept, want %d", n, blocksKept)
		}
		<-time.After(blockKept)
		short := func(_ context.Context, pos uint64, p []byte) (int, error) { fill(p[:9], pos); return 9, nil }
		g.store = scriptStore{stat: s.stat, read: short}
		p, err := g.read(t.Context(), gateShard, 1, 1<<40)
		if err != nil || len(p) != 9 || cap(p) > 64 {
			t.Fatalf("%d bytes in %d, %v", len(p), cap(p), err)
		}
		if n := len(g.mu.kept); n != 1 {
			t.Fatalf("%d blocks are kept, the old ones should have gone", n)
		}
	})
}

// TestGateReadsNoMoreThanAReaderMayHold.
func TestGateReadsNoMoreThanAReaderMayHold(t *testing.T) {
	for prefetch, want := range map[int]int{128 << 10: 128 << 10, 16 << 20: blockMax} {
		g := gateFor(t, endless(1), func(c *Config) { c.Prefetch = prefetch })
		if p, err := g.read(t.Context(), gateShard, 0, 1<<40); len(p) != want || err != nil {
			t.Errorf("prefetch %d: %d bytes, %v; want %d", prefetch, len(p), err, want)
		}
	}
}

// TestGateErrors: the store's errors come through, and are not kept.
func TestGateErrors(t *testing.T) {
	s := endless(1)
	fails := true
	s.read = func(_ context.Context, pos uint64, p []byte) (int, error) {
		if fails {
			return 0, fmt.Errorf("%w: gone", wire.ErrOutOfRetention)
		}
		return len(p), nil
	}
	g := gateFor(t, s, nil)
	if _, err := g.read(t.Context(), gateShard, 0, 1); !errors.Is(err, wire.ErrOutOfRetention) {
		t.Fatal(err)
	}
	fails = false
	if p, err := g.read(t.Context(), gateShard, 0, 1); len(p) == 0 || err != nil {
		t.Fatalf("%d bytes, %v", len(p), err)
	}
}
