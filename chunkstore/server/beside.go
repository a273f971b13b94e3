package server

import (
	"context"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// beside runs a request that can wait in a goroutine of its own, with a copy of
// its payload. It is refused if the connection or the node has too many.
func (c *conn) beside(h wire.Header, p []byte) error {
	var run func(ctx context.Context, h wire.Header, p []byte) error
	switch h.Op {
	case wire.OpAppend:
		return c.append(h, p)
	case wire.OpStat:
		run = c.stat
	case wire.OpReadDurable:
		run = c.readDurable
	case wire.OpList:
		run = c.list
	case wire.OpNodeStat:
		run = c.nodeStat
	case wire.OpRDMAConnect:
		run = c.rdmaConnect
	case wire.OpFill:
		run = c.fill
	default:
		return fmt.Errorf("operation %v: %w", h.Op, wire.ErrBadRequest)
	}
	if err := c.admit(len(p)); err != nil {
		return err
	}
	deadline := time.Now().Add(c.s.allowed(h.Budget))
	payload := append(c.s.payloads.get(len(p)), p...)
	c.work.Add(1)
	started := c.s.work.start(func() {
		defer c.work.Done()
		defer c.release(payload)
		// An append of a client that has gone still ends as it would have: parent
		// is the node, not the connection. Reads for it stop, see readDurable.
		ctx, cancel := context.WithDeadline(c.s.life, deadline)
		defer cancel()
		if err := c.guarded(func() error { return run(ctx, h, payload) }); err != nil {
			c.failed(h, err)
		}
	})
	if !started {
		c.work.Done()
		c.release(payload)
		return errClosing
	}
	return nil
}

// failed answers a request that failed, unless the client has gone, or ends the
// connection if its handler panicked: nobody knows what it has answered.
func (c *conn) failed(h wire.Header, err error) {
	switch {
	case isPanic(err):
		c.nc.Close()
	case c.life.Err() == nil:
		c.answer(h, nil, err)
	}
}

// allowed is how long a request may take.
func (s *Server) allowed(budget time.Duration) time.Duration {
	if budget == 0 {
		return s.cfg.Limits.Request
	}
	return min(budget, s.cfg.Limits.RequestMax)
}

// admit counts a request with n payload bytes in.
func (c *conn) admit(n int) error {
	l := c.s.cfg.Limits
	c.slow.Lock()
	defer c.slow.Unlock()
	switch {
	case c.slow.requests >= l.InFlight:
		return &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d requests of this connection wait already; await replies first", l.InFlight)}
	case c.slow.requests > 0 && c.slow.bytes+n > l.InFlightBytes:
		return &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d bytes of this connection wait already; await replies first", c.slow.bytes)}
	case !c.client.take(n, l.ClientBytes):
		return &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("over %d bytes of this client wait already, on all its connections; await replies first", l.ClientBytes)}
	case !c.s.appendBytes.tryTake(n):
		c.client.give(n)
		return &wire.Error{Status: wire.StatusBusy, Message: "appends of all connections exceed the node's memory limit; try again"}
	}
	c.slow.requests++
	c.slow.bytes += n
	c.s.counters.inFlight.Add(1)
	return nil
}

// release undoes admit and gives the payload's memory back.
func (c *conn) release(payload []byte) {
	n := len(payload)
	c.s.payloads.put(payload)
	c.s.appendBytes.give(n)
	c.client.give(n)
	c.s.counters.inFlight.Add(-1)
	c.slow.Lock()
	defer c.slow.Unlock()
	c.slow.requests--
	c.slow.bytes -= n
}
