package main

import (
	"errors"
	"fmt"
)

var (
	// errForeign is returned when an input whose bytes have fixed positions (one
	// that can be resumed) finds another writer's bytes there.
	errForeign = errors.New("another writer has appended to this shard")
	// errOrder is returned when another writer's append came between two of ours
	// that were on their way at once, and the later one was taken.
	errOrder = errors.New("another writer's append has mixed up the order of ours")
	// errTakenBack is returned when a shard has become shorter than what was
	// acknowledged: its node's host failed before it had flushed.
	errTakenBack = errors.New("the shard lost acknowledged bytes")
)

// window is the batches that are not known to be durable, oldest first, with the
// offsets at which they have to lie: each where the one before it ends. It
// decides what is sent, what a failure means, and where to go on. It has no
// clock, no network and no lock.
//
// Since an append at an offset is carried out only when the shard is exactly so
// long, repeating one is safe, and of those on their way at once a prefix is
// carried out, unless another writer comes between.
type window struct {
	// fixed: the input's bytes have fixed positions. The bytes of the shard at a
	// batch's offset are then always compared with it: an earlier process may
	// have appended them.
	fixed bool
	limit int // bytes held; one batch always fits

	entries []*entry
	bytes   int
	sent    int    // the first so many were sent
	flying  int    // of them not answered
	next    uint64 // where the next batch has to lie
	depth   int    // how many may be flying
	calm    int    // appends since depth has changed
	alone   bool   // there is another writer: one at a time, so that order holds
	failure error  // of the first that failed; nothing is sent until resolved
}

// entry is one batch of the window.
type entry struct {
	b   *batch
	off uint64
	// doubt: a request of unknown outcome may have put it at off.
	doubt bool
	taken bool // acknowledged, but one before it is not
}

const (
	maxFlying  = 32 // the node takes 64 of a connection
	maxEntries = 2 * maxFlying
	firstDepth = 4
	calmAfter  = 16 // appends until a depth that was lowered is raised by one
)

func newWindow(next uint64, limit int, fixed bool) *window {
	return &window{fixed: fixed, limit: limit, next: next, depth: firstDepth}
}

// room says whether a batch may be pushed.
func (w *window) room() bool {
	return len(w.entries) == 0 || w.bytes < w.limit && len(w.entries) < maxEntries
}

func (w *window) push(b *batch) {
	w.entries = append(w.entries, &entry{b: b, off: w.next})
	w.next += uint64(len(b.data))
	w.bytes += len(b.data)
}

// send returns the next batch to send, nil if none is to be sent now.
func (w *window) send() *entry {
	if w.failure != nil || w.sent == len(w.entries) || w.flying >= w.depth {
		return nil
	}
	e := w.entries[w.sent]
	w.sent++
	w.flying++
	return e
}

// answer takes what became of e, in the order of sending. It returns the batch
// if that is durable now, and everything before it.
func (w *window) answer(e *entry, err error, unknown bool) *batch {
	w.flying--
	switch {
	case err != nil:
		e.doubt = e.doubt || unknown
		if w.failure == nil {
			w.failure = err
		}
		return nil
	case w.failure != nil:
		e.taken = true
		return nil
	}
	w.calm++
	if !w.alone && w.depth < maxFlying && w.calm >= calmAfter {
		w.depth, w.calm = w.depth+1, 0
	}
	return w.pop()
}

func (w *window) pop() *batch {
	e := w.entries[0]
	w.entries[0] = nil
	w.entries = w.entries[1:]
	w.bytes -= len(e.b.data)
	w.sent = max(w.sent-1, 0)
	return e.b
}

// resolve finds out what is durable, when nothing is flying any more, given the
// shard's length and what reads it. Batches that are go to done, the others are
// to be sent again, from where they have to lie now.
func (w *window) resolve(length uint64, read func(pos uint64, p []byte) error, done func(b *batch, pos uint64)) error {
	w.sent = 0
	w.depth, w.calm = max(w.depth/2, 1), 0
	for len(w.entries) > 0 {
		e := w.entries[0]
		n := uint64(len(e.b.data))
		switch {
		case e.taken, length > e.off && (w.fixed || e.doubt):
			ours, err := w.compare(e, length, read)
			if err != nil {
				return err
			}
			if ours == n {
				done(w.pop(), e.off)
				continue
			}
			if ours > 0 { // another process cut elsewhere, or the node's host failed in the middle
				done(e.b.part(int(ours)), e.off)
				e.off += ours
				w.bytes -= int(ours)
			}
			if e.off == length {
				w.failure = nil
				return nil
			}
			return w.yield(length, read)
		case length > e.off:
			return w.yield(length, read)
		case length < e.off:
			if w.fixed {
				return fmt.Errorf("%w: it ends at %d, %d were acknowledged; with --resume the next run goes on there", errTakenBack, length, e.off)
			}
			w.failure = nil
			lost := e.off - length
			w.place(length)
			return &takenBack{lost}
		}
		w.failure = nil
		return nil
	}
	w.failure = nil
	return nil
}

// takenBack tells that so many acknowledged bytes are gone, and that the window
// goes on without them.
type takenBack struct{ bytes uint64 }

func (e *takenBack) Error() string { return fmt.Sprintf("%v: %d bytes", errTakenBack, e.bytes) }
func (e *takenBack) Unwrap() error { return errTakenBack }

// compare returns how many bytes of e, from its start, lie where they have to.
// They count only if they go up to the end of e or of the shard.
func (w *window) compare(e *entry, length uint64, read func(pos uint64, p []byte) error) (uint64, error) {
	if e.taken {
		return uint64(len(e.b.data)), nil
	}
	n := min(uint64(len(e.b.data)), length-e.off)
	have := make([]byte, n)
	if err := read(e.off, have); err != nil {
		return 0, err
	}
	if string(have) != string(e.b.data[:n]) {
		return 0, nil
	}
	return n, nil
}

// yield goes on behind another writer's bytes. From now on one batch at a time
// is sent.
func (w *window) yield(length uint64, read func(pos uint64, p []byte) error) error {
	if w.fixed {
		return fmt.Errorf("%w: at %d, where this input has to go on", errForeign, w.entries[0].off)
	}
	for i, e := range w.entries {
		end := e.off + uint64(len(e.b.data))
		if i == 0 || end > length || !e.taken && !e.doubt {
			continue
		}
		ours, err := w.compare(e, length, read)
		if err != nil {
			return err
		}
		if ours > 0 {
			return fmt.Errorf("%w: its bytes lie at %d, before ours at %d; append to a shard from several places with --in-flight 1B", errOrder, w.entries[0].off, e.off)
		}
	}
	w.alone, w.depth, w.failure = true, 1, nil
	w.place(length)
	return nil
}

// place makes the window begin at pos.
func (w *window) place(pos uint64) {
	for _, e := range w.entries {
		e.off, e.doubt, e.taken = pos, false, false
		pos += uint64(len(e.b.data))
	}
	w.next = pos
}
