package durable

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync(2): content and size, not the times.
func datasync(f osFile) error {
	defer runtime.KeepAlive(f.File)
	for {
		if err := unix.Fdatasync(f.fd); err != unix.EINTR {
			return err
		}
	}
}
