//go:build !linux

package demo

import (
	"errors"
	"time"
)

// monotonic is the wall clock here: the one clock that all processes share.
func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }

func cpuTime(int) (time.Duration, error) {
	return 0, errors.New("the processor time of another process is known on Linux only")
}
