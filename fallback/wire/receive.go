package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// receiveBuffer is the size of the receiver's buffer: so many bytes a read of the socket when replies are small. A slice of dst at
// least as long is read into directly.
const receiveBuffer = 128 << 10

// receiver is the goroutine that reads replies.
type receiver struct {
	c       *Client
	br      *bufio.Reader
	call    *Call // whose payload is coming; nil: none, or given up
	scratch [maxErrReply]byte
}

// receive is the receiver goroutine.
func (c *Client) receive() {
	defer c.ended.Done()
	r := &receiver{c: c, br: bufio.NewReaderSize(c.conn, receiveBuffer)}
	var err error
	for err == nil {
		err = r.one()
	}
	c.fail(err)
	r.finish(func(call *Call) { call.lost = c.mu.err })
}

// one receives a reply.
func (r *receiver) one() error {
	h, err := r.header()
	if err != nil {
		return err
	}
	if err := r.claim(h); err != nil {
		return err
	}
	n := int(h.Length)
	switch {
	case r.call == nil:
		return r.discard(n)
	case h.Status != StatusOK:
		return r.refusal(h)
	case r.call.dst != nil:
		if n != r.call.total {
			return fmt.Errorf("%s reply of %d B to a request for %d: %w", h.Op, n, r.call.total, ErrProtocol)
		}
		return r.scatter(r.call.dst, n)
	case n == 0:
		r.finish(func(call *Call) { call.replied = true })
		return nil
	}
	// n is at most MaxPayload.
	p := make([]byte, n)
	if err := r.fill(p); err != nil || r.call == nil {
		return err
	}
	r.finish(func(call *Call) { call.payload, call.replied = p, true })
	return nil
}

// header reads the next reply's header.
func (r *receiver) header() (Header, error) {
	for {
		b, err := r.br.Peek(HeaderLen)
		switch {
		case err == nil:
			h, err := ParseHeader(b)
			if err != nil {
				return Header{}, err
			}
			_, err = r.br.Discard(HeaderLen)
			return h, err
		case r.interrupted(err):
		case len(b) > 0 && errors.Is(err, io.EOF):
			return Header{}, fmt.Errorf("%d B of a reply header: %w", len(b), ErrShortFrame)
		case errors.Is(err, io.EOF):
			return Header{}, fmt.Errorf("node closed the connection: %w", err)
		default:
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

// finish gives the call, if there still is one, back to its owner with the outcome that set notes under mu.
func (r *receiver) finish(set func(*Call)) {
	if r.call == nil {
		return
	}
	r.c.mu.Lock()
	set(r.call)
	r.call.receiving = false
	r.call.settle()
	r.c.mu.Unlock()
	r.call = nil
}

// scatter reads a payload of n bytes into dst, which is its owner's again, slices
// and all, once the call was given up.
func (r *receiver) scatter(dst [][]byte, n int) error {
	for i := range dst {
		if r.call == nil {
			return r.discard(n)
		}
		size := len(dst[i])
		if err := r.fill(dst[i]); err != nil {
			return err
		}
		n -= size
	}
	r.finish(func(call *Call) { call.replied = true })
	return nil
}

// refusal reads the payload of a reply with a status.
func (r *receiver) refusal(h Header) error {
	n := int(h.Length)
	if n > maxErrReply {
		return fmt.Errorf("%s refusal of %d B, at most %d: %w", h.Op, n, maxErrReply, ErrFrameTooLong)
	}
	if err := r.fill(r.scratch[:n]); err != nil || r.call == nil {
		return err
	}
	e, err := ParseError(h.Status, r.scratch[:n])
	if err != nil {
		return err
	}
	r.finish(func(call *Call) { call.err, call.replied = e, true })
	return nil
}

// fill takes len(p) payload bytes off the connection, into p for as long as the call is not given up: then r.call is nil, p is not
// touched again, and the rest is dropped.
func (r *receiver) fill(p []byte) error {
	for len(p) > 0 {
		n, err := r.br.Read(p)
		p = p[n:]
		if err != nil && !r.interrupted(err) {
			return payloadError(err)
		}
		if r.call == nil {
			return r.discard(len(p))
		}
	}
	return nil
}

// discard drops n payload bytes.
func (r *receiver) discard(n int) error {
	for n > 0 {
		m, err := r.br.Discard(n)
		n -= m
		if err != nil && !r.interrupted(err) {
			return payloadError(err)
		}
	}
	return nil
}

func payloadError(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("node closed in the middle of a reply: %w", ErrShortFrame)
	}
	return err
}

// interrupted reports whether err only says that somebody wants its call back, and if it is the one being received, lets go of it.
func (r *receiver) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return false
	}
	_ = c.conn.SetReadDeadline(time.Time{}) // fails only when closed, which the next read will say
	if r.call != nil && r.call.abandoned {
		r.call.receiving = false
		r.call.settle()
		r.call = nil
	}
	return true
}
