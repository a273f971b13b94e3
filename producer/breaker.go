package producer

import "time"

// Bounds of a node's rest: full jitter in [0, rest), rest doubling with each
// failure. A node that lived for long enough before begins anew.
const (
	restMin  = 50 * time.Millisecond
	restMax  = 5 * time.Second
	longLife = 2 * restMax
)

// breaker decides how long a node that failed is left alone. It has no clock and
// no lock.
type breaker struct {
	failures int       // without a long life in between
	alive    time.Time // since when it has been, last
	until    time.Time // when it may be tried again
}

// failed notes a failure. random is uniform in [0, 1).
func (b *breaker) failed(now time.Time, random float64) {
	if !b.alive.IsZero() && now.Sub(b.alive) >= longLife {
		b.failures = 0
	}
	rest := restMax
	if b.failures < 10 { // so that the shift stays small
		rest = min(restMin<<b.failures, restMax)
	}
	b.failures++
	b.alive, b.until = time.Time{}, now.Add(time.Duration(random*float64(rest)))
}

// recovered notes that the node lives.
func (b *breaker) recovered(now time.Time) { b.alive = now }
