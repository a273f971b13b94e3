package producer

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

func TestReopen(t *testing.T) {
	for _, tc := range []struct {
		name   string
		length int
		first  uint64
		want   []string
	}{
		{"empty", 0, 0, []string{"publish 0"}},
		{"one byte", 1, 0, []string{"put 0+0..1", "publish 1"}},
		{"border", 8192, 0, []string{"put 1+0..4096", "publish 8192"}},
		{"inside", 10000, 5000, []string{"put 2+0..1808", "publish 10000"}},
		{"start of the tail out of retention", 10000, 9000, nil},
		{"all out of retention", 10000, 10000, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.log.grow(pattern(0, tc.length))
				r.log.mu.info.First = tc.first
				r.open(t)
				defer r.close(t)
				r.expect(t, tc.want...)
				r.append(t, 100)
				if tc.want != nil {
					if got := r.cache.length(); got != uint64(tc.length)+100 {
						t.Errorf("published %d after another append", got)
					}
					return
				}
				// The chunk whose start is unknown is left out, the next one is whole.
				r.expect(t, "append 100")
				r.append(t, 8000)
				r.expect(t, "append 8000", "put 3+0..4096", "put 4+0..1716", "publish 18100")
			})
		})
	}
}

func TestReadTailFails(t *testing.T) {
	r := newRig(t)
	r.log.grow(pattern(0, 10))
	bad := errors.New("disk")
	_, err := Open(t.Context(), Config{Shard: testShard, Log: r.log, Cache: r.cache,
		ReadTail: func(context.Context, uint64, []byte) (int, error) { return 0, bad }})
	if !errors.Is(err, bad) {
		t.Errorf("open: %v", err)
	}
	if r.log.mu.closed {
		t.Error("the log was closed by an Open that failed")
	}
}

func TestSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 10)
		r.take()
		if err := r.a.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "seal", "put 0+0..10", "publish 10 sealed")
		r.log.mu.fail = func(uint64, []byte) error { return durable.ErrSealed }
		if _, err := appendOne(t.Context(), r.a, []byte("x")); !errors.Is(err, durable.ErrSealed) {
			t.Errorf("append to a sealed shard: %v", err)
		}
	})
}

func TestExplicitOffset(t *testing.T) {
	r := newRig(t)
	r.open(t)
	defer r.close(t)
	if pos, err := appendAt(t.Context(), r.a, 0, []byte("abc")); pos != 0 || err != nil {
		t.Fatal(pos, err)
	}
	var refused *wire.Error
	if _, err := appendAt(t.Context(), r.a, 0, []byte("abc")); !errors.As(err, &refused) || refused.Status != wire.StatusOffset || refused.Arg0 != 3 {
		t.Errorf("repeated append: %v", err)
	}
	if pos, err := appendAt(t.Context(), r.a, 3, []byte("d")); pos != 3 || err != nil {
		t.Error("after a refused offset:", pos, err)
	}
}

func TestDurableErrorIsTypedAndEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 10)
		r.take()
		r.log.mu.fail = func(uint64, []byte) error { return &wire.Error{Status: wire.StatusFull} }
		if _, err := appendOne(t.Context(), r.a, []byte("x")); !errors.Is(err, wire.ErrFull) {
			t.Errorf("append to a full disk: %v", err)
		}
		r.expect(t, "append refused")
		r.log.mu.fail = nil
		r.append(t, 1)
		r.expect(t, "flush", "append 1", "put 0+10..11", "publish 11")
	})
}

// An append that was given up, and came through, is mirrored by the next call or
// heartbeat, and is no foreign writer.
func TestUnknownOutcome(t *testing.T) {
	giveUp := func(r *rig) {
		r.log.mu.fail = func(off uint64, p []byte) error {
			r.log.mu.late, r.log.mu.fail = bytes.Clone(p), nil
			return durable.ErrUnknownOutcome
		}
	}
	t.Run("append", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.open(t)
			defer r.close(t)
			r.append(t, 100)
			giveUp(r)
			if _, err := appendOne(t.Context(), r.a, pattern(100, 5000)); !errors.Is(err, durable.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			r.take()
			if _, err := appendAt(t.Context(), r.a, 100, pattern(100, 5000)); !errors.Is(err, wire.ErrOffset) || wire.ErrorOf(err).Arg0 != 5100 {
				t.Errorf("repeated append: %v", err)
			}
			r.append(t, 1)
			r.expect(t, "flush", "append 1", "put 1+0..1005", "publish 5101")
		})
	})
	t.Run("heartbeat", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.open(t)
			defer r.close(t)
			giveUp(r)
			if _, err := appendOne(t.Context(), r.a, pattern(0, 10)); !errors.Is(err, durable.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			r.take()
			time.Sleep(time.Second + time.Millisecond)
			synctest.Wait()
			r.expect(t, "flush", "put 0+0..10", "publish 10")
		})
	})
}

func TestForeignWriterFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		r.append(t, 10)
		r.log.grow([]byte("somebody else"))
		for range 2 {
			if _, err := appendOne(t.Context(), r.a, []byte("x")); !errors.Is(err, ErrFenced) {
				t.Errorf("append: %v", err)
			}
		}
		r.take()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.expect(t) // a fenced Appender publishes nothing
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		r.cache.failWith(func(uint64) error { return context.DeadlineExceeded })
		r.append(t, 10)
		r.cache.failWith(nil)
		r.take()
		r.close(t)
		r.expect(t, "put 0+0..10", "publish 10", "close") // the last chance to publish
		r.close(t)
		r.expect(t)
		if _, err := appendOne(t.Context(), r.a, []byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
	})
}

func TestCloseWhileAppending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(t)
		defer r.close(t)
		hold, held := make(chan struct{}), make(chan struct{})
		r.log.mu.fail = func(uint64, []byte) error { close(held); <-hold; return nil }
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := appendOne(t.Context(), r.a, []byte("x")); err != nil {
				t.Error(err)
			}
		})
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.a.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close while an append hangs: %v", err)
		}
		if _, err := appendOne(ctx, r.a, []byte("y")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append behind one that hangs: %v", err)
		}
		close(hold)
		wg.Wait()
	})
}
