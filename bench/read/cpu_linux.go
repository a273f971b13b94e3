package read

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// wakesOf counts how often a process's threads went to sleep by themselves, and so
// have been woken; -1 when that is not known.
func wakesOf(pid int) (sum int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is good
	if len(files) == 0 {
		return -1
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has just ended
		}
		_, b, ok := bytes.Cut(b, []byte("\nvoluntary_ctxt_switches:"))
		if !ok {
			return -1
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			return -1
		}
		sum += n
	}
	return sum
}
