package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// inputBuffer holds seven puts or a hundred polls: what one read takes in.
	inputBuffer = 32 << 10
	// gatherMax bounds the replies of one flush by number, next to Limits.FlushBytes.
	gatherMax = 64
)

// conn is one client. Its serve goroutine reads the frames and answers what only
// touches memory; requests that can wait run beside it.
type conn struct {
	s   *Server
	nc  net.Conn
	in  input
	br  *bufio.Reader
	fr  *wire.FrameReader
	log *slog.Logger
	peer
	// standing guards peer against who looks at it from outside; the serve goroutine
	// needs no lock to read what it has written.
	standing struct {
		sync.Mutex
		known bool
	}

	// Replies of the serve goroutine, and how many they are.
	out      wire.Replies
	gathered int

	// life ends with the connection; reads for a client that is gone end with it.
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup // requests that run beside
	slow struct {
		sync.Mutex
		requests, bytes int
	}
	pairs pairs
	lines lines
	names names
	// known ends its being a stranger: with its Hello, or its end.
	known  func()
	client *tally // nil before the Hello
	// expiry ends the connection with the client's certificate; nil: it has shown none.
	expiry *time.Timer

	// waiting are the AwaitArena requests that are not answered.
	waiting struct {
		sync.Mutex
		n      int
		newest *wait
	}

	// write is the right to write to nc.
	write struct {
		sync.Mutex
		out   wire.Replies // of the requests that run beside
		spout spout
		write func(vec [][]byte) int // the spout's
	}
}

func newConn(s *Server, nc net.Conn) *conn {
	if g := s.cfg.Guard; g != nil && !within(nc) {
		if cfg := g.TLS(); cfg != nil {
			nc = newSealedConn(nc, cfg)
		}
	}
	c := &conn{s: s, nc: nc, log: s.log.With("client", nc.RemoteAddr().String())}
	l := s.cfg.Limits
	c.in = input{conn: nc, idle: l.Idle, frame: l.Frame, until: time.Now().Add(l.Handshake)}
	c.br = bufio.NewReaderSize(&c.in, inputBuffer)
	c.fr = wire.NewFrameReader(c.br)
	c.life, c.end = context.WithCancel(s.life)
	c.pairs.limit = l.QueuePairs
	c.write.spout.open(nc)
	c.write.write = c.write.spout.write
	return c
}

// cut ends the connection at once, from outside: nothing of it is waited for.
func (c *conn) cut() {
	c.nc.Close()
	c.end()
}

// serve runs the connection to its end. It is the one place where it is closed.
func (c *conn) serve() {
	err := c.guarded(c.frames)
	c.in.stop()
	c.end()
	if err := c.pairs.close(); err != nil {
		c.log.Warn("queue pair was not closed cleanly", "err", err)
	}
	c.endWaits()
	c.s.consumers.leave(c)
	c.work.Wait() // each within its own deadline
	c.nc.Close()
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), c.in.isStopped() && errors.Is(err, os.ErrDeadlineExceeded):
		c.log.Debug("connection closed")
	default: // not worth more than a line of debugging: anybody can cause it
		c.s.counters.connectionsBroken.Add(1)
		c.log.Debug("connection closed", "err", err)
	}
	c.known()
	c.leave()
	c.s.gone(c)
}

// guarded turns a panic of f into an error: a bug that one client can reach must
// not take the others down.
func (c *conn) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.s.panicked(p)
		}
	}()
	return f()
}

// frames answers requests until the client closes, breaks the protocol, or the
// node stops.
func (c *conn) frames() error {
	if err := c.handshake(); err != nil {
		return err
	}
	c.s.counters.greeted.Add(1)
	defer c.s.counters.greeted.Add(-1)
	if err := c.pace(); err != nil { // who comes anew for each request is paced, too
		return err
	}
	for {
		h, p, err := c.fr.Next()
		if err != nil {
			if c.excused(err) {
				continue
			}
			return err
		}
		c.s.counters.request(h.Op)
		c.request(h, p)
		if err := c.pace(); err != nil {
			return err
		}
		c.gathered++
		if c.gathered >= gatherMax || c.out.Size() >= c.s.cfg.Limits.FlushBytes || !c.fr.Ready() {
			if err := c.flush(); err != nil {
				return err
			}
		}
		c.in.border(c.br.Buffered() - c.lent(h))
	}
}

// lent is how many buffered bytes belong to the frame that was just handled.
func (c *conn) lent(h wire.Header) int {
	if n := wire.HeaderLen + int(h.Length); n <= c.br.Size() {
		return n
	}
	return 0
}

// excused reports whether a read ended only because an idle client is one whose
// reads go over RDMA.
func (c *conn) excused(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && !c.in.within && !c.in.isStopped() && c.pairs.any()
}

// handshake reads the Hello and answers it.
func (c *conn) handshake() error {
	if err := c.seal(); err != nil {
		return err
	}
	h, p, err := c.fr.Next()
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	c.s.counters.request(h.Op)
	hello, err := wire.ParseHelloRequest(p)
	if err == nil {
		err = c.identify(hello.Token)
	}
	var reply []byte
	if err == nil {
		reply, err = c.s.hello(&c.peer).AppendTo(nil)
	}
	if err != nil {
		c.refuse(h, err)
		return errors.Join(fmt.Errorf("handshake: %w", err), c.flush())
	}
	if hello.Name != "" {
		c.log = c.log.With("name", hello.Name)
	}
	if c.s.cfg.Guard != nil {
		c.log = c.log.With("identity", string(c.id))
	}
	c.known()
	c.out.Reply(h, reply)
	c.in.until = time.Time{}
	c.in.border(c.br.Buffered() - c.lent(h))
	return c.flush()
}

// refuse gathers an error reply. Only the serve goroutine.
func (c *conn) refuse(h wire.Header, err error) {
	c.s.counters.refused(err)
	if c.client != nil && (errors.Is(err, wire.ErrBadRequest) || errors.Is(err, wire.ErrForbidden)) { // else its Hello is refused
		c.client.wrongs.add(time.Now())
	}
	c.out.Error(h, err)
}

// flush writes the gathered replies.
func (c *conn) flush() error {
	c.gathered = 0
	if c.out.Size() == 0 {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	return c.flushLocked(&c.out)
}

// flushLocked writes replies. After an error the stream is out of step: nobody
// writes again.
func (c *conn) flushLocked(out *wire.Replies) error {
	c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.Limits.Write)) // fails only on a closed connection, as the write then does
	c.s.counters.writes.Add(1)
	err := c.send(out)
	if err != nil {
		c.nc.Close()
		return fmt.Errorf("replies: %w", err)
	}
	return nil
}

// answer writes one reply from a request that runs beside: payload, which it
// does not keep, or err.
func (c *conn) answer(h wire.Header, payload []byte, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	out := &c.write.out
	if err != nil {
		c.s.counters.refused(err)
		out.Error(h, err)
	} else {
		out.Header(h, len(payload))
		if len(payload) > 0 {
			out.Bytes(payload)
		}
	}
	if err := c.flushLocked(out); err != nil {
		c.in.stop()
	}
}
