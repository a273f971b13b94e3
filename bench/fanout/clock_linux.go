package fanout

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock is CLOCK_MONOTONIC, which all processes of a host share: clock_gettime(2).
// Go keeps its own reading of it to itself, hence the origin.
type clock struct {
	origin time.Time
	at     int64 // of origin, ns
}

func newClock() clock {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for unknown clocks
	return clock{time.Now(), t.Nano()}
}

// now is ns since the host's own origin.
func (c clock) now() int64 { return c.at + int64(time.Since(c.origin)) }

// until waits for a moment, in the kernel: Go rounds its sleeps up to the next
// millisecond when nothing else runs (golang/go#53824).
func (c clock) until(at int64) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	t := unix.NsecToTimespec(at)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil) == unix.EINTR { // the scheduler's signals
	}
}
