package reader

import (
	"context"
	"errors"
	"io"
)

// Read makes the Reader an io.Reader: it copies what Next would lend, and waits
// for at least one byte without a deadline of its own (Close ends it). io.EOF is
// the end of a sealed shard.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !r.enter() {
		return 0, ErrClosed
	}
	defer r.leave()
	if len(r.rest.Data) == 0 {
		b, err := r.advance(context.Background())
		if err != nil {
			return 0, err
		}
		r.rest = b
	}
	n := copy(p, r.rest.Data)
	r.used(n)
	return n, nil
}

// WriteTo writes the shard to w until its sealed end (nil), an error, or Close.
// The bytes go from the Reader's buffers to w without another copy. What w did
// not take is delivered next.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		m, err := r.writeBatch(w)
		n += int64(m)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

func (r *Reader) writeBatch(w io.Writer) (n int, err error) {
	if !r.enter() {
		return 0, ErrClosed
	}
	defer r.leave()
	if len(r.rest.Data) == 0 {
		if r.rest, err = r.advance(context.Background()); err != nil {
			return 0, err
		}
	}
	r.pos.Store(r.rest.Position) // nothing of it is written yet
	size := len(r.rest.Data)
	r.trace.turn() // w is the consumer
	n, err = w.Write(r.rest.Data)
	r.trace.turn()
	n = min(max(n, 0), size)
	if r.used(n); n < size && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}
