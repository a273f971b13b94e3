package bench

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the smallest value that a fraction q (0 to 1) of sorted does
// not exceed; 0 if there is none. It is exact: every value was kept.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Mean returns the mean, 0 of nothing.
func Mean(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	var sum time.Duration
	for _, v := range values {
		sum += v
	}
	return sum / time.Duration(len(values))
}

// Sorted returns a sorted copy.
func Sorted(values []time.Duration) []time.Duration {
	s := slices.Clone(values)
	slices.Sort(s)
	return s
}

// Micros is a duration in microseconds, for reports.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
