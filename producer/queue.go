package producer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// queue holds the records that wait for the writing goroutines, as the batches
// that they will be written in. Any goroutine may add; those at the seats take.
type queue struct {
	name    string // of what is written, for errors and the log
	policy  Policy
	limits  Limits
	log     *slog.Logger
	metrics *metrics
	full    error // what a drop is answered with
	several bool  // seats

	spares sync.Pool   // of *blocked
	late   *time.Timer // for what is held of landed

	mu struct {
		sync.Mutex
		waiting []*batch // oldest first; only the last one takes more records
		records int      // of waiting
		bytes   int      // of waiting
		flying  []*batch // on their way to the sink, one for each seat at most
		watch   watch
		blocked []*blocked
		err     error // why nothing more is taken
		closing bool
		hurry   bool // somebody waits for the queue to drain: no lingering

		// held are through, but their Acks have not resolved: see queue.hold.
		held  []*batch
		timed bool // late will fire

		last   int       // records of the last batch
		landed time.Time // when it was through
		failed error     // the first failure since the last Flush
		spare  [][]byte  // buffers for batches to come
		gauge  gauge
	}
}

func newQueue(cfg Config, m *metrics) *queue {
	q := &queue{
		name: cfg.name(), policy: cfg.Policy, limits: cfg.Limits, log: cfg.Logger, metrics: m,
		full: fmt.Errorf("%w: queue of %s is full (%d records or %d bytes, policy %v); the sink is slower than what comes",
			ErrDropped, cfg.name(), cfg.Limits.QueueRecords, cfg.Limits.QueueBytes, cfg.Policy),
		several: len(cfg.More) > 0,
	}
	q.late = time.AfterFunc(time.Hour, q.lately)
	q.late.Stop()
	q.spares.New = func() any { return &blocked{ready: make(chan struct{}, 1)} }
	q.mu.gauge.opened = time.Now()
	return q
}

// put queues a record, or does with it what the policy says. With noWait it
// refuses with ErrQueueFull instead of blocking, and the record has not come yet.
func (q *queue) put(ctx context.Context, off uint64, p []byte, wait patience) (Ack, error) {
	now := time.Now()
	q.mu.Lock()
	room := len(q.mu.blocked) == 0 && q.fits(len(p))
	switch {
	case q.mu.err != nil:
		defer q.mu.Unlock()
		return Ack{}, q.mu.err
	case !room && q.policy == Block && wait == noWait:
		defer q.mu.Unlock()
		return Ack{}, fmt.Errorf("%w: %d records, %d bytes wait for %s", ErrQueueFull, q.mu.records, q.mu.bytes, q.name)
	}
	q.mu.gauge.arrive(now)
	switch {
	case room:
		k := q.add(off, p, now)
		q.mu.Unlock()
		return k, nil
	case q.policy == DropNewest:
		return Ack{}, q.dropNewest(now)
	case q.policy == DropOldest:
		return q.dropOldest(off, p, now), nil
	}
	w := q.spares.Get().(*blocked)
	w.off, w.p = off, p
	q.mu.blocked = append(q.mu.blocked, w)
	q.mu.gauge.blocked++
	q.mu.Unlock()
	q.metrics.blocked.Inc()
	return q.await(ctx, w)
}

// patience says whether a call may wait for room.
type patience int

const (
	mayWait patience = iota
	noWait
)

// fits reports whether there is room for n more bytes. A record that is larger
// than the whole queue waits alone. The caller holds mu, as in all below.
func (q *queue) fits(n int) bool {
	return q.mu.records == 0 || q.mu.records < q.limits.QueueRecords && q.mu.bytes+n <= q.limits.QueueBytes
}

func (q *queue) add(off uint64, p []byte, now time.Time) Ack {
	var b *batch
	if n := len(q.mu.waiting); n > 0 && q.mu.waiting[n-1].takes(off, len(p), q.limits) {
		b = q.mu.waiting[n-1]
	} else {
		b = &batch{name: q.name, at: off, buf: q.buffer(), born: now, done: make(chan struct{})}
		q.mu.waiting = append(q.mu.waiting, b)
		if n == 0 {
			q.mu.gauge.fills(now)
		}
	}
	k := Ack{b, uint32(len(b.buf)), uint32(len(p))}
	b.buf = append(b.buf, p...)
	b.n++
	q.mu.records++
	q.mu.bytes += len(p)
	q.mu.gauge.depth(q.mu.records, q.mu.bytes)
	q.stir()
	return k
}

// unqueue takes the oldest batch out of the queue.
func (q *queue) unqueue() *batch {
	b := q.mu.waiting[0]
	q.mu.waiting = slices.Delete(q.mu.waiting, 0, 1)
	q.mu.records -= b.n
	q.mu.bytes -= len(b.buf)
	return b
}

// next takes the batch that goes to the sink now; nil: none yet. Then the caller
// has to sleep until it is woken, or until wait is over, if that is not zero.
// ended means that none will come any more.
func (q *queue) next(s *seat, now time.Time) (b *batch, wait time.Duration, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.watch.come(s)
	if len(q.mu.waiting) == 0 {
		q.mu.hurry = false
		q.rest(s)
		if !q.mu.closing {
			q.sleep(s, 0)
		}
		return nil, 0, q.mu.closing
	}
	if wait := q.linger(now); wait > 0 {
		q.rest(s)
		return nil, q.sleep(s, wait), false
	}
	b = q.unqueue()
	s.flying = b
	q.mu.flying = append(q.mu.flying, b)
	if q.several && q.mu.watch.steady == nil {
		q.mu.watch.steady = s
	}
	if q.low(s) {
		q.grant(now)
	}
	if len(q.mu.waiting) == 0 {
		q.mu.gauge.drains(now)
	}
	return b, 0, false
}

// linger returns how long the batch that is being filled is held back: only one
// that began after the last one was through, never one that has waited for that.
// Producers that wait for their Acks come back right after a batch: without a
// pause, the first of them would be flushed alone, and the others wait for the
// next flush.
func (q *queue) linger(now time.Time) time.Duration {
	b := q.mu.waiting[0]
	switch {
	case b.born.Before(q.mu.landed), b.n >= q.mu.last, q.whole(), len(q.mu.blocked) > 0, q.mu.hurry, q.mu.closing:
		return 0
	}
	return q.mu.landed.Add(q.limits.Linger).Sub(now)
}

// landed takes note of what became of the batch that a seat had on its way, and
// says whether the seat is to let others run before it takes the next one.
func (q *queue) landed(s *seat, base uint64, err error, took time.Duration, now time.Time) (yield bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := s.flying
	s.flying = nil
	q.mu.flying = slices.DeleteFunc(q.mu.flying, func(o *batch) bool { return o == b })
	q.mu.last, q.mu.landed = b.n, now
	if err != nil && q.mu.failed == nil {
		q.mu.failed = err
	}
	q.mu.gauge.land(b, err, took, now)
	b.outcome(s.shard, base, err)
	q.recycle(b)
	q.mu.held = append(q.mu.held, b)
	if err == nil && q.hold(s) {
		return false
	}
	q.acknowledge()
	if err != nil && q.mu.watch.steady == s {
		q.mu.watch.steady = nil
	}
	return q.mu.watch.steady != s || len(q.mu.waiting) <= 1
}

// acknowledge resolves the Acks of what is through. The caller holds mu.
func (q *queue) acknowledge() {
	for i, b := range q.mu.held {
		close(b.done)
		q.mu.held[i] = nil
	}
	q.mu.held = q.mu.held[:0]
}

// end refuses everything from now on with err. What waits is refused too, unless
// it may drain: then the writing goroutine ends once it has.
func (q *queue) end(err error, rest remainder) (refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.err == nil || rest == drain {
		q.mu.err = err
	}
	for _, w := range q.mu.blocked {
		w.err = err
		w.ready <- struct{}{}
	}
	clear(q.mu.blocked)
	q.mu.blocked = q.mu.blocked[:0]
	if rest == drain {
		q.mu.closing = true
	} else {
		for len(q.mu.waiting) > 0 {
			b := q.unqueue()
			refused += b.n
			b.resolve(layout.Shard{}, 0, err)
			q.recycle(b)
		}
	}
	q.mu.watch.all()
	return refused
}

// remainder says what end does with what waits.
type remainder int

const (
	drain remainder = iota
	refuse
)

// hurry returns the batches that are not settled, and makes none of them linger.
func (q *queue) hurry() []*batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.waiting) > 0 {
		q.mu.hurry = true
		q.stir()
	}
	q.acknowledge()
	return slices.Concat(q.mu.flying, q.mu.waiting)
}

// failure returns the first failure since it was asked last.
func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.mu.failed
	q.mu.failed = nil
	return err
}

// buffer returns memory for a batch.
func (q *queue) buffer() []byte {
	n := len(q.mu.spare)
	if n == 0 {
		return nil
	}
	b := q.mu.spare[n-1]
	q.mu.spare = q.mu.spare[:n-1]
	return b
}

// recycle keeps the memory of a batch for others, within the queue's bounds.
func (q *queue) recycle(b *batch) {
	if cap(b.buf) <= 2*q.limits.BatchBytes && len(q.mu.spare) < 2+q.limits.QueueBytes/q.limits.BatchBytes {
		q.mu.spare = append(q.mu.spare, b.buf[:0])
	}
	b.buf = nil
}

// tidy gives up memory that nobody has needed since the last call, and reports
// drops that were not yet.
func (q *queue) tidy(now time.Time) {
	q.mu.Lock()
	if q.mu.landed.Before(now.Add(-time.Second)) && len(q.mu.waiting) == 0 {
		q.mu.spare = nil
	}
	report := q.mu.gauge.report(0, now)
	q.mu.Unlock()
	q.dropped(q.policy, 0, report)
}

func (q *queue) stats(now time.Time) Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.gauge.snapshot(q.mu.records, q.mu.bytes, now)
}
