// Package spread counts how long things take, for hot paths: an atomic addition or
// two for each, no lock, no allocation, in a fixed number of buckets. Who collects
// turns a Snapshot into a metric of its own kind.
package spread

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many upper bounds there are: 1 us, 2 us, 4 us and so on to 8.4 s.
const Buckets = 24

// Histogram counts durations. The zero value is empty. Any goroutine may call its
// methods; it must not be copied.
type Histogram struct {
	counts [Buckets + 1]atomic.Uint64 // the last one: longer than the last bound
	sum    atomic.Int64               // nanoseconds
}

// Bound returns the upper bound of a bucket, which belongs to it.
func Bound(bucket int) time.Duration { return time.Microsecond << bucket }

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// bucketOf returns the first bucket whose bound is not less than d.
func bucketOf(d time.Duration) int {
	us := uint64((d + time.Microsecond - 1) / time.Microsecond)
	if us <= 1 {
		return 0
	}
	return min(bits.Len64(us-1), Buckets)
}

// Snapshot is what a Histogram has counted at one moment.
type Snapshot struct {
	Count uint64
	Sum   time.Duration
	// Below counts the durations up to each bound, all smaller ones included.
	Below [Buckets]uint64
}

// Snapshot returns what was counted so far. Durations that are added meanwhile may
// be in one of its numbers and not in another.
func (h *Histogram) Snapshot() (s Snapshot) {
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < Buckets {
			s.Below[i] = s.Count
		}
	}
	s.Sum = time.Duration(h.sum.Load())
	return s
}

// Seconds are the buckets as Prometheus wants them: counts by upper bound in seconds.
func (s *Snapshot) Seconds() map[float64]uint64 {
	m := make(map[float64]uint64, Buckets)
	for i, n := range s.Below {
		m[Bound(i).Seconds()] = n
	}
	return m
}

// Mean is the mean of what was counted since an older snapshot; 0 for none.
func (s *Snapshot) Mean(since *Snapshot) time.Duration {
	if n := s.Count - since.Count; n > 0 {
		return (s.Sum - since.Sum) / time.Duration(n)
	}
	return 0
}
