package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	firstGrowth = 64 << 10 // a large payload's memory grows with what has really come, from here
	idleFrames  = 256      // so many small frames in a row give the memory of a large one back
)

// FrameReader reads the requests of one connection, for a server. One goroutine at a time.
//
// Payloads that fit the bufio.Reader's buffer are lent from it without a copy; longer ones are gathered in a buffer of the
// FrameReader that grows only as bytes arrive, up to the longest payload the operation allows, and is kept for the next one.
type FrameReader struct {
	br      *bufio.Reader
	buf     []byte
	small   int  // frames in a row that did not need buf
	skip    int  // bytes of the lent frame, still in br
	greeted bool // the Hello has come
}

// NewFrameReader reads requests from br, whose buffer must hold a header and a Hello (bufio's default of 4 KiB is enough;
// 64 KiB lets most requests through without a copy).
func NewFrameReader(br *bufio.Reader) *FrameReader { return &FrameReader{br: br} }

// Next returns the next request. The payload is a part of a reused buffer and dies at the next call. io.EOF means that the
// peer closed at a frame border. Every other error ends the connection: ErrShortFrame, ErrHeaderCRC, ErrHeaderFlags,
// ErrFrameTooLong, ErrNotHello, ErrBadRequest (a status in a request), or what the connection said (its read deadline, for
// instance; bytes already read are then lost).
func (r *FrameReader) Next() (Header, []byte, error) {
	if _, err := r.br.Discard(r.skip); err != nil {
		return Header{}, nil, err
	}
	r.skip = 0
	b, err := r.br.Peek(HeaderLen)
	if err != nil {
		if len(b) > 0 && errors.Is(err, io.EOF) {
			return Header{}, nil, fmt.Errorf("%d B of a frame header: %w", len(b), ErrShortFrame)
		}
		return Header{}, nil, err
	}
	h, err := r.header(b)
	if err != nil {
		return Header{}, nil, err
	}
	r.greeted = true
	n := int(h.Length)
	if HeaderLen+n <= r.br.Size() {
		b, err := r.br.Peek(HeaderLen + n)
		if err != nil {
			return Header{}, nil, cutShort(err, len(b)-HeaderLen, h)
		}
		r.skip = HeaderLen + n
		if r.small++; r.small >= idleFrames {
			r.buf = nil
		}
		return h, b[HeaderLen : HeaderLen+n : HeaderLen+n], nil
	}
	r.small = 0
	p, err := r.gather(h)
	return h, p, err
}

// header checks what is particular to a request.
func (r *FrameReader) header(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Header{}, err
	}
	if !r.greeted && h.Op != OpHello {
		return Header{}, fmt.Errorf("%s: %w", h.Op, ErrNotHello)
	}
	if most := h.Op.maxRequest(); int(h.Length) > most {
		return Header{}, fmt.Errorf("%s request of %d B, at most %d: %w", h.Op, h.Length, most, ErrFrameTooLong)
	}
	if h.Status != StatusOK {
		return Header{}, fmt.Errorf("%s request with status %d: %w", h.Op, uint8(h.Status), ErrBadRequest)
	}
	return h, nil
}

// gather reads a payload that does not fit br's buffer.
func (r *FrameReader) gather(h Header) ([]byte, error) {
	if _, err := r.br.Discard(HeaderLen); err != nil {
		return nil, err
	}
	n := int(h.Length)
	for got := 0; got < n; {
		if cap(r.buf) <= got {
			grown := make([]byte, min(n, max(firstGrowth, 2*got)))
			copy(grown, r.buf[:got])
			r.buf = grown
		}
		r.buf = r.buf[:min(n, cap(r.buf))]
		m, err := io.ReadFull(r.br, r.buf[got:])
		got += m
		if err != nil {
			return nil, cutShort(err, got, h)
		}
	}
	return r.buf[:n:n], nil
}

// cutShort names an end of stream inside a payload of which got bytes came.
func cutShort(err error, got int, h Header) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%d of %d B of a %s payload: %w", max(got, 0), h.Length, h.Op, ErrShortFrame)
	}
	return err
}

// Ready reports whether the next request is buffered whole, so that Next will not wait for the peer. A server answers all
// that is ready, then writes its replies at once. A frame that Next will refuse counts as ready.
func (r *FrameReader) Ready() bool {
	n := r.br.Buffered() - r.skip
	if n < HeaderLen {
		return false
	}
	b, err := r.br.Peek(r.skip + HeaderLen)
	if err != nil {
		return false
	}
	h, err := r.header(b[r.skip:])
	return err != nil || n >= HeaderLen+int(h.Length)
}
