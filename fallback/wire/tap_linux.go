package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

const taps = true

// get reads what is there, and reports whether that ends the read.
func (t *tap) get(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), t.into)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
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
