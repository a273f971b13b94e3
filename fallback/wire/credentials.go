package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// ErrSeal is returned when TLS could not be had with a node: it speaks none, its certificate is not what it should be, or it does
// not accept the client's.
var ErrSeal = errors.New("TLS with the node")

// Credentials are what a client shows a node, and what it demands of it. Any number of goroutines call them at once.
type Credentials interface {
	// TLS returns the configuration of one connection to a host, as it stands in the address dialled; nil: no TLS.
	TLS(host string) (*tls.Config, error)
	// Token returns the token to send over a connection, at most MaxToken bytes; empty: none. An error ends the connection
	// before anything was sent. A connection with TLS has a method ConnectionState, as a tls.Conn does.
	Token(conn net.Conn) (string, error)
}

// seal makes a connection one with TLS, if the credentials want that. It owns conn, also when it fails.
func seal(ctx context.Context, conn net.Conn, host string, c Credentials) (net.Conn, error) {
	cfg, err := c.TLS(host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if cfg == nil {
		return conn, nil
	}
	s := newSealed(conn, cfg)
	if err := s.HandshakeContext(ctx); err != nil {
		_ = s.Close() // err is the one to tell
		return nil, fmt.Errorf("%w: %w", ErrSeal, err)
	}
	return s, nil
}
