//go:build !linux

package fanout

import "time"

// clock is the wall clock, which all processes of a host share.
type clock struct {
	origin time.Time
	at     int64 // of origin, ns
}

func newClock() clock {
	now := time.Now()
	return clock{now, now.UnixNano()}
}

// now is ns since the clock's origin.
func (c clock) now() int64 { return c.at + int64(time.Since(c.origin)) }

// until waits for a moment.
func (c clock) until(at int64) { time.Sleep(time.Duration(at - c.now())) }
