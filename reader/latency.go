package reader

import (
	"sync/atomic"
	"time"
)

// latency is how long reads over a path took lately: a moving average that rises
// fast and falls slowly, and that fades while nothing is known, so that a path
// which was slow is tried again. Any number of goroutines may use it; samples that
// meet may lose one of them.
type latency struct {
	usual atomic.Int64 // nanoseconds
	at    atomic.Int64 // of the last sample or choice, by the caller's clock
}

// latencyFade is after how long without a sample an average counts half.
const latencyFade = time.Second / 2

// took notes that a read has taken d. now is any clock that only rises.
func (l *latency) took(now, d time.Duration) {
	usual := time.Duration(l.usual.Load())
	step := (d - usual) / 8
	if d > usual {
		step = (d - usual) / 2
	}
	if step == 0 {
		step = d - usual // the last nanoseconds
	}
	l.usual.Store(int64(usual + step))
	l.at.Store(int64(now))
}

// estimate returns what the next read may take.
func (l *latency) estimate(now time.Duration) time.Duration {
	usual := l.usual.Load()
	if age := now - time.Duration(l.at.Load()); age > 0 {
		usual >>= min(age/latencyFade, 62)
	}
	return time.Duration(usual)
}

// chosen notes that a read begins. Of many that find the average faded, one tries
// whether the path is still slow, and not all.
func (l *latency) chosen(now time.Duration) { l.at.Store(int64(now)) }
