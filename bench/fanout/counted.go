package fanout

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
)

// counted is a connection to a peer whose bytes are counted.
type counted struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
	*meter
}

// meter counts the traffic of a process.
type meter struct{ moved, requests atomic.Uint64 }

func (m *meter) traffic() traffic {
	return traffic{Moved: m.moved.Load(), Requests: m.requests.Load()}
}

// bufferBytes hold the largest record with what is around it many times.
const bufferBytes = 128 << 10

func dial(ctx context.Context, addr string, m *meter) (*counted, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, meter: m}
	c.in, c.out = bufio.NewReaderSize(c, bufferBytes), bufio.NewWriterSize(c, bufferBytes)
	return c, nil
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.moved.Add(uint64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.moved.Add(uint64(n))
	return n, err
}

// ask counts requests and sends what was written.
func (c *counted) ask(requests int) error {
	c.requests.Add(uint64(requests))
	return c.out.Flush()
}

// closeWith closes the connection when ctx ends, which ends reads and writes of
// it. stop ends that.
func (c *counted) closeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.Close() })
}
