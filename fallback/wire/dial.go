package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// TCP settings of a connection: a dead host is found after about 30 s, whether requests are unacknowledged or nothing is sent. They
// are not what callers wait for: calls have deadlines of their own.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	userTimeout       = 30 * time.Second
)

// Dial connects to addr, "host:port" or "unix:/path", seals the connection if Options.Credentials want that (a Unix socket
// never is), and exchanges Hellos, all bounded by ctx and Options.Timeout. Errors: what the network said; ErrSeal when TLS
// could not be had; ErrVersion when the node speaks another version; ErrHeaderCRC when what answers is no rmatail
// node; any *Error the node refuses with.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount},
		Control:         setUserTimeout,
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", addr, withCause(ctx, err))
	}
	if host, _, err := net.SplitHostPort(addr); network == "tcp" && err == nil && o.Credentials != nil {
		if conn, err = seal(ctx, conn, host, o.Credentials); err != nil {
			return nil, fmt.Errorf("node %s: %w", addr, withCause(ctx, err))
		}
	}
	return NewClient(ctx, conn, o)
}

// NewClient exchanges Hellos on a connection that is already there, bounded by ctx and Options.Timeout, and owns it from then on,
// also when it fails. The connection must go on after a read or write deadline, as sockets do and a plain tls.Conn does not.
func NewClient(ctx context.Context, conn net.Conn, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	deadline := time.Now().Add(o.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline) // fails only when closed, which the write will say
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	hello, err := greet(conn, o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // err is the one to tell
		return nil, fmt.Errorf("hello with node %s: %w", conn.RemoteAddr(), withCause(ctx, err))
	}
	_ = conn.SetDeadline(time.Time{})
	c := &Client{conn: conn, o: o, hello: hello, lost: make(chan struct{}), wake: make(chan struct{}, 1),
		turn: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
	c.recv = newReceiver(c)
	c.ended.Add(2)
	go c.receive()
	go c.write()
	return c, nil
}

// withCause adds why ctx is done, if it is, to what that made of a read or write.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, ctxCause(ctx))
}

// greet sends Hello and reads the reply, and not a byte more.
func greet(conn net.Conn, o Options) (HelloReply, error) {
	token := ""
	if o.Credentials != nil {
		var err error
		if token, err = o.Credentials.Token(conn); err != nil {
			return HelloReply{}, err
		}
	}
	payload, err := HelloRequest{Version: Version, Name: o.Name, Token: token}.AppendTo(nil)
	if err != nil {
		return HelloReply{}, err
	}
	frame := AppendHeader(nil, Header{Length: uint32(len(payload)), Op: OpHello, Budget: o.Timeout})
	if _, err := conn.Write(append(frame, payload...)); err != nil {
		return HelloReply{}, err
	}
	b := make([]byte, HeaderLen, maxErrReply)
	if _, err := io.ReadFull(conn, b); err != nil {
		return HelloReply{}, err
	}
	h, err := ParseHeader(b)
	if err != nil {
		return HelloReply{}, err
	}
	if h.Op != OpHello || h.ID != 0 {
		return HelloReply{}, fmt.Errorf("%s reply to request %#x instead of hello's: %w", h.Op, h.ID, ErrProtocol)
	}
	if h.Length > maxErrReply {
		return HelloReply{}, fmt.Errorf("hello reply of %d B, at most %d: %w", h.Length, maxErrReply, ErrFrameTooLong)
	}
	b = b[:h.Length]
	if _, err := io.ReadFull(conn, b); err != nil {
		return HelloReply{}, err
	}
	if h.Status != StatusOK {
		e, err := ParseError(h.Status, b)
		if err != nil {
			return HelloReply{}, err
		}
		return HelloReply{}, e
	}
	return ParseHelloReply(b)
}
