package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminal returns what asks w for its size, nil if it is no terminal.
func terminal(w io.Writer) func() (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	size := func() (columns, rows int) {
		c, err := f.SyscallConn() // not Fd, which would take it out of the poller
		if err != nil {
			return 0, 0
		}
		_ = c.Control(func(fd uintptr) {
			if ws, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
				columns, rows = int(ws.Col), int(ws.Row)
			}
		})
		return columns, rows
	}
	if columns, _ := size(); columns == 0 {
		return nil
	}
	return size
}
