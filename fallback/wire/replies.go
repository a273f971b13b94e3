package wire

import (
	"io"
	"net"
)

// AppendReply appends the header of a good reply to request req, whose payload of n bytes (at most MaxPayload) is to follow.
// With it a server answers a ReadArena as net.Buffers{header, arena slices...}: no copy.
func AppendReply(dst []byte, req Header, n int) []byte {
	return AppendHeader(dst, Header{Length: uint32(n), Op: req.Op, ID: req.ID})
}

// AppendError appends a whole reply frame that refuses request req with err (see ErrorOf); the message is cut at MaxMessage.
func AppendError(dst []byte, req Header, err error) []byte {
	e := ErrorOf(err)
	if e == nil || e.Status == StatusOK {
		e = &Error{Status: StatusInternal, Message: "refusal without an error"}
	}
	n := errFixed + len(cut(e.Message, MaxMessage))
	dst = AppendHeader(dst, Header{Length: uint32(n), Op: req.Op, Status: e.Status, ID: req.ID})
	return e.appendPayload(dst)
}

// WriteError writes a reply that refuses request req with err.
func WriteError(w io.Writer, req Header, err error) error {
	_, werr := w.Write(AppendError(nil, req, err))
	return werr
}

// Replies gathers replies and writes them in one vectored write: headers and small payloads in a buffer of its own, large
// payloads by reference. After it has grown to what a connection needs, it allocates no more. One goroutine at a time.
type Replies struct {
	g   gather
	out net.Buffers // what Flush consumes; a field, because a local would escape
}

// Header begins a good reply of n payload bytes, which Bytes and Copy calls must then add up to.
func (r *Replies) Header(req Header, n int) {
	r.g.buf = AppendReply(r.g.buf, req, n)
	r.g.size += HeaderLen
}

// Bytes adds payload by reference: p must stay until Flush or Reset. (Arena bytes may change meanwhile: whoever reads them
// verifies them.)
func (r *Replies) Bytes(p []byte) { r.g.borrow(p) }

// Copy adds payload by value.
func (r *Replies) Copy(p []byte) {
	r.g.buf = append(r.g.buf, p...)
	r.g.size += len(p)
}

// Zeros adds n zero bytes of payload.
func (r *Replies) Zeros(n int) {
	r.g.buf = append(r.g.buf, make([]byte, n)...)
	r.g.size += n
}

// Reply adds a whole good reply whose payload is copied.
func (r *Replies) Reply(req Header, payload []byte) {
	r.Header(req, len(payload))
	r.Copy(payload)
}

// Error adds a whole refusal.
func (r *Replies) Error(req Header, err error) {
	n := len(r.g.buf)
	r.g.buf = AppendError(r.g.buf, req, err)
	r.g.size += len(r.g.buf) - n
}

// Size is how many bytes Flush would write. A server flushes when nothing more is Ready, or when this exceeds its bound.
func (r *Replies) Size() int { return r.g.size }

// Flush writes everything (writev on TCP and Unix sockets) and forgets it. After an error the stream is out of step: close
// the connection.
func (r *Replies) Flush(w io.Writer) error {
	if r.g.size == 0 {
		return nil
	}
	if r.out == nil {
		r.g.seal()
		r.out = r.g.vec
	}
	_, err := r.out.WriteTo(w)
	r.Reset()
	return err
}

// Begin has write take the first bytes of what Flush would write, as many as it will without waiting, and reports whether that
// was everything; then it is forgotten. Else Flush writes the rest. Nothing may be added in between, and Begin comes first.
func (r *Replies) Begin(write func(vec [][]byte) (n int)) (whole bool) {
	r.g.seal()
	n := write(r.g.vec)
	if n == r.g.size {
		r.Reset()
		return true
	}
	r.out = r.g.vec
	for n > 0 && n >= len(r.out[0]) {
		n -= len(r.out[0])
		r.out = r.out[1:]
	}
	if n > 0 {
		r.out[0] = r.out[0][n:]
	}
	return false
}

// Reset forgets everything that was not flushed.
func (r *Replies) Reset() {
	r.out = nil
	r.g.reset()
}
