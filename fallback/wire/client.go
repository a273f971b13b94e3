package wire

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// Options of a Client. The zero value is usable.
type Options struct {
	Name           string        // who calls, for the node's logs; at most MaxName bytes
	Timeout        time.Duration // of a Call, and of a Start with a zero deadline; and of the Hello exchange; 0: 5 s
	MaxPending     int           // request bytes waiting to be written, above which Start waits; 0: 4 MiB
	MaxOutstanding int           // unanswered requests, abandoned ones with them, above which Start waits; 0: 1,024; at most 65,536
	Logger         *slog.Logger  // nil: none
}

// Client is one connection to a node: many requests in flight, answered in any order. Safe for any number of goroutines.
type Client struct{}

// Call is one request in flight.
type Call struct{}

// Dial connects to addr, "host:port" or "unix:/path", and exchanges Hellos, both bounded by ctx and Options.Timeout.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) { return nil, ErrClosed }

// NewClient exchanges Hellos on a connection that is already there, and owns it from then on, also when it fails.
func NewClient(ctx context.Context, conn net.Conn, o Options) (*Client, error) { return nil, ErrClosed }

// Hello is what the node said about itself.
func (c *Client) Hello() HelloReply { return HelloReply{} }

// Start sends a request and does not wait for its reply.
func (c *Client) Start(deadline time.Time, op Op, head, tail []byte, dst [][]byte) (*Call, error) {
	return nil, ErrClosed
}

// Wait returns the reply's payload (nil with dst). It must be called once, unless Abandon is.
func (call *Call) Wait() ([]byte, error) { return nil, ErrClosed }

// Abandon gives a call up without waiting for its reply.
func (call *Call) Abandon() {}

// Call sends a request and waits for the reply's payload. Without a deadline of ctx, Options.Timeout applies.
func (c *Client) Call(ctx context.Context, op Op, head, tail []byte) ([]byte, error) {
	return nil, ErrClosed
}

// Lost is closed once, when the connection has ended or Close was called.
func (c *Client) Lost() <-chan struct{} { return nil }

// Err is the cause after Lost, nil before.
func (c *Client) Err() error { return nil }

// Close ends the connection; calls in flight fail with ErrLost.
func (c *Client) Close() error { return nil }
