//go:build !linux

package chunkstore

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory is anonymous: it can be served over TCP, not handed to other processes.
type memory struct {
	bytes []byte
}

func newMemory(size uint64, huge HugePages, lock MLock) (*memory, error) {
	if huge == HugePagesOn {
		return nil, fmt.Errorf("%w: huge pages: %w; turn them off", ErrHugePages, ErrUnsupported)
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping of %d bytes: %w", ErrMemory, size, err)
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 0
	}
	if lock == MLockOn {
		if err := unix.Mlock(b); err != nil {
			unix.Munmap(b)
			return nil, fmt.Errorf("%w: %w; %d bytes are needed: raise RLIMIT_MEMLOCK (ulimit -l), or turn locking off", ErrMemlock, err, size)
		}
	}
	return &memory{bytes: b}, nil
}

func (m *memory) handle() (*os.File, error) {
	return nil, fmt.Errorf("arena as a file: %w", ErrUnsupported)
}

func (m *memory) close() error {
	err := unix.Munmap(m.bytes)
	m.bytes = nil
	return err
}
