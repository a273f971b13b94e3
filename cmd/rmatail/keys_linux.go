package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// singleKeys makes a terminal give each key at once, without showing it; Ctrl-C stays a
// signal. restore undoes that.
func singleKeys(f *os.File) (restore func() error, err error) {
	c, err := f.SyscallConn() // not Fd, which would take it out of the poller
	if err != nil {
		return nil, err
	}
	set := func(t *unix.Termios) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.IoctlSetTermios(int(fd), unix.TCSETS, t) }); e != nil {
			return e
		}
		return err
	}
	var before *unix.Termios
	if e := c.Control(func(fd uintptr) { before, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	t := *before
	t.Lflag &^= unix.ICANON | unix.ECHO
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return func() error { return set(before) }, set(&t)
}
