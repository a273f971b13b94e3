package watch

import (
	"context"
	"sync"

	"github.com/rmatail/rmatail/fallback/wire"
)

// conns keeps one connection to each node between surveys.
type conns struct {
	dial func(ctx context.Context, addr string) (*wire.Client, error)
	mu   struct {
		sync.Mutex
		closed bool
		idle   map[string]*wire.Client
	}
}

// get returns the idle connection to a node, if it is still good, or a new one.
func (c *conns) get(ctx context.Context, addr string) (*wire.Client, error) {
	c.mu.Lock()
	known := c.mu.idle[addr]
	delete(c.mu.idle, addr)
	c.mu.Unlock()
	if known != nil {
		select {
		case <-known.Lost():
			known.Close() // it is lost already: there is nothing to tell
		default:
			return known, nil
		}
	}
	return c.dial(ctx, addr)
}

// put takes back what get has given. What failed is not used again.
func (c *conns) put(addr string, w *wire.Client, err error) {
	c.mu.Lock()
	old := w
	if err == nil && !c.mu.closed {
		old = c.mu.idle[addr]
		if c.mu.idle == nil {
			c.mu.idle = make(map[string]*wire.Client)
		}
		c.mu.idle[addr] = w
	}
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// keep closes the connections to addresses that are none any more.
func (c *conns) keep(addrs map[string]bool) {
	c.mu.Lock()
	var gone []*wire.Client
	for addr, w := range c.mu.idle {
		if !addrs[addr] {
			gone = append(gone, w)
			delete(c.mu.idle, addr)
		}
	}
	c.mu.Unlock()
	for _, w := range gone {
		w.Close()
	}
}

// close closes what is idle now, and what comes back later.
func (c *conns) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.keep(nil)
}
