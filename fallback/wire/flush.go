package wire

import (
	"errors"
	"os"
	"time"
)

// inlineFlush bounds how long a caller of Start writes by itself before the writer goroutine takes over.
const inlineFlush = 20 * time.Millisecond

// writeSlack is how much of the connection's write deadline must be left for an inline flusher to keep it instead of setting
// its own: setting one costs a good part of a small write.
const writeSlack = 2 * time.Millisecond

// flush takes the flusher's role and writes what is pending, once. mu is held before, not after; nobody is flushing, something
// is pending. What gathers meanwhile, or what the socket does not take until the deadline or in inlineFlush, goes to the writer
// goroutine.
func (c *Client) flush(now, until time.Time) {
	c.mu.flushing = true
	if own := now.Add(inlineFlush); own.Before(until) {
		until = own
	}
	if keep := c.mu.writeUntil; keep.After(until) || keep.Before(now.Add(writeSlack)) {
		c.mu.writeUntil = until
		_ = c.conn.SetWriteDeadline(until) // fails only when closed, which the write will say
	}
	c.takePending()
	if c.writeOnce() {
		c.wake <- struct{}{}
	}
	c.mu.Unlock()
}

// takePending makes pend what is written next; mu is held.
func (c *Client) takePending() {
	c.writing, c.mu.pend = c.mu.pend, c.writing
	c.writing.seal()
}

// writeOnce writes c.writing and reports whether there is more to write, now or left over, for whoever has the role then; if
// not, the role is free. mu is held before and after, not meanwhile.
func (c *Client) writeOnce() bool {
	c.mu.Unlock()
	_, err := c.writing.out.WriteTo(c.conn)
	c.mu.Lock()
	c.mu.pendBytes -= c.writing.written()
	if errors.Is(err, os.ErrDeadlineExceeded) && c.mu.err == nil {
		// A flusher's own deadline, or a call that wants its tail back.
		c.writing.rescueAbandoned()
		c.mu.writeUntil = time.Time{}
		_ = c.conn.SetWriteDeadline(time.Time{})
		c.grant()
		return true
	}
	if err != nil {
		c.mu.Unlock()
		c.fail(err)
		c.mu.Lock()
	}
	c.writing.drop()
	if c.mu.err != nil {
		c.mu.flushing = false
		return false
	}
	c.grant()
	c.mu.flushing = c.mu.pend.size > 0
	return c.mu.flushing
}

// write is the writer goroutine: it has the flusher's role from a token in wake until nothing is left to write.
func (c *Client) write() {
	defer c.ended.Done()
	for {
		select {
		case <-c.wake:
			c.drain()
		case <-c.lost:
			// The role may have been handed over just before.
			select {
			case <-c.wake:
				c.drain()
			default:
			}
			return
		}
	}
}

func (c *Client) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.writing.size == 0 {
			c.takePending()
		}
		if !c.writeOnce() {
			return
		}
	}
}
