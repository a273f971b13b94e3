package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads a clock that all processes of this host share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // only for a clock that does not exist
	}
	return time.Duration(t.Nano())
}

// cpuTime returns the processor time that a process has used so far, of all its
// threads, those that have ended too.
func cpuTime(pid int) (time.Duration, error) {
	// A process's CPU clock has the id (~pid << 3) | CPUCLOCK_SCHED, see
	// clock_getcpuclockid(3) and the kernel's include/linux/posix-timers.h.
	const cpuclockSched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
