package server

import (
	"sync/atomic"
	"time"
)

// wrongs paces a client that asks for what is refused: requests that do not parse, or that
// the rules do not let it do. One that is in order asks for hardly any.
type wrongs struct {
	until atomic.Int64 // in nanoseconds of the wall clock: what was refused is paid for by then; 0: nothing was
}

const (
	// wrongCost is how long one keeps its client from asking, once wrongBurst is used up:
	// 1,000 a second, and as many at once.
	wrongCost  = time.Millisecond
	wrongBurst = time.Second
)

// add counts one.
func (w *wrongs) add(now time.Time) {
	for {
		old := w.until.Load()
		next := min(max(old, now.UnixNano()), now.Add(2*wrongBurst).UnixNano()) + int64(wrongCost) // a clock may be set back
		if w.until.CompareAndSwap(old, next) {
			return
		}
	}
}

// due is how long the next request has to wait.
func (w *wrongs) due() time.Duration {
	until := w.until.Load()
	if until == 0 {
		return 0
	}
	return min(time.Duration(until-time.Now().UnixNano())-wrongBurst, wrongBurst)
}
