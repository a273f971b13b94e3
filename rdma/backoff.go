package rdma

import (
	"math/rand/v2"
	"time"
)

// Backoff spaces attempts to connect: the bound doubles from Min to Max, and
// each delay is drawn from all of [0, bound) ("full jitter"), so that thousands
// of consumers that lost the same node do not come back together. The zero value
// takes the defaults. Not safe for concurrent use.
type Backoff struct {
	Min time.Duration // bound of the first delay; default 50 ms
	Max time.Duration // default 5 s

	bound time.Duration
}

// Next returns how long to wait before the next attempt. r may be nil for the
// process's own random source.
func (b *Backoff) Next(r *rand.Rand) time.Duration {
	low, high := b.Min, b.Max
	if low <= 0 {
		low = 50 * time.Millisecond
	}
	if high <= 0 {
		high = 5 * time.Second
	}
	switch {
	case b.bound <= 0:
		b.bound = low
	case b.bound > high/2:
		b.bound = high
	default:
		b.bound *= 2
	}
	b.bound = min(b.bound, high)
	if r == nil {
		return rand.N(b.bound)
	}
	return time.Duration(r.Int64N(int64(b.bound)))
}

// Reset starts from Min again: call it when a connection has worked.
func (b *Backoff) Reset() { b.bound = 0 }
