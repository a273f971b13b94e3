package local

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapArena maps a received file, if it is one that can neither shrink under the
// mapping nor be smaller than stated.
func mapArena(f *os.File, size uint64) ([]byte, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var mem []byte
	var mapErr error
	err = raw.Control(func(fd uintptr) {
		seals, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
		if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
			mapErr = fmt.Errorf("%w: the file is not sealed against shrinking (seals %#x, %v)", ErrForeign, seals, err)
			return
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil {
			mapErr = err
			return
		}
		if uint64(st.Size) != size || size == 0 || size > maxArena {
			mapErr = fmt.Errorf("%w: file of %d bytes, %d stated", ErrForeign, st.Size, size)
			return
		}
		mem, mapErr = unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	})
	if err != nil {
		return nil, err
	}
	return mem, mapErr
}

// maxArena keeps the size within an int on all hosts that could hold it.
const maxArena = 1 << 46

func unmap(mem []byte) error { return unix.Munmap(mem) }
