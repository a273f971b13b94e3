package reader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// slowStore answers everything after a while, or when ctx ends.
type slowStore struct {
	scriptStore
	takes time.Duration
	begun *atomic.Uint64 // reads
}

func (s *slowStore) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Stat(ctx context.Context, shard string) (durable.Info, error) {
	if err := s.wait(ctx); err != nil {
		return durable.Info{}, err
	}
	return s.stat()
}

func (s *slowStore) ReadAt(ctx context.Context, _ string, pos uint64, p []byte) (int, error) {
	s.begun.Add(1)
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.read(ctx, pos, p)
}

// nextFor calls Next with short deadlines until it brings something else than
// their end.
func nextFor(t *testing.T, r *Reader, most time.Duration) (b Batch, err error) {
	for end := time.Now().Add(most); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		start := time.Now()
		b, err = r.Next(ctx)
		cancel()
		if d := time.Since(start); d > 20*time.Millisecond {
			t.Fatalf("a Next of 20 ms took %v", d)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return b, err
		}
	}
	t.Fatalf("nothing in %v", most)
	return b, err
}

// TestFabricImpatientNext: every Next ends long before the store has answered.
// Bytes come all the same, as do a length that has grown and the shard's end, and
// nothing is read twice.
func TestFabricImpatientNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var length, begun, reads atomic.Uint64
		var gone atomic.Bool
		length.Store(100)
		s := &slowStore{takes: 300 * time.Millisecond, begun: &begun}
		s.stat = func() (durable.Info, error) {
			if gone.Load() {
				return durable.Info{}, &wire.Error{Status: wire.StatusUnknownShard}
			}
			return durable.Info{Incarnation: 77, Length: length.Load()}, nil
		}
		s.read = func(_ context.Context, pos uint64, p []byte) (int, error) {
			reads.Add(1)
			n := int(min(length.Load()-pos, uint64(len(p))))
			fill(p[:n], pos)
			return n, nil
		}
		c := bareCluster(t, s)
		defer c.Close()
		c.roster.Store(nil)
		r := openAt(t, c, Earliest())
		defer r.Close()
		for range 5 {
			for r.Position() < length.Load() {
				b, err := nextFor(t, r, 5*time.Second)
				if err != nil || wrongAt(b.Data, b.Position) >= 0 {
					t.Fatalf("%d bytes at %d: %v", len(b.Data), b.Position, err)
				}
			}
			length.Add(100)
		}
		length.Store(r.Position())
		if begun.Load() != reads.Load() || reads.Load() != 5 {
			t.Errorf("%d reads begun, %d done; want 5", begun.Load(), reads.Load())
		}
		gone.Store(true)
		if b, err := nextFor(t, r, 10*time.Second); !errors.Is(err, wire.ErrUnknownShard) {
			t.Errorf("of a deleted shard: %d bytes, %v", len(b.Data), err)
		}
	})
}

// TestFabricNewsBeforeAnAnswer: the store hangs when it is asked for the length,
// and the cache goes on meanwhile.
func TestFabricNewsBeforeAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := bench(t, FromTCP, 1000)
		defer c.Close()
		r := openAt(t, c, At(1000))
		defer r.Close()
		c.gate.store = &slowStore{takes: time.Hour, begun: new(atomic.Uint64)}
		const asked = beatStale + time.Second
		var writer sync.WaitGroup
		writer.Go(func() {
			<-time.After(asked)
			w.append(500)
			w.publish(0)
		})
		start := time.Now()
		b, err := r.Next(t.Context())
		if err != nil || wrongAt(b.Data, 1000) >= 0 || time.Since(start) > asked+time.Second/2 {
			t.Fatalf("%d bytes after %v: %v", len(b.Data), time.Since(start), err)
		}
		writer.Wait()
	})
}

// TestFabricAskingHoldsNoMemory: a Reader that waits for what the store says has given
// back what its last bytes landed in, as one that waits for news has.
func TestFabricAskingHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 4<<20, 1, faults{})
		w := newFabricWriter(t, f)
		w.append(1000)
		w.publish(0)
		c := fabricCluster(t, f, &slowStore{scriptStore: scriptStore{stat: func() (durable.Info, error) { return durable.Info{Incarnation: 77, Length: 1000}, nil }},
			takes: time.Second})
		defer c.Close()
		r := openAt(t, c, Earliest())
		defer r.Close()
		if b, err := r.Next(t.Context()); err != nil || b.Source != FromSHM {
			t.Fatalf("%+v, %v", b, err)
		}
		<-time.After(2 * beatStale) // no heartbeat comes: the next thing to do is to ask
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || r.asked == nil {
			t.Fatalf("%v, want a question on its way", err)
		}
		if n := r.held(); n != 0 {
			t.Errorf("%d bytes are held meanwhile", n)
		}
	})
}
