package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// batch is what one append carries.
type batch struct {
	data  []byte // until the next one
	input int    // bytes of input it stands for
	lines int
}

// batches cuts an input into batches: as much as is there, at most limit bytes,
// waiting at most linger for more. When ctx ends, what was read so far is still
// handed out. One goroutine reads; it ends with the input, or with stop as soon
// as its Read returns.
type batches struct {
	pieces  chan []byte
	free    chan []byte
	limit   int
	linger  time.Duration
	byLine  bool
	ctx     context.Context
	quit    chan struct{}
	readErr error // set before pieces is closed

	held    []byte // read, not handed out
	inLine  bool   // what was handed out last ends inside a line
	ended   bool   // pieces is closed and drained
	failure error
}

const (
	pieceBytes = 64 << 10
	settleTime = 50 * time.Millisecond
)

func newBatches(ctx context.Context, in io.Reader, limit int, linger time.Duration, byLine bool) *batches {
	b := &batches{pieces: make(chan []byte, 4), free: make(chan []byte, 5), limit: limit, linger: linger, byLine: byLine,
		ctx: ctx, quit: make(chan struct{})}
	for range cap(b.free) {
		b.free <- make([]byte, pieceBytes)
	}
	go b.read(in)
	return b
}

func (b *batches) read(in io.Reader) {
	defer close(b.pieces)
	for {
		var buf []byte
		select {
		case buf = <-b.free:
		case <-b.ctx.Done():
			return
		}
		n, err := in.Read(buf[:pieceBytes])
		if n > 0 {
			select {
			case b.pieces <- buf[:n]:
			case <-b.quit:
				return
			}
		} else {
			b.free <- buf
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.readErr = err
			}
			return
		}
	}
}

// stop ends the goroutine, if need be after its Read.
func (b *batches) stop() { close(b.quit) }

// err is why the input ended early: nil at its end.
func (b *batches) err() error { return b.failure }

// all yields the batches until the input ends or ctx is done. By line, the
// beginning of a line is not yielded then.
func (b *batches) all() iter.Seq[batch] {
	return func(yield func(batch) bool) {
		for {
			b.fill()
			for len(b.held) >= b.limit || len(b.held) > 0 && b.cut() > 0 {
				if !b.hand(yield, b.cut()) {
					return
				}
			}
			if b.ended {
				b.last(yield)
				return
			}
		}
	}
}

// fill waits for input, then for more of it until the linger is over or there is
// a batch.
func (b *batches) fill() {
	if !b.take() {
		return
	}
	timer := time.NewTimer(b.linger)
	defer timer.Stop()
	for len(b.held) < b.limit {
		select {
		case p, ok := <-b.pieces:
			if !b.add(p, ok) {
				return
			}
		case <-timer.C:
			return
		case <-b.ctx.Done():
			b.interrupted()
			return
		}
	}
}

func (b *batches) take() bool {
	select {
	case p, ok := <-b.pieces:
		return b.add(p, ok)
	case <-b.ctx.Done():
		b.interrupted()
		return false
	}
}

func (b *batches) add(p []byte, ok bool) bool {
	if !ok {
		b.ended = true
		if b.failure = b.readErr; b.failure == nil && b.ctx.Err() != nil {
			b.failure = errInterrupted
		}
		return false
	}
	b.held = append(b.held, p...)
	b.free <- p[:pieceBytes]
	return true
}

// interrupted takes what the goroutine has read, or is about to hand over.
func (b *batches) interrupted() {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for !b.ended {
		select {
		case p, ok := <-b.pieces:
			b.add(p, ok)
		case <-timer.C: // it waits in Read
			b.ended, b.failure = true, errInterrupted
		}
	}
}

// cut returns how many of the held bytes make the next batch, 0 when they are
// the beginning of a line that may still end within the limit.
func (b *batches) cut() int {
	n := min(len(b.held), b.limit)
	if !b.byLine {
		return n
	}
	if i := bytes.LastIndexByte(b.held[:n], '\n'); i >= 0 {
		return i + 1
	}
	if len(b.held) >= b.limit {
		return n // a line that no batch can hold
	}
	return 0
}

func (b *batches) hand(yield func(batch) bool, n int) bool {
	b.inLine = b.held[n-1] != '\n'
	ok := yield(batch{data: b.held[:n], input: n, lines: bytes.Count(b.held[:n], []byte{'\n'})})
	b.held = b.held[:copy(b.held, b.held[n:])]
	return ok
}

// last yields what is left: a line without an end gets it, unless it was
// interrupted there.
func (b *batches) last(yield func(batch) bool) {
	n := len(b.held)
	if b.byLine {
		if b.failure != nil || n == 0 && !b.inLine {
			return
		}
		b.held = append(b.held, '\n')
	}
	if len(b.held) > 0 {
		yield(batch{data: b.held, input: n, lines: bytes.Count(b.held, []byte{'\n'})})
	}
}
