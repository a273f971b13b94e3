package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rmatail/rmatail/fallback/wire"
)

// rig is an Appender between a fake log and a fake cache that share a trace.
type rig struct {
	*trace
	log   *fakeLog
	cache *fakeCache
	a     *Appender
	reg   *prometheus.Registry
}

func newRig(t testing.TB) *rig {
	tr := new(trace)
	return &rig{trace: tr, log: newFakeLog(tr), cache: newFakeCache(t, tr), reg: prometheus.NewRegistry()}
}

func (r *rig) open(t testing.TB) {
	t.Helper()
	a, err := Open(t.Context(), Config{
		Shard: testShard, Log: r.log, ReadTail: r.log.ReadAt, Cache: r.cache, Registerer: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.a = a
}

func (r *rig) close(t testing.TB) {
	t.Helper()
	if err := r.a.Close(context.Background()); err != nil {
		t.Error("close:", err)
	}
}

// appendAt appends a record and waits for its position.
func appendAt(ctx context.Context, a *Appender, off uint64, record []byte) (uint64, error) {
	k, err := a.AppendAt(ctx, off, record)
	if err != nil {
		return 0, err
	}
	return k.Wait(ctx)
}

func appendOne(ctx context.Context, a *Appender, record []byte) (uint64, error) {
	return appendAt(ctx, a, wire.NoOffset, record)
}

func (r *rig) append(t testing.TB, n int) {
	t.Helper()
	want := r.log.Info().Length
	if pos, err := appendOne(t.Context(), r.a, pattern(want, n)); err != nil || pos != want {
		t.Fatalf("append of %d at %d: position %d, %v", n, want, pos, err)
	}
}

func (r *rig) expect(t testing.TB, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
}

func (r *rig) skips(reason string) float64 {
	return testutil.ToFloat64(newMetrics(r.reg).skips.WithLabelValues(reason))
}

// pattern returns the bytes of a shard at [pos, pos+n): each position has its own.
func pattern(pos uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := (pos + uint64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	return b
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.expect(t, "publish 0")
		r.append(t, 100)
		r.expect(t, "append 100", "put 0+0..100", "publish 100")
		r.append(t, 3996) // to the chunk's border
		r.expect(t, "append 3996", "put 0+100..4096", "publish 4096")
		r.append(t, 1)
		r.expect(t, "append 1", "put 1+0..1", "publish 4097")
		r.append(t, 3*4096) // ends one chunk, fills two, begins another
		r.expect(t, "append 12288", "put 1+1..4096", "put 2+0..4096", "put 3+0..4096", "put 4+0..1", "publish 16385")
		if !bytes.Equal(r.cache.mu.chunks[1], pattern(4096, 4096)) {
			t.Error("chunk 1 is wrong: its buffer was reused too early")
		}
	})
}

func TestRecordSizes(t *testing.T) {
	r := newRig(t)
	r.open(t)
	defer r.close(t)
	for _, n := range []int{0, MaxRecord + 1} {
		if _, err := appendOne(t.Context(), r.a, make([]byte, n)); !errors.Is(err, ErrRecord) {
			t.Errorf("record of %d bytes: %v", n, err)
		}
	}
	r.append(t, MaxRecord)
	if got := r.cache.length(); got != MaxRecord {
		t.Errorf("published %d", got)
	}
}

func TestPrefixIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 100)
		r.cache.forget()
		r.take()
		r.append(t, 50)
		r.expect(t, "append 50", "put 0+100 needs prefix", "put 0+0..150", "publish 150")
		r.append(t, 4000)
		r.cache.forget()
		r.take()
		// The chunk that lacks its prefix is not the tail any more.
		r.append(t, 5000)
		r.expect(t, "append 5000", "put 1+54 needs prefix", "put 1+0..4096", "put 2+0..958", "publish 9150")
	})
}

func TestTailThatFailedIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 100)
		r.take()
		r.cache.failWith(func(chunk uint64) error {
			if chunk == 2 {
				return &wire.Error{Status: wire.StatusBusy}
			}
			return nil
		})
		r.append(t, 2*4096)
		r.expect(t, "append 8192", "put 0+100..4096", "put 1+0..4096", "put 2+0 refused")
		r.cache.failWith(nil)
		r.append(t, 10) // a refusal is retried with the next record, from the chunk's start
		r.expect(t, "append 10", "put 2+0..110", "publish 8302")
		if r.skips("node_busy") != 1 {
			t.Error("the refusal is not counted")
		}
	})
}

func TestHoleBelowTheTailIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.take()
		r.cache.failWith(func(chunk uint64) error {
			if chunk == 1 {
				return &wire.Error{Status: wire.StatusBusy}
			}
			return nil
		})
		r.append(t, 3*4096)
		r.expect(t, "append 12288", "put 0+0..4096", "put 1+0 refused", "put 2+0..4096", "publish 12288")
		if got := testutil.ToFloat64(r.a.metrics.holes); got != 1 {
			t.Errorf("%v holes", got)
		}
	})
}

func TestPublishThatFailedIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.take()
		r.cache.failWith(func(chunk uint64) error {
			if chunk == publishing {
				return &wire.Error{Status: wire.StatusBusy}
			}
			return nil
		})
		r.append(t, 10)
		r.expect(t, "append 10", "put 0+0..10", "publish refused")
		r.cache.failWith(nil)
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		r.expect(t, "put 0+0..10", "publish 10")
	})
}

// A cache that is away fails no append, and catches up by jumping.
func TestDeadCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.take()
		r.cache.failWith(func(uint64) error { return fmt.Errorf("%w: gone", errSuspended) })
		for range 1000 {
			r.append(t, 100)
		}
		if got := r.cache.length(); got != 0 {
			t.Errorf("published %d through a dead cache", got)
		}
		r.cache.failWith(nil)
		r.take()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		r.expect(t, "put 24+0..1696", "publish 100000")
		r.append(t, 10)
		r.expect(t, "append 10", "put 24+1696..1706", "publish 100010")
		if r.skips(reasonSuspended) < 1000 {
			t.Error("skips are not counted under their reason")
		}
		if got := testutil.ToFloat64(r.a.metrics.holes); got != 24 {
			t.Errorf("%v holes, want the 24 complete chunks", got)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 5000)
		first := r.cache.mu.entry.HeartbeatMS
		r.take()
		r.cache.forget() // restarted empty, and nobody appends
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		r.expect(t, "put 1+0..904", "publish 5000")
		if d := r.cache.mu.entry.HeartbeatMS - first; d != 1000 {
			t.Errorf("heartbeat moved by %d ms", d)
		}
		// Appends that publish are heartbeats themselves.
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			r.append(t, 1)
		}
		for _, e := range r.take() {
			if e == "put 1+0..905" {
				t.Error("refilled between appends")
			}
		}
	})
}

func TestConcurrentAppends(t *testing.T) {
	r := newRig(t)
	r.open(t)
	defer r.close(t)
	const workers, each = 8, 200
	var wg sync.WaitGroup
	seen := make([][]uint64, workers)
	for w := range workers {
		wg.Go(func() {
			for range each {
				pos, err := appendOne(t.Context(), r.a, bytes.Repeat([]byte{byte(w)}, w+1))
				if err != nil {
					t.Error(err)
					return
				}
				seen[w] = append(seen[w], pos)
			}
		})
	}
	wg.Wait()
	for w, all := range seen {
		for _, pos := range all {
			if got := r.log.mu.bytes[pos:][:w+1]; !bytes.Equal(got, bytes.Repeat([]byte{byte(w)}, w+1)) {
				t.Fatalf("record of %d at %d is %v", w, pos, got)
			}
		}
	}
	if got, want := r.cache.length(), uint64(len(r.log.mu.bytes)); got != want {
		t.Errorf("published %d of %d", got, want)
	}
}

func TestSecondAppenderSharesMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	for i := range 2 {
		log := newFakeLog(new(trace))
		a, err := Open(t.Context(), Config{Shard: testShard, Log: log, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := appendOne(t.Context(), a, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(newMetrics(reg).appends); got != float64(i+1) {
			t.Errorf("%v appends counted after %d", got, i+1)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfig(t *testing.T) {
	log := newFakeLog(new(trace))
	for _, c := range []Config{{Log: log}, {Shard: testShard}, {Shard: testShard, Log: log, Heartbeat: -1}} {
		if _, err := Open(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
