package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is what fits a socket address with its final zero: unix(7).
const maxPath = 107

func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: it is empty", ErrPath)
	case len(path) > maxPath:
		return fmt.Errorf("%w: %d bytes, a socket address has room for %d: choose a shorter directory (%.40s...)", ErrPath, len(path), maxPath, path)
	case path[0] == '@' || strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %q is not the path of a file", ErrPath, path)
	}
	return nil
}

// listenAt binds and listens at a path. The mode is set before anybody can
// connect. A socket file that a dead server has left is replaced; starts in one
// directory exclude each other, so that none removes the socket of another one
// that is about to listen.
func listenAt(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()

	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("memory socket: %w", err)
	}
	sock := os.NewFile(uintptr(fd), path)
	defer sock.Close() // the listener has a duplicate
	address := &unix.SockaddrUnix{Name: path}
	err = unix.Bind(fd, address)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		err = unix.Bind(fd, address)
	}
	if err != nil {
		return nil, fmt.Errorf("memory socket %s: bind: %w", path, err)
	}
	l, err := listen(sock, path, mode)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return l, nil
}

func listen(sock *os.File, path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := os.Chmod(path, mode); err != nil {
		return nil, fmt.Errorf("memory socket: %w", err)
	}
	if err := unix.Listen(int(sock.Fd()), 4096); err != nil { // the kernel cuts it to net.core.somaxconn
		return nil, fmt.Errorf("memory socket %s: listen: %w", path, err)
	}
	l, err := net.FileListener(sock)
	if err != nil {
		return nil, fmt.Errorf("memory socket %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes a socket file that nobody listens behind: connecting to it
// is refused. Errors match ErrInUse.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("memory socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is there and no socket (%v): move it away or choose another path", ErrInUse, path, info.Mode())
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("memory socket: %w", err)
	}
	defer unix.Close(fd)
	switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); {
	case errors.Is(err, unix.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stale memory socket: %w", err)
		}
		return nil
	case err == nil || errors.Is(err, unix.EAGAIN): // EAGAIN: its queue is full
		return fmt.Errorf("%w: a process listens at %s: stop it or choose another path", ErrInUse, path)
	default:
		return fmt.Errorf("%w: %s: %w", ErrInUse, path, err)
	}
}

// lockDir excludes other servers that start or stop in a directory.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the memory socket: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			d.Close()
			return nil, fmt.Errorf("lock of the directory %s: %w", dir, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.Close()
			return nil, fmt.Errorf("%w: another process holds the lock of the directory %s", ErrInUse, dir)
		}
	}
}
