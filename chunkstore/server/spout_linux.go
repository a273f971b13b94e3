package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// spout writes to a socket without waiting for room in it. It allocates nothing.
// One goroutine at a time.
type spout struct {
	raw syscall.RawConn // nil: the connection is no plain socket
	try func(fd uintptr) bool
	vec [][]byte
	n   int
	err error
}

// open takes a connection, which has to be a socket.
func (s *spout) open(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.try = func(fd uintptr) bool {
		s.n, s.err = unix.Writev(int(fd), s.vec)
		return true // do not wait
	}
}

// write writes as much of vec as there is room for; 0 also after an error, which the
// next ordinary write meets as well.
func (s *spout) write(vec [][]byte) (n int) {
	if s.raw == nil {
		return 0
	}
	s.vec, s.n, s.err = vec, 0, nil
	err := s.raw.Write(s.try)
	s.vec = nil
	if err != nil || s.err != nil || s.n < 0 {
		return 0
	}
	return s.n
}
