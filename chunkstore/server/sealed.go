package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// sealedConn is the node's end of a connection with TLS.
type sealedConn struct {
	*tls.Conn
	raw *sniffed
	// out gathers the pieces of replies to whole records. Guarded by conn.write.
	out *bufio.Writer
}

// recordMax is the most plaintext of one TLS record (RFC 8446, section 5.1).
const recordMax = 16 << 10

func newSealedConn(nc net.Conn, cfg *tls.Config) *sealedConn {
	raw := &sniffed{Conn: nc}
	c := &sealedConn{Conn: tls.Server(raw, cfg), raw: raw}
	c.out = bufio.NewWriterSize(c.Conn, recordMax)
	return c
}

// Close implements net.Conn, at once: a close_notify could wait for a client that
// reads nothing, and frames know their borders.
func (c *sealedConn) Close() error { return c.raw.Close() }

// errNoTLS ends the handshake of a client that begins with something else.
var errNoTLS = errors.New("the client's first bytes are no TLS")

// sniffed tells a client that does not speak TLS from one that does it wrong.
type sniffed struct {
	net.Conn
	begun bool // one goroutine reads until the handshake is over
}

// handshakeRecord is the type of the first record of TLS (RFC 8446, section 5.1).
const handshakeRecord = 22

func (s *sniffed) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 && !s.begun {
		s.begun = true
		if p[0] != handshakeRecord {
			return 0, errNoTLS
		}
	}
	return n, err
}

// seal does the TLS handshake, within the time for the Hello. A client that does
// not speak TLS is told so in the words that it understands.
func (c *conn) seal() error {
	s, ok := c.nc.(*sealedConn)
	if !ok {
		return nil
	}
	if err := c.in.arm(); err != nil {
		return err
	}
	s.SetWriteDeadline(c.in.until) // fails only on a closed connection, as the handshake then does
	err := s.Handshake()
	if errors.Is(err, errNoTLS) {
		s.raw.SetWriteDeadline(time.Now().Add(c.s.cfg.Limits.Write))
		err = errors.Join(err, wire.WriteError(s.raw, wire.Header{Op: wire.OpHello}, errSealFirst))
	}
	if err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	return nil
}

// errSealFirst refuses clients without TLS.
var errSealFirst = &wire.Error{Status: wire.StatusUnknownPeer, Message: "this node speaks TLS only: name the authority that has signed its certificate (--tls-ca FILE)"}

// send writes replies: in place where there is no TLS, in whole records else. The
// right to write is held.
func (c *conn) send(out *wire.Replies) error {
	s, ok := c.nc.(*sealedConn)
	if !ok {
		return out.Flush(c.nc)
	}
	if err := out.Flush(s.out); err != nil {
		return err
	}
	return s.out.Flush()
}
