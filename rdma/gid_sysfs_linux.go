package rdma

import (
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// kernelSysfs is /sys. Package os costs eleven times what a plain open, read and
// close do here: it asks each file whether it can be polled, and sysfs files can.
type kernelSysfs struct {
	fs.FS
	root string
}

func sysfsOfKernel() fs.FS { return sysfsAt("/sys") }

func sysfsAt(root string) kernelSysfs { return kernelSysfs{os.DirFS(root), root} }

// ReadFile reads one attribute, which is a page at most.
func (k kernelSysfs) ReadFile(name string) ([]byte, error) {
	b, err := readAt(unix.AT_FDCWD, path.Join(k.root, name), make([]byte, 4096))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return b, nil
}

func (k kernelSysfs) openDir(name string) (func(string) ([]byte, error), func(), error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Open(path.Join(k.root, name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	buf := make([]byte, 256)
	read := func(file string) ([]byte, error) {
		b, err := readAt(fd, file, buf)
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path.Join(name, file), Err: err}
		}
		return b, nil
	}
	return read, func() { _ = unix.Close(fd) }, nil
}

// readAt reads a file's first bytes, relative to a directory. A sysfs attribute
// comes with the first read, whole.
func readAt(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) { return unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	n, err := retryEINTR(func() (int, error) { return unix.Read(fd, buf) })
	_ = unix.Close(fd)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
