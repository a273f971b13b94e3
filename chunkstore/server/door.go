package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// door is a listener that holds so many connections open at most. One more is closed at
// once: who waits would look like a node that hangs.
type door struct {
	net.Listener
	most int64
	open atomic.Int64
}

func newDoor(l net.Listener, most int64) *door { return &door{Listener: l, most: most} }

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.open.Add(1) <= d.most {
			return &guest{Conn: c, leave: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
		}
		d.open.Add(-1)
		_ = c.Close() // nothing was said
	}
}

// guest is a connection that is counted until it is closed.
type guest struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}
