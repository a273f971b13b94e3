package local

import (
	"fmt"
	"time"
)

// MaxWords is how many conditions a batch has room for.
const MaxWords = 128

// when is what a batch waits for before it is carried out.
type when struct {
	words  []condition
	bits   uint32
	until  time.Time
	ready  chan struct{} // capacity 1: a condition holds
	timer  *time.Timer
	listed bool // guarded by waiter.mu
}

// condition is that a word of the arena has another value.
type condition struct{ off, value uint64 }

func (w *when) holds(arena []byte) bool {
	for _, c := range w.words {
		if loadWord(arena, c.off) != c.value {
			return true
		}
	}
	return false
}

// Wakes reports whether the node tells of changes, so that batches can wait for them
// (PostWhen). One of an older release does not, and one that has gone neither.
func (b *Batch) Wakes() bool {
	b.c.guard.RLock() // the word goes with the mapping
	defer b.c.guard.RUnlock()
	return b.c.Err() == nil && b.c.waiter.wakes()
}

// Extents reports that extents are not looked up here: that costs the process that reads one
// more copy, and no round trip.
func (b *Batch) Extents() bool { return false }

// AddExtent returns nil: see Extents.
func (b *Batch) AddExtent([16]byte, uint64, int, int) []byte { return nil }

// When adds a condition to the batch: that the 8-byte word of the arena at off has
// another value. False when off is not a multiple of 8 or outside of the arena, when
// there are MaxWords, or when the batch is already posted.
func (b *Batch) When(off, value uint64) bool {
	if b.state != planning || off%8 != 0 || b.c.size < 8 || off > b.c.size-8 || len(b.when.words) == MaxWords {
		return false
	}
	b.when.words = append(b.when.words, condition{off, value})
	b.when.bits |= bitsOf(off, 8)
	return true
}

// PostWhen is Post, except that the reads are carried out when one of the conditions
// holds, or at a time, before the deadline, with what there is then. It needs a
// condition, and a node that wakes.
func (b *Batch) PostWhen(until, _ time.Time) error {
	wakes := b.Wakes()
	if err := b.c.Err(); err != nil {
		return err
	}
	if b.state != planning || len(b.reads) == 0 || len(b.when.words) == 0 || !wakes {
		return fmt.Errorf("post of %d reads under %d conditions, node wakes: %v: %w", len(b.reads), len(b.when.words), wakes, ErrState)
	}
	if b.when.ready == nil {
		b.when.ready, b.when.timer = make(chan struct{}, 1), time.NewTimer(time.Hour)
	}
	b.state, b.when.until = waiting, until
	b.c.waiter.add(b)
	return nil
}

// await waits until a condition holds, until the batch's own time, or until a time.
func (b *Batch) await(until time.Time) (settled bool, err error) {
	w := &b.when
	ends := w.until
	if until.Before(ends) {
		ends = until
	}
	for {
		left := time.Until(ends)
		if left <= 0 {
			break
		}
		if !b.c.waiter.covers(b) {
			left = min(left, kickEvery)
		}
		w.timer.Reset(left)
		select {
		case <-w.ready:
			return true, b.copy()
		case <-b.c.lost:
			b.c.waiter.remove(b)
			b.state = over
			return true, b.c.err
		case <-w.timer.C:
		}
	}
	select {
	case <-w.ready:
	default:
		if until.Before(w.until) {
			return false, nil
		}
		b.c.waiter.remove(b)
	}
	return true, b.copy()
}
