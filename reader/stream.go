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
	if len(r.rest) == 0 {
		b, err := r.advance(context.Background())
		if err != nil {
			return 0, err
		}
		r.rest = b.Data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.pos.Store(r.tail.pos - uint64(len(r.rest)))
	return n, nil
}

// WriteTo writes the shard to w until its sealed end (nil), an error, or Close.
// The bytes go from the Reader's buffers to w without another copy.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if !r.enter() {
			return n, ErrClosed
		}
		data := r.rest
		if len(data) == 0 {
			var b Batch
			if b, err = r.advance(context.Background()); err == nil {
				data = b.Data
			}
		}
		r.rest = nil
		if err == nil {
			var m int
			m, err = w.Write(data)
			n += int64(m)
		}
		r.leave()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}
