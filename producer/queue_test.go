package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// slowLog is a fakeLog before which a sink takes its time.
type slowLog struct {
	*fakeLog
	delay func(ctx context.Context) // before each append
}

func (l *slowLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.delay(ctx)
	return l.fakeLog.Append(ctx, off, p)
}

func takes(d time.Duration) func(context.Context) { return func(context.Context) { time.Sleep(d) } }

// slowRig is an Appender before a slow sink.
func slowRig(t testing.TB, delay func(context.Context), change func(*Config)) (*Appender, *fakeLog) {
	t.Helper()
	log := newFakeLog(new(trace))
	cfg := Config{Shard: testShard, Log: &slowLog{log, delay}, Heartbeat: time.Second, ReadTail: log.ReadAt}
	if change != nil {
		change(&cfg)
	}
	a, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a, log
}

func mustAppend(t testing.TB, a *Appender, record string) Ack {
	t.Helper()
	k, err := a.Append(t.Context(), []byte(record))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustClose(t testing.TB, a *Appender) {
	t.Helper()
	if err := a.Close(context.Background()); err != nil {
		t.Error("close:", err)
	}
}

// settled reports whether an Ack has resolved, after everybody had a go.
func settled(k Ack) bool {
	synctest.Wait()
	select {
	case <-k.Done():
		return true
	default:
		return false
	}
}

func expectAt(t testing.TB, k Ack, want uint64) {
	t.Helper()
	if pos, err := k.Wait(t.Context()); err != nil || pos != want {
		t.Errorf("position %d, want %d: %v", pos, want, err)
	}
}

func appends(l *fakeLog) (sizes []string) {
	for _, e := range l.take() {
		if s, ok := strings.CutPrefix(e, "append "); ok {
			sizes = append(sizes, s)
		}
	}
	return sizes
}

// What comes while a batch is on its way becomes the next one; an idle sink gets
// a record at once.
func TestBatchesFormBehindTheOneUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(10*time.Millisecond), nil)
		defer mustClose(t, a)
		began := time.Now()
		acks := make([]Ack, 0, 200)
		for range 200 {
			acks = append(acks, mustAppend(t, a, "0123456789"))
			synctest.Wait()
		}
		for i, k := range acks {
			expectAt(t, k, uint64(10*i))
		}
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("200 records took %v, want 5 batches of 10 ms", d)
		}
		if got := fmt.Sprint(appends(log)); got != "[10 640 640 640 70]" {
			t.Errorf("batches of %s bytes", got)
		}
		time.Sleep(time.Second)
		began = time.Now()
		expectAt(t, mustAppend(t, a, "x"), 2000)
		if d := time.Since(began); d != 10*time.Millisecond {
			t.Errorf("a record before an idle sink took %v", d)
		}
	})
}

// Producers that wait for their Acks come back a little after a batch: the next
// one waits for them, not longer than the linger.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(10*time.Millisecond), nil)
		defer mustClose(t, a)
		for round := range 3 {
			k := mustAppend(t, a, "first")
			synctest.Wait()
			var wg sync.WaitGroup
			for range 10 { // each waits, then takes 1 ms for its next record
				k := mustAppend(t, a, "again")
				wg.Go(func() {
					<-k.Done()
					time.Sleep(time.Millisecond)
					mustAppend(t, a, "again")
				})
			}
			<-k.Done()
			wg.Wait()
			if err := a.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(appends(log)); got != "[5 50 50]" {
				t.Errorf("round %d: batches of %s bytes", round, got)
			}
			time.Sleep(time.Second)
		}
		// One that comes alone after a batch of many waits no longer than the linger.
		first := mustAppend(t, a, "1")
		synctest.Wait()
		for range 10 {
			mustAppend(t, a, "2")
		}
		<-first.Done()
		time.Sleep(10*time.Millisecond + time.Microsecond)
		began := time.Now()
		k := mustAppend(t, a, "alone")
		<-k.Done()
		if d := time.Since(began); d > 12*time.Millisecond || d < 11*time.Millisecond {
			t.Errorf("a lone record took %v behind a batch", d)
		}
		// Behind one record of its own it waits for nothing.
		began = time.Now()
		<-mustAppend(t, a, "alone").Done()
		if d := time.Since(began); d != 10*time.Millisecond {
			t.Errorf("a lone record took %v behind another", d)
		}
	})
}

func TestFlushDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := slowRig(t, takes(time.Millisecond), func(c *Config) { c.Limits.Linger = time.Hour })
		defer mustClose(t, a)
		k := mustAppend(t, a, "1")
		synctest.Wait()
		for range 5 {
			mustAppend(t, a, "2")
		}
		<-k.Done()
		time.Sleep(time.Second)
		k = mustAppend(t, a, "lingers")
		time.Sleep(time.Minute)
		if settled(k) {
			t.Fatal("does not linger")
		}
		began := time.Now()
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Millisecond || !settled(k) {
			t.Errorf("flush took %v", d)
		}
	})
}

func TestBatchBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(time.Millisecond), func(c *Config) { c.Limits.BatchBytes = 1000 })
		defer mustClose(t, a)
		for _, n := range []int{1, 600, 400, 1, 5000, 999, 1} {
			mustAppend(t, a, strings.Repeat("x", n))
			synctest.Wait()
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(appends(log)); got != "[1 1000 1 5000 1000]" {
			t.Errorf("batches of %s bytes", got)
		}
	})
}

// gate is a sink that is shut until it is opened.
type gate struct{ c chan struct{} }

func newGate() gate                  { return gate{make(chan struct{})} }
func (g gate) delay(context.Context) { <-g.c }
func (g gate) open()                 { close(g.c) }
func limits(records, batch int) func(*Config) {
	return func(c *Config) { c.Limits = Limits{QueueRecords: records, BatchRecords: batch} }
}

func TestBlockedProducerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, limits(4, 2))
		defer mustClose(t, a)
		mustAppend(t, a, "on its way;")
		synctest.Wait()
		for range 4 {
			mustAppend(t, a, "waits;")
		}
		if _, err := a.TryAppend([]byte("x")); !errors.Is(err, ErrQueueFull) {
			t.Errorf("TryAppend to a full queue: %v", err)
		}
		var wg sync.WaitGroup
		for i := range 6 { // in the order in which they came
			wg.Go(func() { mustAppend(t, a, fmt.Sprintf("blocked %d;", i)) })
			synctest.Wait()
		}
		if s := a.Stats(); s.Blocked != 6 || s.QueueRecords != 4 {
			t.Errorf("%d blocked behind %d records", s.Blocked, s.QueueRecords)
		}
		g.open()
		wg.Wait()
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "on its way;" + strings.Repeat("waits;", 4)
		for i := range 6 {
			want += fmt.Sprintf("blocked %d;", i)
		}
		if got := string(log.mu.bytes); got != want {
			t.Errorf("stored %q\nwant   %q", got, want)
		}
		if _, err := a.TryAppend([]byte("x")); err != nil {
			t.Errorf("TryAppend to an empty queue: %v", err)
		}
	})
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, _ := slowRig(t, g.delay, func(c *Config) { c.Limits.QueueBytes = 1000 })
		mustAppend(t, a, "on its way")
		synctest.Wait()
		mustAppend(t, a, strings.Repeat("x", 5000)) // larger than the queue: waits alone
		if _, err := a.TryAppend([]byte("x")); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a second one: %v", err)
		}
		g.open()
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustClose(t, a)
	})
}

// A small record that would fit does not overtake a large one that waits for room.
func TestNobodyOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, func(c *Config) { c.Limits.QueueBytes = 1000 })
		mustAppend(t, a, "on its way")
		synctest.Wait()
		mustAppend(t, a, strings.Repeat("x", 900))
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wg.Go(func() { // gives up
			if _, err := a.Append(ctx, make([]byte, 400)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		if _, err := a.TryAppend([]byte("small")); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a small one behind a large one: %v", err)
		}
		wg.Go(func() { mustAppend(t, a, "small") }) // goes on when the large one has given up
		wg.Wait()
		g.open()
		mustClose(t, a)
		if got := len(log.mu.bytes); got != 10+900+5 {
			t.Errorf("%d bytes stored", got)
		}
	})
}

// A context that ends before a record is queued leaves no trace of it; one that
// ends afterwards leaves the outcome open, and says so.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, limits(1, 1))
		flying := mustAppend(t, a, "flying;")
		synctest.Wait()
		queued := mustAppend(t, a, "queued;")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Append(ctx, []byte("blocked;")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, durable.ErrUnknownOutcome) {
			t.Errorf("append that waits for room: %v", err)
		}
		for _, k := range []Ack{flying, queued} {
			if _, err := k.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, durable.ErrUnknownOutcome) {
				t.Errorf("wait: %v", err)
			}
		}
		if _, err := a.Append(ctx, []byte("late;")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append with a context that has ended: %v", err)
		}
		if err := a.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		g.open()
		expectAt(t, flying, 0)
		expectAt(t, queued, 7)
		mustClose(t, a)
		if got := string(log.mu.bytes); got != "flying;queued;" {
			t.Errorf("stored %q", got)
		}
	})
}

func TestDropNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, func(c *Config) { limits(4, 2)(c); c.Policy = DropNewest })
		mustAppend(t, a, "flying;")
		synctest.Wait()
		kept, dropped := 0, 0
		for i := range 10 {
			if _, err := a.Append(t.Context(), fmt.Appendf(nil, "%d;", i)); errors.Is(err, ErrDropped) {
				dropped++
			} else if err != nil {
				t.Error(err)
			} else {
				kept++
			}
		}
		if kept != 4 || dropped != 6 || a.Stats().DroppedNewest != 6 {
			t.Errorf("%d kept, %d dropped, %d counted", kept, dropped, a.Stats().DroppedNewest)
		}
		g.open()
		mustClose(t, a)
		if got := string(log.mu.bytes); got != "flying;0;1;2;3;" {
			t.Errorf("stored %q", got)
		}
	})
}

func TestDropOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, func(c *Config) { limits(4, 2)(c); c.Policy = DropOldest })
		flying := mustAppend(t, a, "flying;")
		synctest.Wait()
		var acks []Ack
		for i := range 10 {
			acks = append(acks, mustAppend(t, a, fmt.Sprintf("%d;", i)))
		}
		for i, k := range acks[:6] {
			if !settled(k) {
				t.Fatalf("the Ack of %d is still open", i)
			}
			if _, err := k.Wait(t.Context()); !errors.Is(err, ErrDropped) {
				t.Errorf("the Ack of %d: %v", i, err)
			}
		}
		g.open()
		expectAt(t, flying, 0)
		expectAt(t, acks[6], 7)
		expectAt(t, acks[9], 13)
		mustClose(t, a)
		if got := string(log.mu.bytes); got != "flying;6;7;8;9;" || a.Stats().DroppedOldest != 6 {
			t.Errorf("stored %q, %d drops counted", got, a.Stats().DroppedOldest)
		}
	})
}

// Drops are logged once a second with their number, the last ones too.
func TestDropsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g := newGate()
		a, _ := slowRig(t, g.delay, func(c *Config) {
			limits(1, 1)(c)
			c.Policy, c.Logger = DropNewest, slog.New(slog.NewTextHandler(&out, nil))
		})
		mustAppend(t, a, "flying")
		synctest.Wait()
		mustAppend(t, a, "queued")
		for range 250 {
			_, _ = a.Append(t.Context(), []byte("x"))
			time.Sleep(10 * time.Millisecond)
		}
		g.open()
		mustClose(t, a)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		total := 0
		for _, l := range lines {
			var n int
			if _, err := fmt.Sscanf(l[strings.Index(l, " records=")+1:], "records=%d", &n); err != nil {
				t.Errorf("%q: %v", l, err)
			}
			total += n
		}
		if len(lines) != 4 || total != 250 {
			t.Errorf("%d drops in %d lines:\n%s", total, len(lines), out.String())
		}
	})
}

// A sink that hangs for 30 s: producers block, memory stays within the queue's
// bounds, and work goes on.
func TestSinkHangs(t *testing.T) {
	for _, policy := range []Policy{Block, DropNewest, DropOldest} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := true
				delay := func(context.Context) {
					if hang {
						time.Sleep(30 * time.Second)
					}
					hang = false
				}
				a, log := slowRig(t, delay, func(c *Config) { c.Policy = policy })
				record := make([]byte, 10_000)
				began := time.Now()
				var wg sync.WaitGroup
				acked, dropped := make([]int, 8), make([]int, 8)
				for i := range 8 {
					wg.Go(func() {
						for range 250 {
							k, err := a.Append(t.Context(), record)
							if err == nil {
								_ = k
								acked[i]++
							} else if errors.Is(err, ErrDropped) {
								dropped[i]++
							} else {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				if d := time.Since(began); policy == Block && d < 30*time.Second || policy != Block && d > 0 {
					t.Errorf("producers took %v", d)
				}
				s := a.Stats()
				if s.QueueBytesMax > 4<<20 || s.QueueRecordsMax > 1024 {
					t.Errorf("%d records, %d bytes waited", s.QueueRecordsMax, s.QueueBytesMax)
				}
				mustClose(t, a)
				if s = a.Stats(); s.SinkMax != 30*time.Second || s.Records+s.DroppedNewest+s.DroppedOldest != 2000 {
					t.Errorf("sink %v, %d records durable, %d and %d dropped of 2000", s.SinkMax, s.Records, s.DroppedNewest, s.DroppedOldest)
				}
				if policy == Block && len(log.mu.bytes) != 2000*len(record) {
					t.Errorf("%d bytes stored", len(log.mu.bytes))
				}
				if policy != Block && s.Records >= 2000 {
					t.Error("nothing was dropped")
				}
			})
		})
	}
}

// A full disk fails what is on its way, or holds it, as set; once there is space,
// work goes on.
func TestFullDiskThenSpace(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, log := slowRig(t, takes(time.Millisecond), func(c *Config) { limits(4, 2)(c); c.WaitForSpace = wait })
				defer mustClose(t, a)
				full := &wire.Error{Status: wire.StatusFull, Message: "free some"}
				log.mu.fail = func(uint64, []byte) error { return full }
				k := mustAppend(t, a, "first;")
				if wait == 0 {
					if _, err := k.Wait(t.Context()); !errors.Is(err, wire.ErrFull) {
						t.Errorf("append to a full disk: %v", err)
					}
				} else {
					var wg sync.WaitGroup
					for range 10 { // fills the queue, and blocks
						wg.Go(func() { mustAppend(t, a, "more;") })
					}
					time.Sleep(10 * time.Second)
					if settled(k) || a.Stats().QueueRecords != 4 {
						t.Error("does not wait for space")
					}
					defer wg.Wait()
				}
				log.mu.Lock()
				log.mu.fail = nil
				log.mu.Unlock()
				if wait > 0 {
					expectAt(t, k, 0)
				}
				if _, err := mustAppend(t, a, "later;").Wait(t.Context()); err != nil {
					t.Errorf("append after space was made: %v", err)
				}
			})
		})
	}
}

// With a policy to drop, producers go on at once on a full disk: what does not fit
// into the queue is dropped, and what is in it becomes durable when there is space.
func TestFullDiskDrops(t *testing.T) {
	for _, policy := range []Policy{DropNewest, DropOldest} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, log := slowRig(t, takes(0), func(c *Config) { limits(4, 2)(c); c.WaitForSpace, c.Policy = time.Minute, policy })
				log.mu.fail = func(uint64, []byte) error { return &wire.Error{Status: wire.StatusFull, Message: "free some"} }
				mustAppend(t, a, "flying;")
				synctest.Wait()
				began, dropped := time.Now(), 0
				var acks []Ack
				for i := range 20 {
					k, err := a.Append(t.Context(), fmt.Appendf(nil, "%02d;", i))
					if errors.Is(err, ErrDropped) {
						dropped++
					} else if err != nil {
						t.Fatal(err)
					} else {
						acks = append(acks, k)
					}
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("20 appends took %v on a full disk", took)
				}
				log.mu.Lock()
				log.mu.fail = nil
				log.mu.Unlock()
				for _, k := range acks {
					if _, err := k.Wait(t.Context()); errors.Is(err, ErrDropped) {
						dropped++
					} else if err != nil {
						t.Error(err)
					}
				}
				mustClose(t, a)
				want := map[Policy]string{DropNewest: "flying;00;01;02;03;", DropOldest: "flying;16;17;18;19;"}[policy]
				if got := string(log.mu.bytes); got != want || dropped != 16 {
					t.Errorf("stored %q, %d dropped", got, dropped)
				}
			})
		})
	}
}

func TestFullDiskForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(0), func(c *Config) { c.WaitForSpace = 3 * time.Second })
		log.mu.fail = func(uint64, []byte) error { return &wire.Error{Status: wire.StatusFull} }
		began := time.Now()
		if _, err := mustAppend(t, a, "x").Wait(t.Context()); !errors.Is(err, wire.ErrFull) || time.Since(began) > 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := a.Flush(t.Context()); !errors.Is(err, wire.ErrFull) {
			t.Errorf("flush tells nothing of it: %v", err)
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Errorf("flush tells it twice: %v", err)
		}
		k := mustAppend(t, a, "x")
		time.Sleep(time.Second)
		began = time.Now()
		mustClose(t, a) // does not wait for space
		if _, err := k.Wait(t.Context()); !errors.Is(err, wire.ErrFull) || time.Since(began) > 0 {
			t.Errorf("close took %v, Ack: %v", time.Since(began), err)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(time.Millisecond), nil)
		var last Ack
		for range 500 {
			last = mustAppend(t, a, "record;")
		}
		mustClose(t, a)
		expectAt(t, last, 499*7)
		if len(log.mu.bytes) != 500*7 || !log.mu.closed {
			t.Errorf("%d bytes stored, closed: %v", len(log.mu.bytes), log.mu.closed)
		}
	})
}

// A Close whose time is up gives up what is not yet on its way, and no more.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, limits(3, 2))
		flying := mustAppend(t, a, "flying;")
		synctest.Wait()
		queued := []Ack{mustAppend(t, a, "1;"), mustAppend(t, a, "2;"), mustAppend(t, a, "3;")}
		blocked := make(chan error, 1)
		go func() { _, err := a.Append(context.Background(), []byte("blocked;")); blocked <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 records") {
			t.Errorf("close: %v", err)
		}
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("a producer that waited for room: %v", err)
		}
		for _, k := range queued {
			if _, err := k.Wait(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("what was queued: %v", err)
			}
		}
		if settled(flying) {
			t.Error("what is on its way is settled before the sink knows")
		}
		if _, err := a.Append(t.Context(), []byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
		g.open()
		expectAt(t, flying, 0)
		mustClose(t, a)
		if string(log.mu.bytes) != "flying;" || !log.mu.closed {
			t.Errorf("stored %q, closed: %v", log.mu.bytes, log.mu.closed)
		}
		if err := a.Seal(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("seal after close: %v", err)
		}
	})
}

// A batch that fails takes no other with it, and a record that names its place is
// refused if it would come to lie elsewhere.
func TestFailureBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		a, log := slowRig(t, g.delay, nil)
		at := func(off uint64, s string) Ack {
			t.Helper()
			k, err := a.AppendAt(t.Context(), off, []byte(s))
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		fails := mustAppend(t, a, "fails;")
		synctest.Wait()
		bound := at(6, "bound;") // continues what fails
		joins := at(12, "joins;")
		free := mustAppend(t, a, "free;")
		again := at(5, "again;") // where it comes to lie if both are refused
		log.mu.fail = func(uint64, []byte) error { log.mu.fail = nil; return &wire.Error{Status: wire.StatusFull} }
		g.open()
		if _, err := fails.Wait(t.Context()); !errors.Is(err, wire.ErrFull) {
			t.Error("the first:", err)
		}
		for _, k := range []Ack{bound, joins} {
			var refused *wire.Error
			if _, err := k.Wait(t.Context()); !errors.As(err, &refused) || refused.Status != wire.StatusOffset || refused.Arg0 != 0 {
				t.Error("a place behind what failed:", err)
			}
		}
		expectAt(t, free, 0)
		expectAt(t, again, 5)
		mustClose(t, a)
		if got := string(log.mu.bytes); got != "free;again;" {
			t.Errorf("stored %q", got)
		}
	})
}

func TestSealWaitsForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := slowRig(t, takes(time.Second), nil)
		defer mustClose(t, a)
		for range 100 {
			mustAppend(t, a, "record;")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.Seal(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("seal: %v", err)
		}
		if err := a.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !log.Info().Sealed || len(log.mu.bytes) != 700 {
			t.Errorf("sealed at %d: %v", len(log.mu.bytes), log.Info().Sealed)
		}
	})
}

// Workers bound how many shards write at once.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorkers(2)
		var mu sync.Mutex
		now, most := 0, 0
		delay := func(context.Context) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
		}
		began := time.Now()
		var all []*Appender
		var acks []Ack
		for range 6 {
			a, _ := slowRig(t, delay, func(c *Config) { c.Workers = w })
			all, acks = append(all, a), append(acks, mustAppend(t, a, "x"))
		}
		for _, k := range acks {
			expectAt(t, k, 0)
		}
		if d := time.Since(began); most != 2 || d != 30*time.Millisecond {
			t.Errorf("%d at once, 6 shards took %v", most, d)
		}
		for _, a := range all {
			mustClose(t, a)
		}
	})
}

// A batch is one append, the puts of its chunks, and one publication, in this order;
// only then do its producers know.
func TestOneBatchOnePublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, err := Open(t.Context(), Config{Shard: testShard, Log: &slowLog{r.log, takes(time.Millisecond)}, ReadTail: r.log.ReadAt, Cache: r.cache})
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, a)
		r.take()
		var last atomic.Pointer[Ack]
		r.cache.failWith(func(chunk uint64) error {
			if k := last.Load(); k != nil {
				select {
				case <-k.Done():
					t.Errorf("a record is acknowledged before chunk %d was put, or the length published", chunk)
				default:
				}
			}
			return nil
		})
		for range 10 {
			k := mustAppend(t, a, strings.Repeat("x", 1000))
			last.Store(&k)
			synctest.Wait()
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "append 1000", "put 0+0..1000", "publish 1000",
			"append 9000", "put 0+1000..4096", "put 1+0..4096", "put 2+0..1808", "publish 10000")
	})
}
