package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fsys is what the write side needs of a file system. Tests put one in between
// that fails, and one that crashes.
type fsys interface {
	Open(path string, flag int) (file, error)
	Mkdir(path string) error
	Names(path string) ([]string, error)
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(path string) error
	// Lock takes the lock file at path for as long as the result is open. An
	// error that is a heldError names the holder.
	Lock(path string) (io.Closer, error)
}

// file is an open file. Writes may fall short only with an error.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Size() (int64, error)
	// Datasync returns when the content and the size are on the disk.
	Datasync() error
	// Linked reports whether the file still has a name.
	Linked() bool
}

// heldError says who holds a lock file.
type heldError struct{ holder string }

func (e heldError) Error() string { return "held by " + e.holder }

// osFS is the host's file system.
type osFS struct{}

type osFile struct {
	*os.File
	fd int
}

func (osFS) Open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f, int(f.Fd())}, nil
}

func (osFS) Mkdir(path string) error      { return os.Mkdir(path, 0o755) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(path string) error     { return os.Remove(path) }

func (osFS) Names(path string) ([]string, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// SyncDir makes creations, renames and removals in a directory survive a power
// failure (fsync(2): fsync of a file does not cover its directory entry).
func (osFS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f osFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f osFile) Datasync() error { return datasync(f) }

func (f osFile) Linked() bool {
	var st unix.Stat_t
	return unix.Fstat(f.fd, &st) != nil || st.Nlink > 0
}

// mkdirs makes path and what is missing above it.
func mkdirs(fsys fsys, path string) error {
	err := fsys.Mkdir(path)
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := mkdirs(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return osError("make directory", path, err)
	}
	return nil
}

// makeShard makes the directory of a shard, and flushes every entry on the way
// to it: also those that were there, as a crash may have come between.
func makeShard(fsys fsys, root, path string) error {
	if err := mkdirs(fsys, path); err != nil {
		return err
	}
	stream := filepath.Dir(path)
	for _, d := range []string{stream, root, filepath.Dir(root)} {
		err := fsys.SyncDir(d)
		if d == filepath.Dir(root) && errors.Is(err, fs.ErrPermission) {
			continue // not ours; whoever made the store's directory had a chance
		}
		if err != nil {
			return osError("flush directory", d, err)
		}
	}
	return nil
}

// readAll reads a small file whole; a file above limit is not ours.
func readAll(fsys fsys, path string, limit int) ([]byte, error) {
	f, err := fsys.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, limit+1)
	n, err := f.ReadAt(b, 0)
	if n > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// replaceFile puts a file in place so that a crash leaves the old or the new.
func replaceFile(fsys fsys, dir, name, temp string, b []byte) error {
	t := filepath.Join(dir, temp)
	// A crash may have left one, on some file systems as a second name of the old
	// file: it must not be written over.
	if err := fsys.Remove(t); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return osError("remove", t, err)
	}
	f, err := fsys.Open(t, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return osError("create", t, err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return osError("write", t, err)
	}
	if err := fsys.Rename(t, filepath.Join(dir, name)); err != nil {
		return osError("rename", t, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return osError("flush directory", dir, err)
	}
	return nil
}
