package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/reader"
)

// tailer follows one shard and holds every byte against what its position says.
type tailer struct {
	name  string
	shard layout.Shard
	feed  *feed // for delivery times; nil: none are kept
	r     *reader.Reader
	// wander makes it seek to and fro within what was appended lately; nil: it
	// follows the end.
	wander   *rand.Rand
	straight atomic.Bool // it wanders no more

	pos     atomic.Uint64
	checked atomic.Uint64
	wrong   atomic.Int64
	gaps    atomic.Int64
	// When bytes last came from the cache, and from the store, in ns.
	cacheAt, durableAt atomic.Int64

	mu struct {
		sync.Mutex
		took  []elapsed // from append to delivery
		marks int       // of the feed, already delivered
		err   error     // what Next returned, if not the end of ctx
	}
}

// run reads until ctx ends or a read fails.
func (t *tailer) run(ctx context.Context) {
	var room []byte
	for {
		b, err := t.r.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.failed(fmt.Errorf("%s at %d: %w", t.name, t.pos.Load(), err))
			}
			return
		}
		now := time.Now()
		if b.Position != t.pos.Load() {
			t.gaps.Add(1)
			t.failed(fmt.Errorf("%s: batch begins at %d, want %d", t.name, b.Position, t.pos.Load()))
		}
		if i := wrongAt(b.Data, t.shard, b.Position, &room); i >= 0 {
			t.wrong.Add(1)
			t.failed(fmt.Errorf("%s: wrong byte at %d from %v", t.name, b.Position+uint64(i), b.Source))
		}
		at := &t.cacheAt
		if b.Source == reader.FromDurable {
			at = &t.durableAt
		}
		at.Store(now.UnixNano())
		t.checked.Add(uint64(len(b.Data)))
		t.pos.Store(b.Position + uint64(len(b.Data)))
		t.delivered(now)
		if t.wander != nil && !t.straight.Load() && t.wander.IntN(20) == 0 {
			if err := t.seek(ctx); err != nil && ctx.Err() == nil {
				t.failed(fmt.Errorf("%s: seek: %w", t.name, err))
				return
			}
		}
	}
}

// wanderMost is how far back a reader wanders.
const wanderMost = 8 << 20

// seek goes to some position before what is known to exist.
func (t *tailer) seek(ctx context.Context) error {
	end := t.pos.Load() + t.r.Lag()
	pos := end - t.wander.Uint64N(min(end, wanderMost)+1)
	t.pos.Store(pos)
	return t.r.Seek(ctx, reader.At(pos))
}

func (t *tailer) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.err = errors.Join(t.mu.err, err)
}

func (t *tailer) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.err
}

// delivered notes how long each record has taken that is there by now.
func (t *tailer) delivered(now time.Time) {
	if t.feed == nil {
		return
	}
	pos := t.pos.Load()
	t.feed.mu.Lock()
	marks := t.feed.mu.marks
	t.feed.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.mu.marks < len(marks) && marks[t.mu.marks].end <= pos {
		t.mu.took = append(t.mu.took, elapsed{now, now.Sub(marks[t.mu.marks].at)})
		t.mu.marks++
	}
}

func (t *tailer) between(from, to time.Time) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return endedIn(t.mu.took, from, to)
}
