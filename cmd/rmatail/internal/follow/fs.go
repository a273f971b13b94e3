package follow

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ID is what a file is, as long as it exists.
type ID struct{ Dev, Ino uint64 }

// Info is a file as it is now.
type Info struct {
	ID
	Size int64
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Closer
	Info() (Info, error)
}

// FS is where files are.
type FS interface {
	Open(path string) (File, error)
	Stat(path string) (Info, error)
	// Beside returns the paths of files that could be path, renamed or copied.
	Beside(path string) ([]string, error)
}

// OS is the file system of this host.
type OS struct{}

type osFile struct{ *os.File }

func (f osFile) Info() (Info, error) {
	i, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return info(i), nil
}

// Open opens a regular file.
func (OS) Open(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = &os.PathError{Op: "follow", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

// Stat follows symbolic links.
func (OS) Stat(path string) (Info, error) {
	i, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return info(i), nil
}

// Beside returns the regular files of the same directory, the youngest first,
// whose names have that of path without its extension as their beginning.
func (OS) Beside(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	if stem == "" {
		stem = base
	}
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	var found []os.FileInfo
	for _, e := range entries {
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() && e.Name() != base && strings.HasPrefix(e.Name(), stem) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var paths []string
	for _, i := range found {
		paths = append(paths, filepath.Join(dir, i.Name()))
	}
	return paths, err
}

// Identify describes an open regular file.
func Identify(f *os.File) (Info, error) {
	i, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	if !i.Mode().IsRegular() {
		return Info{}, &os.PathError{Op: "identify", Path: f.Name(), Err: ErrNotRegular}
	}
	return info(i), nil
}
