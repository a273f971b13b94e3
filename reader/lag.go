package reader

import "time"

// lagQueue tells for how long bytes that exist have been missing: the delayed
// rule that keeps a short stall of the cache from becoming load on the durable
// store. It holds (receipt time, length) pairs, both rising; ages are by local
// receipt time, so no clock is compared with another.
//
// The zero value is an empty queue.
type lagQueue struct {
	seen []lagPoint
}

type lagPoint struct {
	at     time.Time
	length uint64
}

const (
	// Lengths seen within this time of the newest point join it, which makes them
	// due at most this much early and bounds the queue to delay/lagGrain points.
	lagGrain = 50 * time.Millisecond
	// lagPoints bounds the queue whatever the delay; the newest point absorbs more.
	lagPoints = 64
)

// observe notes that the shard is known to reach length.
func (q *lagQueue) observe(now time.Time, length uint64) {
	if n := len(q.seen); n > 0 {
		last := &q.seen[n-1]
		if length <= last.length {
			return
		}
		if now.Sub(last.at) < lagGrain || n == lagPoints {
			last.length = length
			return
		}
	}
	q.seen = append(q.seen, lagPoint{now, length})
}

// delivered drops what is no longer missing.
func (q *lagQueue) delivered(pos uint64) {
	n := 0
	for n < len(q.seen) && q.seen[n].length <= pos {
		n++
	}
	q.seen = append(q.seen[:0], q.seen[n:]...)
}

// dueAt returns when the oldest missing byte has been missing for delay; zero
// if nothing is missing.
func (q *lagQueue) dueAt(delay time.Duration) time.Time {
	if len(q.seen) == 0 {
		return time.Time{}
	}
	return q.seen[0].at.Add(delay)
}
