package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// Lock takes flock(2) on path, creating it, and writes into it who we are. The
// lock goes with the process, however it ends; the file stays.
func (osFS) Lock(path string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); {
		case err == unix.EWOULDBLOCK:
			b := make([]byte, 256)
			n, _ := f.ReadAt(b, 0)
			f.Close()
			return nil, heldError{holderIn(b[:n])}
		case err != nil:
			f.Close()
			return nil, err
		}
		// Somebody may have removed the file between open and flock: then the next
		// one would lock another file.
		ours, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(ours, there) {
			writeHolder(f)
			return heldLock{f}, nil
		}
		f.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

// heldLock is a lock that is held.
type heldLock struct{ f *os.File }

// Close gives the lock up. Closing alone would not while a child that is being
// started still has the descriptor: the lock is the open file's, not the
// descriptor's, and close-on-exec comes with the exec.
func (l heldLock) Close() error {
	return errors.Join(flock(l.f, unix.LOCK_UN), l.f.Close())
}

func flock(f *os.File, how int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) {
		for {
			if ferr = unix.Flock(int(fd), how); ferr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return ferr
}

// writeHolder is best effort: on a full disk the lock holds all the same.
func writeHolder(f *os.File) {
	host, _ := os.Hostname()
	s := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(s), 0)
	}
}

func holderIn(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSpace(strings.ToValidUTF8(line, "?")); line == "" {
		return "a process that has not written its name yet"
	}
	return line
}
