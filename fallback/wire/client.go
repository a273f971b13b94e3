package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

const (
	defaultTimeout     = 5 * time.Second
	defaultPending     = 4 << 20
	defaultOutstanding = 1024
	slotBits           = 16
	maxIdleCalls       = 1024
)

// Options of a Client. The zero value is usable.
type Options struct {
	Name    string        // who calls, for the node's logs; at most MaxName bytes
	Timeout time.Duration // of the Hello exchange, of a Call without a deadline, and of a Start with a zero one; 0: 5 s
	// MaxPending bounds the request bytes that wait to be written; a Start above it waits. One request always fits. 0: 4 MiB.
	MaxPending int
	// MaxOutstanding bounds the unanswered requests, those given up by their callers with them: a node that stopped gets no
	// more than so many stale requests to work off when it goes on. A Start above it waits. 0: 1,024; at most 65,536.
	MaxOutstanding int
	// Credentials are what Dial and NewClient show the node. nil: nothing.
	Credentials Credentials
	Logger      *slog.Logger // told once when the connection is lost; nil: nobody is
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Name) > MaxName {
		return o, fmt.Errorf("client name of %d B, at most %d: %w", len(o.Name), MaxName, ErrBadRequest)
	}
	if o.MaxOutstanding > 1<<slotBits || o.MaxOutstanding < 0 || o.MaxPending < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("client options with %d outstanding (0 to %d), %d B pending, timeout %s: %w",
			o.MaxOutstanding, 1<<slotBits, o.MaxPending, o.Timeout, ErrBadRequest)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxPending == 0 {
		o.MaxPending = defaultPending
	}
	if o.MaxOutstanding == 0 {
		o.MaxOutstanding = defaultOutstanding
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Client is one connection to a node: many requests in flight, answered in any order. Safe for any number of goroutines.
//
// Requests are coalesced: each is appended to a pending list under a short lock, and whoever finds nobody flushing writes
// the list, outside the lock, with one vectored write. When more has gathered meanwhile, or the socket does not take it all
// within 20 ms or that caller's deadline, the flusher's role passes to a goroutine of the Client. Replies are received by one
// of the callers that wait, for all of them, and by a second goroutine when none does. Both end with the connection, and Close
// waits for them.
//
// A node that stops answering makes calls fail by their deadlines and nothing else: the connection lives on and late
// replies are read and dropped. TCP keepalive (and TCP_USER_TIMEOUT on Linux) find a dead host within about 30 s; on Linux
// that ends a connection too whose node takes no bytes at all for as long, with requests waiting (tcp(7): a closed window).
type Client struct {
	conn  net.Conn
	o     Options
	hello HelloReply
	lost  chan struct{}
	wake  chan struct{} // hands the flusher's role to the writer goroutine; holds one
	turn  chan struct{} // lets a sleeping caller try to lead; holds one
	kick  chan struct{} // makes the receiver goroutine lead; holds one
	ended sync.WaitGroup

	// recv belongs to the leader, see lead.go.
	recv *receiver

	// writing is what the flusher writes; it belongs to whoever has the flusher's role, but writing.own changes under mu.
	writing outbox

	mu struct {
		sync.Mutex
		err         error // why the connection ended; set once
		slots       []slot
		free        []uint32 // indices of unused slots
		seq         uint64
		outstanding int    // used slots and those granted to waiting Starts
		pend        outbox // not yet taken by a flusher
		pendBytes   int    // in pend, in writing, and granted to waiting Starts
		flushing    bool   // somebody has the flusher's role
		writeUntil  time.Time
		waiting     callQueue // Starts that wait for room, in order
		leading     bool      // somebody reads the connection
		turns       uint64    // how often somebody began to
		sleepers    int       // callers that would lead
		others      int       // callers that wait and cannot
		readUntil   time.Time // the connection's read deadline
		idle        *Call     // free list
		idleLen     int
	}
}

// slot holds one unanswered request. An id is a sequence number above slotBits bits of slot index, so that a reply finds its
// slot without a map and an answered, a given-up and an invented id are told apart exactly.
type slot struct {
	id   uint64 // 0: unused
	call *Call  // nil: given up
}

// Hello is what the node said about itself.
func (c *Client) Hello() HelloReply { return c.hello }

// Start sends a request and does not wait for its reply. The payload is head, which is copied, and tail, which is not; a reply's
// payload lands in the slices of dst, whose lengths must add up to exactly its length, or, without dst, in new memory. tail, dst
// and its slices belong to the Call until Wait or Abandon has returned. A zero deadline means Options.Timeout from now.
//
// Start itself waits when MaxPending or MaxOutstanding is reached, and until the deadline at most: the error then matches
// os.ErrDeadlineExceeded. On a connection that has ended it matches ErrLost; for a payload that the operation does not allow,
// ErrBadRequest. The Call must get its Wait or its Abandon.
func (c *Client) Start(deadline time.Time, op Op, head, tail []byte, dst [][]byte) (*Call, error) {
	return c.start(nil, deadline, op, head, tail, dst, flushNow)
}

// Queue is Start, except that the request may stay unsent until the next Start, Flush, or Wait on this Call: for a caller
// that starts several requests at once.
func (c *Client) Queue(deadline time.Time, op Op, head, tail []byte, dst [][]byte) (*Call, error) {
	return c.start(nil, deadline, op, head, tail, dst, flushLater)
}

// Flush sends what Queue left unsent. It blocks for 20 ms and until the deadline at most; what the socket has not taken by then,
// the Client's own goroutine writes.
func (c *Client) Flush(deadline time.Time) {
	c.mu.Lock()
	if c.mu.flushing || c.mu.pend.size == 0 || c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	c.flush(time.Now(), deadline)
}

// Call sends a request and waits for the reply's payload, which is the caller's. Without a deadline of ctx, Options.Timeout applies.
func (c *Client) Call(ctx context.Context, op Op, head, tail []byte) ([]byte, error) {
	deadline := time.Now().Add(c.o.Timeout)
	if d, ok := ctx.Deadline(); ok {
		deadline = d
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, ctxCause(ctx))
	}
	call, err := c.start(ctx.Done(), deadline, op, head, tail, nil, flushNow)
	if err == nil {
		var p []byte
		if p, err = call.wait(ctx.Done()); err == nil {
			return p, nil
		}
	}
	if ctx.Err() != nil && (errors.Is(err, errStopped) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return nil, fmt.Errorf("%s: %w", op, ctxCause(ctx))
	}
	return nil, err
}

// ctxCause is why ctx is done, matching os.ErrDeadlineExceeded too when a deadline was it.
func ctxCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", cause, os.ErrDeadlineExceeded)
	}
	return cause
}

// Lost is closed once, when the connection has ended or Close was called.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Err is nil before Lost; after it, ErrLost wrapping the cause.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Close ends the connection: calls in flight fail with ErrLost wrapping ErrClosed. It returns when the Client's goroutines
// have ended, and may be called more than once.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	c.ended.Wait()
	return nil
}

// fail ends the connection for cause, once.
func (c *Client) fail(cause error) {
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	err := fmt.Errorf("%w: %s: %w", ErrLost, c.conn.RemoteAddr(), cause)
	c.mu.err = err
	close(c.lost)
	for i := range c.mu.slots {
		if call := c.mu.slots[i].call; call != nil {
			c.mu.slots[i].call = nil
			call.lost = err
			call.settle()
		}
	}
	for call := c.mu.waiting.pop(); call != nil; call = c.mu.waiting.pop() {
		call.lost = err
		call.done <- struct{}{}
	}
	c.dropLost()
	// Nobody will take pend any more; writing is its flusher's, who is about to meet the closed socket.
	c.mu.pend.drop()
	c.mu.Unlock()
	_ = c.conn.Close() // nothing depends on how a broken connection closes
	if !errors.Is(cause, ErrClosed) {
		c.o.Logger.Info("connection to node lost", "addr", c.conn.RemoteAddr().String(), "cause", cause)
	}
}
