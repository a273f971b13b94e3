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
		switch err := flock(f); {
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
			return f, nil
		}
		f.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

func flock(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) {
		for {
			if ferr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB); ferr != unix.EINTR {
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
