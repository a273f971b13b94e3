package read

import (
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the processor time of this process, of all its threads.
func ownCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// cpuOf returns the clock of another process: the processor time that all its
// threads have used, those that have ended too.
func cpuOf(pid int) cpuClock {
	return func() (time.Duration, bool) {
		// (~pid << 3) | CPUCLOCK_SCHED: clock_getcpuclockid(3), and the kernel's
		// include/linux/posix-timers.h.
		const sched = 2
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
			return 0, false
		}
		return time.Duration(t.Nano()), true
	}
}
