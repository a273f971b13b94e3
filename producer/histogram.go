package producer

import (
	"math/bits"
	"strconv"
	"time"
)

// histogram counts durations in buckets that are at most an eighth wider than
// they begin: a quantile is off by 6 % at most. It covers 1 us to over a day.
type histogram struct {
	counts [histogramSize]uint64
	total  uint64
	max    time.Duration
}

const (
	histogramSub  = 8 // buckets of one power of two
	histogramSize = 38 * histogramSub
)

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

// bucketOf returns the bucket of a duration: those below 8 us are exact.
func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < histogramSub {
		return int(us)
	}
	e := bits.Len64(us) - 4 // us>>e is 8 to 15
	return min(e*histogramSub+int(us>>e), histogramSize-1)
}

// middle returns the middle of a bucket.
func middle(i int) time.Duration {
	if i < 2*histogramSub {
		return time.Duration(i)*time.Microsecond + time.Microsecond/2
	}
	e := i/histogramSub - 1
	return time.Duration(2*(histogramSub+i%histogramSub)+1) << e * time.Microsecond / 2
}

// quantile returns the duration that the share q of all is at most; 0 for none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	for i, n := range h.counts {
		if rank < n {
			return min(middle(i), h.max)
		}
		rank -= n
	}
	return h.max
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// text is the buckets that have counted something, as pairs of the bucket's middle in
// microseconds and its count: "0.5:3 120:7".
func (h *histogram) text() string {
	var b []byte
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendFloat(b, float64(middle(i))/float64(time.Microsecond), 'g', -1, 64)
		b = append(b, ':')
		b = strconv.AppendUint(b, n, 10)
	}
	return string(b)
}
