package ipclock

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f once, on the calling goroutine, with CAP_IPC_LOCK effective if it is permitted (capabilities(7)). Capabilities belong to a
// thread: the goroutine stays on its thread meanwhile, and what f starts elsewhere goes without. The error is f's; if the capability
// cannot be given up afterwards, the thread ends with its goroutine and the error says so too. May be called at once.
func Do(f func() error) error {
	runtime.LockOSThread()
	was, ok := raise()
	if !ok {
		runtime.UnlockOSThread()
		return f()
	}
	err := f()
	if dropped := set(was); dropped != nil {
		return errors.Join(err, fmt.Errorf("cap_ipc_lock of a thread: %w", dropped)) // locked still: the thread is not used again
	}
	runtime.UnlockOSThread()
	return err
}

// sets are a thread's capabilities 0 to 31 and 32 to 63.
type sets [2]unix.CapUserData

const bit = 1 << unix.CAP_IPC_LOCK

// raise makes the capability effective for this thread. It reports false if that is not needed or not allowed; nothing has changed then.
func raise() (was sets, ok bool) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &was[0]); err != nil {
		return was, false
	}
	if was[0].Permitted&bit == 0 || was[0].Effective&bit != 0 {
		return was, false
	}
	now := was
	now[0].Effective |= bit
	return was, set(now) == nil
}

func set(s sets) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &s[0])
}
