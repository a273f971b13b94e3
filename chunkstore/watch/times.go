package watch

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// times are how often something has taken about so many microseconds, as a node's
// statistics have it: "120:5 130:9".
type times map[float64]uint64

// timesMost is the longest time that counts, in microseconds: a day. What is more is
// no time, and neither is one that no JSON can hold.
const timesMost = 86_400e6

// UnmarshalText reads pairs. What is none is left out: a node of another version may
// say more.
func (t *times) UnmarshalText(text []byte) error {
	*t = times{}
	for _, pair := range bytes.Fields(text) {
		us, n, _ := bytes.Cut(pair, []byte(":"))
		at, err1 := strconv.ParseFloat(string(us), 64)
		count, err2 := strconv.ParseUint(string(n), 10, 64)
		if err1 == nil && err2 == nil && at >= 0 && at <= timesMost {
			(*t)[at] = count
		}
	}
	return nil
}

// since returns the quantiles of what was added to before; nil: nothing.
func (t times) since(before times) *Quantiles {
	fresh := times{}
	q := &Quantiles{}
	for at, n := range t {
		if n > before[at] {
			fresh[at] = n - before[at]
			q.Count += fresh[at]
		}
	}
	if q.Count == 0 {
		return nil
	}
	q.P50, q.P99 = fresh.quantile(q.Count, 0.5), fresh.quantile(q.Count, 0.99)
	return q
}

// quantile returns the time in seconds that the share q of total is at most.
func (t times) quantile(total uint64, q float64) float64 {
	rank := uint64(q * float64(total))
	var at float64
	for _, at = range slices.Sorted(maps.Keys(t)) {
		if rank < t[at] {
			break
		}
		rank -= t[at]
	}
	return at / 1e6
}
