package producer

import "time"

// limiter is a bucket of bytes that fills at a rate. It has no clock and no lock.
type limiter struct {
	perSecond float64
	burst     float64
	have      float64
	at        time.Time
}

func newLimiter(perSecond int64, burst int, now time.Time) *limiter {
	return &limiter{perSecond: float64(perSecond), burst: float64(burst), have: float64(burst), at: now}
}

// take takes n bytes, into debt if need be, and returns how long to wait before
// using them.
func (l *limiter) take(n int, now time.Time) time.Duration {
	l.have = min(l.burst, l.have+now.Sub(l.at).Seconds()*l.perSecond)
	l.at = now
	l.have -= float64(n)
	if l.have >= 0 {
		return 0
	}
	return time.Duration(-l.have / l.perSecond * float64(time.Second))
}
