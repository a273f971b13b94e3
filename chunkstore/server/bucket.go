package server

import "time"

// bucket lets things through at a rate, and a number of them at once after a rest. It
// is its owner's alone.
type bucket struct {
	have float64 // of what may pass now
	at   time.Time
}

// rate is how many pass a second, and how many at once.
type rate struct{ perSecond, burst int }

// fill counts in what has become free since the last call. A new bucket is full.
func (b *bucket) fill(r rate, now time.Time) {
	if b.at.IsZero() {
		b.have = float64(r.burst)
	} else if d := now.Sub(b.at); d > 0 {
		b.have = min(float64(r.burst), b.have+d.Seconds()*float64(r.perSecond))
	}
	b.at = now
}

// take lets one through, if it may pass now.
func (b *bucket) take(r rate, now time.Time) bool {
	b.fill(r, now)
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}

// wait is how long it is until n may pass.
func (b *bucket) wait(r rate, now time.Time, n int) time.Duration {
	b.fill(r, now)
	if lack := float64(n) - b.have; lack > 0 {
		return time.Duration(lack / float64(r.perSecond) * float64(time.Second))
	}
	return 0
}

// full says whether nothing is known of it that a new bucket would not say.
func (b *bucket) full(r rate, now time.Time) bool {
	b.fill(r, now)
	return b.have >= float64(r.burst)
}
