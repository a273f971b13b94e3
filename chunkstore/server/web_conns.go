package server

import (
	"net"
	"sync"
	"sync/atomic"
)

const (
	// httpConns bounds the connections of HTTP at once, and httpConnsFrom those of one
	// address: idle ones must not take the descriptors that clients need, nor the
	// places that supervisors need.
	httpConns     = 512
	httpConnsFrom = 128
)

// httpListener takes as many connections as may be, and closes further ones.
type httpListener struct {
	net.Listener
	open atomic.Int64
	from strangers
}

func (l *httpListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.enter(nc); c != nil {
			return c, nil
		}
		nc.Close()
	}
}

// enter counts a connection in; nil: there are too many.
func (l *httpListener) enter(nc net.Conn) net.Conn {
	from := networkOf(nc)
	if !l.from.enter(from, httpConnsFrom) {
		return nil
	}
	leave := func() {
		l.from.leave(from)
		l.open.Add(-1)
	}
	if l.open.Add(1) > httpConns {
		leave()
		return nil
	}
	return &httpConn{nc, sync.OnceFunc(leave)}
}

// httpConn is counted until it is closed.
type httpConn struct {
	net.Conn
	leave func()
}

func (c *httpConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
