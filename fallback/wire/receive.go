package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// receiveBuffer is how much of small replies one read of the socket takes.
	receiveBuffer = 128 << 10
	// After a reply of largeReply or more the next one's header is read with no more
	// than headAhead bytes, so that the payload is not copied twice: replies come in
	// runs of one size.
	largeReply = 16 << 10
	headAhead  = 512
)

// receiver takes replies off the connection. It belongs to whoever leads (see lead.go), and what it keeps lets the next leader go
// on in the middle of a reply. Without a leader it may be touched under the Client's mu.
type receiver struct {
	c     *Client
	tap   *tap
	br    *bufio.Reader
	ahead int // bytes that br takes at once, at most

	within bool     // a reply's header has come, its end has not
	h      Header   // of that reply
	left   int      // bytes of its payload that have not come
	call   *Call    // whose it is; nil: given up
	into   []byte   // where they land: a part of call's dst, of fresh, or of scratch
	rest   [][]byte // slices of dst after into; those of a call that was given up are not looked at
	fresh  []byte   // the payload, when it lands in new memory

	scratch [maxErrReply]byte
	until   time.Time // when the leader has to leave; zero: never
	handed  int       // replies whose callers slept, since the Client's own goroutine began to lead
}

func newReceiver(c *Client) *receiver {
	r := &receiver{c: c, tap: newTap(c.conn), ahead: receiveBuffer}
	r.br = bufio.NewReaderSize(sips{r}, receiveBuffer)
	return r
}

// sips is the connection as br reads it.
type sips struct{ r *receiver }

func (s sips) Read(p []byte) (int, error) { return s.r.tap.Read(p[:min(len(p), s.r.ahead)]) }

// errTurnOver is why a leader stops: its time is over.
var errTurnOver = errors.New("turn is over")

// one receives up to the end of a reply, and returns the call that it settled, if any. After errTurnOver the next leader goes on; any
// other error ends the connection.
func (r *receiver) one() (*Call, error) {
	if !r.within {
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	for r.left > 0 {
		n, err := r.some()
		r.left -= n
		if err == nil {
			continue
		}
		if err = r.interrupted(err); err == errTurnOver {
			return nil, err
		} else if err != nil {
			return nil, payloadError(err)
		}
	}
	return r.end()
}

// begin reads the next reply's header, and says where its payload is to land.
func (r *receiver) begin() error {
	h, err := r.header()
	if err != nil {
		return err
	}
	if err := r.claim(h); err != nil {
		return err
	}
	n := int(h.Length)
	r.within, r.h, r.left, r.into, r.rest, r.fresh = true, h, n, nil, nil, nil
	switch {
	case r.call == nil || n == 0 && r.call.dst == nil:
	case h.Status != StatusOK:
		if n > maxErrReply {
			return fmt.Errorf("%s refusal of %d B, at most %d: %w", h.Op, n, maxErrReply, ErrFrameTooLong)
		}
		r.into = r.scratch[:n]
	case r.call.dst != nil:
		if n != r.call.total {
			return fmt.Errorf("%s reply of %d B to a request for %d: %w", h.Op, n, r.call.total, ErrProtocol)
		}
		r.rest = r.call.dst
	default:
		r.fresh = make([]byte, n) // at most MaxPayload
		r.into = r.fresh
	}
	return nil
}

// header reads the next reply's header.
func (r *receiver) header() (Header, error) {
	for {
		b, err := r.br.Peek(HeaderLen)
		if err == nil {
			h, err := ParseHeader(b)
			if err != nil {
				return Header{}, err
			}
			_, err = r.br.Discard(HeaderLen)
			return h, err
		}
		switch some := len(b); {
		case some > 0 && errors.Is(err, io.EOF):
			return Header{}, fmt.Errorf("%d B of a reply header: %w", some, ErrShortFrame)
		case errors.Is(err, io.EOF):
			return Header{}, fmt.Errorf("node closed the connection: %w", err)
		}
		if err := r.interrupted(err); err != nil {
			return Header{}, err
		}
	}
}

// claim finds the call that h answers, frees its slot, and keeps its memory from its owner until finish. r.call is nil for
// a call that was given up.
func (r *receiver) claim(h Header) error {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	at := h.ID & (1<<slotBits - 1)
	if at >= uint64(len(c.mu.slots)) || c.mu.slots[at].id != h.ID || h.ID == 0 {
		return fmt.Errorf("%s reply to request %#x, which is unknown or answered: %w", h.Op, h.ID, ErrProtocol)
	}
	r.call = c.mu.slots[at].call
	c.mu.slots[at] = slot{}
	c.mu.free = append(c.mu.free, uint32(at))
	c.mu.outstanding--
	c.grant()
	if r.call == nil {
		return nil
	}
	r.call.receiving = true
	if r.call.op != h.Op {
		return fmt.Errorf("%s reply to a %s request: %w", h.Op, r.call.op, ErrProtocol)
	}
	return nil
}

// some takes payload bytes off the connection.
func (r *receiver) some() (n int, err error) {
	if r.call == nil {
		return r.br.Discard(r.left)
	}
	for len(r.into) == 0 {
		r.into, r.rest = r.rest[0], r.rest[1:]
	}
	if r.br.Buffered() == 0 && len(r.into) >= r.ahead {
		n, err = r.tap.Read(r.into)
	} else {
		n, err = r.br.Read(r.into)
	}
	r.into = r.into[n:]
	return n, err
}

func payloadError(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("node closed in the middle of a reply: %w", ErrShortFrame)
	}
	return err
}

// end settles the call whose reply has come whole.
func (r *receiver) end() (*Call, error) {
	r.ahead = receiveBuffer
	if r.h.Length >= largeReply {
		r.ahead = headAhead
	}
	r.within = false
	call := r.call
	if call == nil {
		return nil, nil
	}
	var refused error
	if r.h.Status != StatusOK {
		e, err := ParseError(r.h.Status, r.scratch[:r.h.Length])
		if err != nil {
			return nil, err
		}
		refused = e
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	call.payload, call.err, call.replied = r.fresh, refused, true
	if call.sleeps {
		r.handed++
	}
	r.letGo()
	return call, nil
}

// letGo gives the call whose reply is coming back to its owner; the Client's mu is held.
func (r *receiver) letGo() {
	r.call.receiving = false
	r.call.settle()
	r.call, r.into, r.rest, r.fresh = nil, nil, nil, nil
}

// interrupted returns nil if err, of a read, only says that somebody wants its call back, or that a deadline of an earlier
// leader has passed: then the leader goes on. Else it is why it does not.
func (r *receiver) interrupted(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return c.mu.err
	}
	r.letGoAbandoned()
	now := time.Now()
	if !r.until.IsZero() && !now.Before(r.until) {
		return errTurnOver
	}
	c.readBy(now)
	return nil
}

// letGoAbandoned lets go of the call whose reply is coming if it was given up; the Client's mu is held.
func (r *receiver) letGoAbandoned() {
	if r.call != nil && r.call.abandoned {
		r.letGo()
	}
}
