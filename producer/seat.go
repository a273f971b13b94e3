package producer

import (
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// seat is the place of one writing goroutine at the queue. The queue's lock guards
// all but shard and wake.
type seat struct {
	shard  layout.Shard
	wake   chan struct{} // capacity 1: there is something to look at
	flying *batch        // on its way to the sink
	called bool          // it was woken, and has not come yet
}

func newSeat(shard layout.Shard) *seat { return &seat{shard: shard, wake: make(chan struct{}, 1)} }

// watch is which seats sleep, and for what. queue.stir brings them together with
// the batches that wait: as many are on the way to the queue as there are batches,
// and no more. The caller of its methods holds the queue's lock.
type watch struct {
	idle   []*seat // asleep because nothing waited; the last one is called first
	linger *seat   // waits for the batch that is being filled; nil: none
	need   int     // records for which it is called before its time is over
	called int     // seats that were called and have not come yet
	steady *seat   // goes from write to write without giving way, see steady.go; nil: none
}

// call wakes a seat, which is in no list any more.
func (w *watch) call(s *seat) {
	s.called = true
	w.called++
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// come takes a seat out of where it waited: it looks for itself now.
func (w *watch) come(s *seat) {
	if s.called {
		s.called = false
		w.called--
	}
	if w.linger == s {
		w.linger = nil
	}
	if i := slices.Index(w.idle, s); i >= 0 {
		w.idle = slices.Delete(w.idle, i, i+1)
	}
}

// all calls everybody.
func (w *watch) all() {
	if w.linger != nil {
		w.call(w.linger)
		w.linger = nil
	}
	for _, s := range w.idle {
		w.call(s)
	}
	w.idle = w.idle[:0]
}

// stir calls the seats that what waits needs. The caller holds mu, as in all below.
func (q *queue) stir() {
	w := &q.mu.watch
	if w.linger != nil && (q.mu.hurry || q.mu.records >= w.need || q.whole()) {
		w.call(w.linger)
		w.linger = nil
	}
	coming := w.called
	if w.linger != nil {
		coming++
	}
	for ; coming < len(q.mu.waiting) && len(w.idle) > 0; coming++ {
		last := len(w.idle) - 1
		w.call(w.idle[last])
		w.idle = w.idle[:last]
	}
}

// whole reports whether the oldest batch that waits takes no more.
func (q *queue) whole() bool {
	return len(q.mu.waiting) > 1 || len(q.mu.waiting) == 1 && len(q.mu.waiting[0].buf) >= q.limits.BatchBytes
}

// sleep notes that a seat found nothing to write, or nothing for so long. It returns
// how long to sleep at most; 0: until called.
func (q *queue) sleep(s *seat, wait time.Duration) time.Duration {
	w := &q.mu.watch
	if wait > 0 && w.linger == nil {
		w.linger, w.need = s, q.mu.last
		return wait
	}
	w.idle = append(w.idle, s)
	return 0
}
