//go:build !unix

package fanout

import "os"

// mapFile reads the file.
func mapFile(f *os.File, n int) (mem []byte, unmap func() error, err error) {
	mem = make([]byte, n)
	_, err = f.ReadAt(mem, 0)
	return mem, func() error { return nil }, err
}
