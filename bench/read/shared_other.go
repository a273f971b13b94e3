//go:build !linux

package read

// sharedMapping is ordinary memory here, where no arena can be mapped either.
func sharedMapping(size int) (mem []byte, unmap func() error, err error) {
	mem = make([]byte, size)
	pattern(mem)
	return mem, func() error { return nil }, nil
}
