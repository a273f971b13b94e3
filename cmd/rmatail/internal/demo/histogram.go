package demo

import (
	"encoding/json"
	"math/bits"
	"time"
)

// Histogram counts durations in buckets whose width is at most 1/32 of their
// value: a quantile is never more than 3.2 % too high, and never too low.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration
}

const (
	subBits = 5 // 32 buckets an octave
	buckets = (64 - subBits) << subBits
)

func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upper is the largest duration of a bucket.
func upper(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket&(1<<subBits-1)+1<<subBits) << shift
	return time.Duration(low + 1<<shift - 1)
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds another histogram's counts.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// Quantile returns the duration that a fraction q of those counted do not
// exceed; 0 if none was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q*float64(h.total) + 0.5)
	if h.total == 0 {
		return 0
	}
	rank = min(max(rank, 1), h.total)
	for i, n := range h.counts {
		if rank <= n {
			return min(upper(i), h.max)
		}
		rank -= n
	}
	return h.max
}

// histogramJSON lists the buckets that are not empty, as pairs.
type histogramJSON struct {
	Buckets [][2]uint64 `json:"buckets"`
	Max     int64       `json:"max_ns"`
}

// MarshalJSON writes the buckets that are not empty.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Max: int64(h.max), Buckets: [][2]uint64{}}
	for i, n := range h.counts {
		if n > 0 {
			j.Buckets = append(j.Buckets, [2]uint64{uint64(i), n})
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes; buckets that do not exist are
// ignored.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*h = Histogram{max: time.Duration(j.Max)}
	for _, p := range j.Buckets {
		if p[0] < buckets {
			h.counts[p[0]] += p[1]
			h.total += p[1]
		}
	}
	return nil
}
