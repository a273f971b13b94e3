package chunkstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/internal/ipclock"
)

// memory is a sealed memfd and the process's one writable mapping of it.
type memory struct {
	bytes []byte // the whole mapping, at least the size asked for
	file  *os.File
}

// seals keep the file's size (a consumer's mapping never faults) and refuse each
// later writable mapping and write, also through a descriptor that was opened for
// writing (memfd_create(2), fcntl(2) F_SEAL_FUTURE_WRITE, Linux 5.1). The mapping
// that exists before stays writable.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

func newMemory(size uint64, huge HugePages, lock MLock) (m *memory, err error) {
	file, err := createMemfd(huge)
	if err != nil {
		return nil, err
	}
	m = &memory{file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
			m = nil
		}
	}()
	fd := int(file.Fd())
	if huge == HugePagesOn {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return m, fmt.Errorf("%w: page size of the memfd: %w", ErrMemory, err)
		}
		page := uint64(st.Blksize) // of a hugetlbfs file: its page size
		size = (size + page - 1) / page * page
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return m, fmt.Errorf("%w: memfd of %d bytes: %w", ErrMemory, size, err)
	}
	m.bytes, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		if huge == HugePagesOn {
			return m, hugePagesError(size, err)
		}
		return m, fmt.Errorf("%w: mapping of %d bytes: %w", ErrMemory, size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return m, fmt.Errorf("%w: seals of the memfd (Linux 5.1 or newer has them): %w", ErrMemory, err)
	}
	if err := populate(m.bytes); err != nil {
		if huge == HugePagesOn {
			return m, hugePagesError(size, err)
		}
		return m, fmt.Errorf("%w: pages for %d bytes: %w", ErrMemory, size, err)
	}
	if lock == MLockOn {
		if err := ipclock.Do(func() error { return unix.Mlock(m.bytes) }); err != nil {
			return m, memlockError(size, err)
		}
	}
	return m, nil
}

func createMemfd(huge HugePages) (*os.File, error) {
	const name = "rmatail-arena" // what /proc/PID/maps and fd show
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if huge == HugePagesOn {
		flags |= unix.MFD_HUGETLB
	}
	// Since Linux 6.3 a host may refuse memfds that could become executable
	// (sysctl vm.memfd_noexec); older kernels do not know the flag.
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), name), nil
	case huge == HugePagesOn:
		return nil, hugePagesError(0, err)
	default:
		return nil, fmt.Errorf("%w: memfd: %w", ErrMemory, err)
	}
}

// populate makes the kernel give each page now: a lack of memory is an error here
// and not a SIGBUS in a later put, and no put waits for a page fault.
func populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	for i := 0; i < len(b); i += 4096 { // before Linux 5.14
		b[i] = 0
	}
	return nil
}

func hugePagesError(size uint64, err error) error {
	if size == 0 {
		return fmt.Errorf("%w: %w; this kernel has none: turn huge pages off", ErrHugePages, err)
	}
	return fmt.Errorf("%w: %w; %d bytes are needed: reserve them before the start (sysctl -w vm.nr_hugepages=%d for pages of 2 MiB; "+
		"/proc/meminfo shows Hugepagesize and HugePages_Free), or turn huge pages off", ErrHugePages, err, size, (size+2<<20-1)/(2<<20))
}

func memlockError(size uint64, err error) error {
	var limit unix.Rlimit
	text := "unknown"
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		if text = fmt.Sprint(limit.Cur, " bytes"); limit.Cur == unix.RLIM_INFINITY {
			text = "unlimited"
		}
	}
	return fmt.Errorf("%w: %w; %d bytes are needed, RLIMIT_MEMLOCK is %s: raise it (ulimit -l, LimitMEMLOCK= in a systemd unit, "+
		"--ulimit memlock= of a container), grant CAP_IPC_LOCK, make the arena smaller, or turn locking off", ErrMemlock, err, size, text)
}

// handle returns the file; the memory keeps owning it.
func (m *memory) handle() (*os.File, error) { return m.file, nil }

func (m *memory) close() error {
	var err error
	if m.bytes != nil {
		err = unix.Munmap(m.bytes)
		m.bytes = nil
	}
	return errors.Join(err, m.file.Close())
}
