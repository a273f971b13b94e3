package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a node's arena, mapped. Safe for concurrent use.
type Conn struct {
	socket *net.UnixConn
	epoch  uint64
	slabs  slabs
	lost   chan struct{}
	cause  atomic.Pointer[error] // set before lost is closed
	ended  sync.WaitGroup        // of watch

	// mem is read under the lock and unmapped under its exclusive side; nil after
	// Close. An RWMutex costs a copy of 4 KiB a few per cent, and cannot fault.
	mu  sync.RWMutex
	mem []byte
}

// Dial connects to the socket at path and maps the arena, which must be that of
// the node epoch. ctx bounds the handshake. Errors match ErrForeign and
// ErrUnsupported, or are the system's.
func Dial(ctx context.Context, path string, epoch uint64) (*Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &Conn{socket: nc.(*net.UnixConn), epoch: epoch, lost: make(chan struct{})}
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(handshakeTimeout); !ok || deadline.After(limit) {
		deadline = limit
	}
	if err := c.handshake(deadline); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	c.ended.Go(c.watch)
	return c, nil
}

func (c *Conn) handshake(deadline time.Time) error {
	f, size, epoch, err := receiveArena(c.socket, deadline)
	if err != nil {
		return err
	}
	defer f.Close() // the mapping keeps the memory
	if epoch != c.epoch {
		return fmt.Errorf("%w: epoch %x answers, %x is expected: the node restarted meanwhile", ErrForeign, epoch, c.epoch)
	}
	c.mem, err = mapArena(f, size)
	return err
}

// watch waits for the node's end. A node never writes after the handshake: bytes
// mean that something else took the path over.
func (c *Conn) watch() {
	var p [1]byte
	n, err := c.socket.Read(p[:])
	switch {
	case errors.Is(err, net.ErrClosed):
		err = ErrClosed
	case n > 0:
		err = fmt.Errorf("%w: it spoke out of turn", ErrForeign)
	default:
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	c.cause.CompareAndSwap(nil, &err)
	close(c.lost)
}

// Lost is closed when the node's process has ended or Close was called. Reads
// fail from then on.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Err returns why Lost was closed; nil before.
func (c *Conn) Err() error {
	select {
	case <-c.lost:
		return *c.cause.Load()
	default:
		return nil
	}
}

// Size returns the arena's size in bytes; 0 after Close.
func (c *Conn) Size() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return uint64(len(c.mem))
}

// Close ends the watch and removes the mapping once no read is copying from it.
func (c *Conn) Close() error {
	err := c.socket.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mem != nil {
		err = errors.Join(err, unmap(c.mem))
		c.mem = nil
	}
	return err
}
