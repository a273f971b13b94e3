//go:build unix

package fanout

import (
	"os"
	"syscall"
)

func mapFile(f *os.File, n int) (mem []byte, unmap func() error, err error) {
	mem, err = syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_SHARED)
	return mem, func() error { return syscall.Munmap(mem) }, err
}
