package wire

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const taps = true

// get reads what is there, and reports whether that ends the read.
func (t *tap) get(fd uintptr) bool {
	for {
		n, err := unix.Read(int(fd), t.into)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil:
			t.err = &net.OpError{Op: "read", Net: t.conn.RemoteAddr().Network(), Source: t.conn.LocalAddr(), Addr: t.conn.RemoteAddr(), Err: os.NewSyscallError("read", err)}
		case n == 0:
			t.err = io.EOF
		default:
			t.n = n
		}
		return true
	}
}
