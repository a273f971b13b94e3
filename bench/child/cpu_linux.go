package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that all threads of the child have used, those that
// have ended too, and those of its own children that live. false: it has ended.
func (p *Process) CPU() (time.Duration, bool) { return cpuOf(p.PID()) }

func cpuOf(pid int) (time.Duration, bool) {
	// (~pid << 3) | CPUCLOCK_SCHED: clock_getcpuclockid(3), and the kernel's
	// include/linux/posix-timers.h.
	const sched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, false
	}
	sum := time.Duration(t.Nano())
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // proc_pid_task(5); where there is none, there are no children
	for _, word := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil {
			more, _ := cpuOf(pid)
			sum += more
		}
	}
	return sum, true
}
