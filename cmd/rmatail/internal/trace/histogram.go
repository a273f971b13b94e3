package trace

import (
	"math/bits"
	"time"
)

// A bucket is 1/16 of a power of two wide: percentiles are off by 3 % at most.
const (
	subBuckets = 16
	buckets    = 37 * subBuckets // up to 2^40 ns, 18 minutes
)

// histogram counts durations. The zero value is empty.
type histogram struct {
	count    uint64
	min, max time.Duration
	in       [buckets]uint32
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	if h.count == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.count++
	h.in[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	v := uint64(d)
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 5 // leaves 16..31
	return min((shift+1)*subBuckets+int(v>>shift)-subBuckets, buckets-1)
}

// middle is the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(bucket%subBuckets+subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

// quantile is the duration that a share q of all did not exceed; 0 when empty.
func (h *histogram) quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.count)+0.999999), 1)
	var sum uint64
	for i, n := range h.in {
		if sum += uint64(n); sum >= rank {
			return min(max(middle(i), h.min), h.max)
		}
	}
	return h.max
}

func (h *histogram) merge(o *histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	for i, n := range o.in {
		h.in[i] += n
	}
}
