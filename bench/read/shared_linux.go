package read

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sharedMapping is memory like a node's arena: a memfd, mapped shared and for
// reading, filled with bytes that are not all the same.
func sharedMapping(size int) (mem []byte, unmap func() error, err error) {
	fd, err := unix.MemfdCreate("rmatail-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("memory of %d bytes: %w", size, err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, nil, fmt.Errorf("memory of %d bytes: %w", size, err)
	}
	w, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	pattern(w)
	mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err := errors.Join(err, unix.Munmap(w)); err != nil {
		return nil, nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}
