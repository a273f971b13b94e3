package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// batch is what one append carries, or a border.
type batch struct {
	data  []byte // until it is recycled
	input int    // bytes of input it stands for
	lines int
	buf   []byte // data's memory
	// border, if set, is called instead of appending anything, once all that came
	// before is durable, with the position where the next bytes will lie.
	border func(at uint64) error
}

// part takes the first n bytes out of b, as a batch without memory of its own.
func (b *batch) part(n int) *batch {
	p := &batch{data: b.data[:n], input: min(n, b.input), lines: bytes.Count(b.data[:n], []byte{'\n'})}
	b.data = b.data[n:]
	b.input -= p.input
	b.lines -= p.lines
	return p
}

// piece is what an input gives: bytes, or a border, at which an unfinished line
// gets its end.
type piece struct {
	data   []byte
	border func(at uint64) error
}

// cutting says how an input is cut into batches.
type cutting struct {
	limit   int           // bytes
	lines   int           // 0: any number
	linger  time.Duration // how long to wait for more
	partial time.Duration // after which an unfinished line is handed out; 0: never
	byLine  bool          // batches end at ends of lines
	addEnd  bool          // a last line without an end gets it
	flushed bool          // when interrupted, what is left is handed out all the same
}

// batches cuts an input into batches: as much as is there, at most limit bytes,
// waiting at most linger for more. When ctx ends, what was read so far is still
// handed out. One goroutine reads; it ends with the input, or with stop as soon
// as its Read returns. Batches are to be recycled, from any goroutine.
type batches struct {
	cutting
	pieces  chan piece
	free    chan []byte // for pieces
	bufs    chan []byte // for batches
	ctx     context.Context
	cancel  context.CancelFunc // of the feed
	over    chan struct{}      // closed when the goroutine has ended
	quit    chan struct{}
	readErr error // set before pieces is closed

	held    []byte // read, not handed out
	lead    int    // of held, searched for line ends
	border  func(at uint64) error
	inLine  bool // what was handed out last ends inside a line
	stale   bool // held has waited for its end for too long
	ended   bool // pieces is closed and drained
	failure error
	long    int // lines that no batch could hold
}

const (
	pieceBytes = 256 << 10
	settleTime = 50 * time.Millisecond
)

// feed fills buf with the next bytes of an input, or returns a border. With
// io.EOF it has ended. It returns soon after ctx is done, if it can.
type feed func(ctx context.Context, buf []byte) (n int, border func(at uint64) error, err error)

// reading is an io.Reader as a feed.
func reading(in io.Reader) feed {
	return func(_ context.Context, buf []byte) (int, func(at uint64) error, error) {
		n, err := in.Read(buf)
		return n, nil, err
	}
}

func newBatches(ctx context.Context, in feed, c cutting) *batches {
	b := &batches{cutting: c, pieces: make(chan piece, 3), free: make(chan []byte, 4), bufs: make(chan []byte, maxEntries), ctx: ctx,
		quit: make(chan struct{}), over: make(chan struct{})}
	for range cap(b.free) {
		b.free <- make([]byte, pieceBytes)
	}
	feeding, cancel := context.WithCancel(ctx)
	b.cancel = cancel
	go b.read(feeding, in)
	return b
}

func (b *batches) read(ctx context.Context, in feed) {
	defer close(b.over)
	defer close(b.pieces)
	for {
		var buf []byte
		select {
		case buf = <-b.free:
		case <-ctx.Done():
			return
		}
		n, border, err := in(ctx, buf[:pieceBytes])
		if n > 0 || border != nil {
			select {
			case b.pieces <- piece{buf[:n], border}:
			case <-b.quit:
				return
			}
		} else {
			b.free <- buf
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				b.readErr = err
			}
			return
		}
	}
}

// stop ends the goroutine, if need be after its Read: over tells.
func (b *batches) stop() {
	close(b.quit)
	b.cancel()
}

// err is why the input ended early: nil at its end.
func (b *batches) err() error { return b.failure }

// recycle takes the memory of a batch back.
func (b *batches) recycle(one *batch) {
	if one.buf == nil {
		return
	}
	select {
	case b.bufs <- one.buf[:0]:
	default:
	}
}

// all yields the batches until the input ends or ctx is done. By line, the
// beginning of a line is not yielded then.
func (b *batches) all() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for {
			due := b.fill()
			for n := b.cut(); n > 0 && (due || len(b.held) >= b.limit); n = b.cut() {
				if !b.hand(yield, n, n) {
					return
				}
			}
			if b.border != nil {
				if !b.cross(yield) {
					return
				}
				continue
			}
			if b.ended {
				b.last(yield)
				return
			}
		}
	}
}

// fill waits for input, then for more of it until there is a whole batch or the
// linger is over. due: what is held is handed out, however little it is.
func (b *batches) fill() (due bool) {
	if b.cut() == 0 && !b.take() {
		return true
	}
	timer := time.NewTimer(b.linger)
	defer timer.Stop()
	for len(b.held) < b.limit && b.border == nil {
		select {
		case p, ok := <-b.pieces:
			if !b.add(p, ok) {
				return true
			}
		case <-timer.C:
			return true
		case <-b.ctx.Done():
			b.interrupted()
			return true
		}
	}
	return b.border != nil
}

func (b *batches) take() bool {
	var waited <-chan time.Time
	if len(b.held) > 0 && b.partial > 0 {
		t := time.NewTimer(b.partial)
		defer t.Stop()
		waited = t.C
	}
	select {
	case p, ok := <-b.pieces:
		return b.add(p, ok)
	case <-waited:
		b.stale = true
		return false
	case <-b.ctx.Done():
		b.interrupted()
		return false
	}
}

func (b *batches) add(p piece, ok bool) bool {
	if !ok {
		b.ended = true
		if b.failure = b.readErr; b.failure == nil && b.ctx.Err() != nil {
			b.failure = errInterrupted
		}
		return false
	}
	b.held = append(b.held, p.data...)
	b.border = p.border
	b.free <- p.data[:pieceBytes]
	return true
}

// interrupted takes what the goroutine has read, or is about to hand over.
func (b *batches) interrupted() {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for !b.ended && b.border == nil {
		select {
		case p, ok := <-b.pieces:
			b.add(p, ok)
		case <-timer.C: // it waits in Read
			b.ended, b.failure = true, errInterrupted
		}
	}
}

// cut returns how many of the held bytes make the next batch, 0 when they are
// the beginning of a line that may still end within the limit, or nothing.
func (b *batches) cut() int {
	n := min(len(b.held), b.limit)
	if b.lines > 0 {
		if i := nthLine(b.held[:n], b.lines); i > 0 {
			return i
		}
	}
	if !b.byLine || n == 0 {
		return n
	}
	if i := bytes.LastIndexByte(b.held[b.lead:n], '\n'); i >= 0 {
		return b.lead + i + 1
	}
	if len(b.held) >= b.limit || b.stale {
		return n // a line that no batch can hold, or that does not end
	}
	b.lead = n
	return 0
}

// nthLine returns where the nth line of p ends, 0 if it has fewer.
func nthLine(p []byte, n int) (end int) {
	for ; n > 0; n-- {
		i := bytes.IndexByte(p[end:], '\n')
		if i < 0 {
			return 0
		}
		end += i + 1
	}
	return end
}

// hand yields the first n of the held bytes, which stand for input bytes of input.
func (b *batches) hand(yield func(*batch) bool, n, input int) bool {
	one := &batch{data: b.held[:n:n], input: input, lines: bytes.Count(b.held[:n], []byte{'\n'}), buf: b.held}
	cut := b.held[n-1] != '\n'
	if cut && !b.inLine && !b.stale && b.byLine {
		b.long++
	}
	b.inLine, b.stale = cut, false
	b.held = append(b.buffer(), b.held[n:]...)
	b.lead = 0
	return yield(one)
}

func (b *batches) buffer() []byte {
	select {
	case buf := <-b.bufs:
		return buf
	default:
		return nil
	}
}

// cross yields what is left before a border, then the border.
func (b *batches) cross(yield func(*batch) bool) bool {
	border := b.border
	b.border = nil
	return b.rest(yield) && yield(&batch{border: border})
}

// last yields what is left, unless the input ended early: then the beginning of
// a line is not.
func (b *batches) last(yield func(*batch) bool) {
	if !b.byLine || b.failure == nil || b.flushed && errors.Is(b.failure, errInterrupted) {
		b.rest(yield)
	}
}

// rest yields what is left. A line without an end may get it.
func (b *batches) rest(yield func(*batch) bool) bool {
	n := len(b.held)
	if b.byLine && b.addEnd && (n > 0 || b.inLine) {
		b.held = append(b.held, '\n')
	}
	if len(b.held) == 0 {
		return true
	}
	b.stale = true // if a line is cut here, its end is not there
	return b.hand(yield, len(b.held), n)
}
