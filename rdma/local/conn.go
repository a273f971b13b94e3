package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Conn is a consumer's mapping of one node's arena, and the connection by which
// it knows that the node lives. Any number of goroutines may use it.
type Conn struct {
	sock  net.Conn
	size  uint64 // of the arena
	unmap func() error

	once     sync.Once
	lost     chan struct{} // closed when the path is gone
	err      error         // why; written before lost is closed
	watching chan struct{} // closed when watch has ended

	// guard is held for reading while a batch copies from arena, and for writing
	// to unmap it.
	guard    sync.RWMutex
	arena    []byte // nil when unmapped
	unmapErr error

	waiter waiter

	pool pool
}

// newConn takes over a connection after its handshake, and a mapping: of the arena,
// and of what is behind it.
func newConn(sock net.Conn, arena, behind []byte, unmap func() error, d Dialer) *Conn {
	c := &Conn{
		sock: sock, size: uint64(len(arena)), arena: arena, unmap: unmap,
		lost: make(chan struct{}), watching: make(chan struct{}), pool: pool{limit: d.BufferBytes},
	}
	c.waiter.init(arena, behind)
	go c.watch()
	return c
}

// watch waits for the end of the connection, which has nothing more to say. It
// ends with the node, or by Close.
func (c *Conn) watch() {
	defer close(c.watching)
	var b [1]byte
	n, err := c.sock.Read(b[:])
	switch {
	case n > 0:
		err = fmt.Errorf("%w: %w: the node says more after its answer", ErrLost, ErrHandshake)
	case errors.Is(err, io.EOF):
		err = ErrLost
	default:
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	c.end(err)
}

// end is the one way out: from here on nothing reads the mapping, and when the
// last copy is done it goes.
func (c *Conn) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.lost)
		c.sock.Close() // wakes watch; its error says nothing of use
		c.waiter.stop()
		c.guard.Lock()
		defer c.guard.Unlock()
		c.arena = nil
		c.unmapErr = c.unmap()
	})
}

// Size returns the size of the arena in bytes, also after Lost.
func (c *Conn) Size() uint64 { return c.size }

// Lost is closed once, when the node has gone or Close was called.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Err is nil before Lost. After it: ErrLost or ErrClosed.
func (c *Conn) Err() error {
	select {
	case <-c.lost:
		return c.err
	default:
		return nil
	}
}

// Close unmaps the arena and closes the connection, after copies under way.
// Batches fail from now on; release them as always.
func (c *Conn) Close() error {
	c.end(ErrClosed)
	<-c.watching
	return c.unmapErr
}
