//go:build unix

package rdma

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapMemory returns zeroed memory outside the Go heap. The mapping is shared: a
// private one would be copied on write after a fork, and the device would go on
// writing into the copy that the other process got.
func mapMemory(size int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d KiB of receive buffers: %w", size>>10, err)
	}
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

// memlockLimit returns RLIMIT_MEMLOCK in bytes, ^0 for none.
func memlockLimit() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		return ^uint64(0)
	}
	return r.Cur // RLIM_INFINITY is ^0
}

// pollable returns a duplicate of an O_NONBLOCK descriptor that Go's netpoller
// watches. It must be a duplicate: the library closes its own descriptor itself.
// Close it first, so that the poller forgets it.
func pollable(fd int, name string) (*os.File, syscall.RawConn, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("descriptor of %s: %w", name, err)
	}
	f := os.NewFile(uintptr(dup), name)
	// Not f.Fd, which would take the descriptor from the poller.
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, raw, nil
}
