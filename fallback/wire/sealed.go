package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
)

// recordMax is the most plaintext of one TLS record (RFC 8446, section 5.1).
const recordMax = 16 << 10

// sealed is a TLS connection that goes on after a write deadline, as a Client needs it: a tls.Conn never writes again after
// one (its documentation of SetWriteDeadline), because a part of a record may have gone out. Here that record's rest is kept, and
// goes out first when the next Write comes. (Reads of a tls.Conn do go on after a deadline.)
type sealed struct {
	*tls.Conn
	spill *spill
	write struct {
		sync.Mutex
		owed bool // the last byte of a piece is in the spill, but was not reported as written
	}
}

func newSealed(conn net.Conn, cfg *tls.Config) *sealed {
	s := &spill{Conn: conn}
	return &sealed{Conn: tls.Client(s, cfg), spill: s}
}

// Write implements net.Conn. After os.ErrDeadlineExceeded the caller must write the rest of the same bytes next: the first of them
// has been encrypted already.
func (c *sealed) Write(p []byte) (n int, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if err := c.spill.flush(); err != nil {
		return 0, err
	}
	if c.write.owed {
		c.write.owed = false
		n = 1
	}
	for n < len(p) {
		piece := p[n:min(len(p), n+recordMax)]
		if _, err := c.Conn.Write(piece); err != nil {
			return n, err
		}
		n += len(piece)
		if c.spill.holds() {
			// Reported as a byte less than was taken, so that the caller comes again and what is left goes out.
			c.write.owed = true
			return n - 1, os.ErrDeadlineExceeded
		}
	}
	return n, nil
}

// Read implements net.Conn. The end of the connection is io.EOF with and without a close_notify: frames know their borders.
func (c *sealed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Close implements net.Conn, at once: a close_notify could wait for a peer that reads nothing.
func (c *sealed) Close() error { return c.spill.Conn.Close() }

// spill is a connection whose Write never fails by a deadline: it keeps what was not written. What it keeps is bounded by a record
// and the few small ones that TLS answers by itself.
type spill struct {
	net.Conn
	mu struct {
		sync.Mutex
		rest []byte
	}
}

func (s *spill) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if len(s.mu.rest) == 0 {
		var err error
		if n, err = s.Conn.Write(p); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	s.mu.rest = append(s.mu.rest, p[n:]...)
	return len(p), nil
}

// flush writes what was kept.
func (s *spill) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.rest) == 0 {
		return nil
	}
	n, err := s.Conn.Write(s.mu.rest)
	s.mu.rest = s.mu.rest[:copy(s.mu.rest, s.mu.rest[n:])]
	return err
}

func (s *spill) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.rest) > 0
}
