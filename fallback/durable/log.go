package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Info describes a shard.
type Info struct {
	Incarnation uint64 // random, drawn when the shard was created
	First       uint64 // first kept position
	Length      uint64 // bytes [First, Length) are readable
	Sealed      bool   // Length is final
}

// Stats counts what a Log did.
type Stats struct {
	Appends uint64 // acknowledged
	Bytes   uint64 // acknowledged
	Groups  uint64 // writes that served them
	Flushes uint64 // fdatasync of segments: one a group with Always
	Rolls   uint64 // segments begun
}

// Log is a shard open for append. Any number of goroutines may use it.
type Log struct {
	shard   string
	o       *Options
	release func(*Log)
	lock    io.Closer

	incarnation uint64
	length      atomic.Uint64
	first       atomic.Uint64
	sealed      atomic.Bool
	count       struct{ appends, bytes, groups, flushes, rolls atomic.Uint64 }

	mu struct {
		sync.Mutex
		next  *group        // collects appends while the one before is written
		tail  uint64        // end of all that is queued
		err   error         // why no more appends are taken
		room  chan struct{} // closed when next is empty again; nil when nobody waits
		close bool          // Close was called
	}
	spare   *group // goes round with mu.next; the writing goroutine's
	waiters sync.Pool

	wake   chan struct{} // capacity 1: mu.next has something
	orders chan order
	ended  chan struct{} // closed when the writing goroutine is gone
}

// group is what one write and one flush serve.
type group struct {
	buf     []byte
	waiters []*waiter
}

// waiter is one Append that waits.
type waiter struct {
	n    int
	end  uint64 // end and err are written before done is sent
	err  error
	done chan struct{} // capacity 1: nobody may be there any more
}

func newLog(shard string, o *Options, w *writer, lock io.Closer, release func(*Log)) *Log {
	l := &Log{
		shard:       shard,
		o:           o,
		release:     release,
		lock:        lock,
		incarnation: w.mark.last.incarnation,
		spare:       new(group),
		wake:        make(chan struct{}, 1),
		orders:      make(chan order),
		ended:       make(chan struct{}),
	}
	l.waiters.New = func() any { return &waiter{done: make(chan struct{}, 1)} }
	l.mu.next, l.mu.tail = new(group), w.length
	if w.mark.last.has(flagSealed) {
		l.sealed.Store(true)
		l.mu.err = sealedError(shard, w.length)
	}
	l.first.Store(w.first())
	l.length.Store(w.length)
	w.start()
	go l.write(w)
	return l
}

// Append adds p, of at most MaxAppend bytes, and returns the position behind it.
// off must be the end of the shard, appends under way included; NoOffset means:
// wherever the end is. Append returns when p is readable, and flushed when the
// policy is Always. p is copied before Append waits, and is the caller's again
// however Append ends. An empty p only checks off. When Append waits for room in
// the queue and ctx ends, nothing was appended; later, the error matches both
// ErrUnknownOutcome and ctx's.
//
// Errors: wire.ErrOffset (Arg0 is the end), wire.ErrTooLarge, wire.ErrFull and
// wire.ErrReadOnly (nothing was appended; all appends that waited fail alike, as
// their offsets are void), ErrSealed, ErrFailed (an append that waited when the
// log failed may or may not be there after it is opened again), wire.ErrClosing
// when the log is closed.
func (l *Log) Append(ctx context.Context, off uint64, p []byte) (end uint64, err error) {
	if len(p) > MaxAppend {
		return 0, tooLarge(l.shard, len(p))
	}
	w, end, err := l.enqueue(ctx, off, p)
	if w == nil || err != nil {
		return end, err
	}
	return l.await(ctx, w, end)
}

// await waits for an append that is queued to end at end.
func (l *Log) await(ctx context.Context, w *waiter, end uint64) (uint64, error) {
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done:
		default: // w goes to the garbage collector: the writing goroutine still holds it
			return 0, &unknownOutcome{l.shard, end - uint64(w.n), w.n, ctx.Err()}
		}
	}
	end, err := w.end, w.err
	w.err = nil
	l.waiters.Put(w)
	return end, err
}

// enqueue copies p into the next group, when off is right and once there is room.
// end is what the append ends at if it succeeds.
func (l *Log) enqueue(ctx context.Context, off uint64, p []byte) (w *waiter, end uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("append to %s: %w", l.shard, err)
	}
	for {
		l.mu.Lock()
		tail := l.mu.tail
		switch {
		case l.mu.err != nil:
			err = l.mu.err
		case off != NoOffset && off != tail:
			err = &wire.Error{Status: wire.StatusOffset, Arg0: tail, Arg1: off, Message: fmt.Sprintf("append to %s at %d", l.shard, off)}
		case tail+uint64(len(p)) >= 1<<63: // file offsets end there
			err = &wire.Error{Status: wire.StatusTooLarge, Arg0: 1 << 63, Message: l.shard + " is at its last position"}
		case len(p) == 0:
			end = tail
		default:
			var room chan struct{}
			if w, room = l.add(p); w == nil {
				l.mu.Unlock()
				select {
				case <-room:
					continue
				case <-ctx.Done():
					return nil, 0, fmt.Errorf("append to %s: queue of %d bytes is full: %w", l.shard, l.o.QueueBytes, ctx.Err())
				}
			}
			end = l.mu.tail
		}
		l.mu.Unlock()
		return w, end, err
	}
}

// add queues p, or returns a channel that is closed when it is worth trying
// again. The caller holds mu.
func (l *Log) add(p []byte) (*waiter, chan struct{}) {
	g := l.mu.next
	if len(g.buf) > 0 && len(g.buf)+len(p) > l.o.QueueBytes {
		if l.mu.room == nil {
			l.mu.room = make(chan struct{})
		}
		return nil, l.mu.room
	}
	w := l.waiters.Get().(*waiter)
	w.n = len(p)
	g.buf = append(g.buf, p...)
	g.waiters = append(g.waiters, w)
	l.mu.tail += uint64(len(p))
	return w, nil
}

// Info returns what is known without a look at the disk: First is as of the last
// roll-over or Dir.Retain. Length counts readable bytes only, as other processes see them.
func (l *Log) Info() Info {
	return Info{Incarnation: l.incarnation, First: l.first.Load(), Length: l.length.Load(), Sealed: l.sealed.Load()}
}

// Stats returns what the log did since it was opened.
func (l *Log) Stats() Stats {
	c := &l.count
	return Stats{c.appends.Load(), c.bytes.Load(), c.groups.Load(), c.flushes.Load(), c.rolls.Load()}
}

// Flush returns when everything readable is flushed. With policy Always it has
// nothing to do. When ctx ends first, the flush goes on.
func (l *Log) Flush(ctx context.Context) error { return l.order(ctx, flushOrder) }

// Seal ends the shard: it flushes what is queued, and refuses appends from then
// on, for good. Sealing twice is fine.
func (l *Log) Seal() error {
	l.mu.Lock()
	if l.mu.err == nil {
		l.mu.err = sealedError(l.shard, l.mu.tail)
	}
	err := l.mu.err
	l.mu.Unlock()
	if !errors.Is(err, ErrSealed) {
		return err
	}
	return l.order(context.Background(), sealOrder)
}

// Close appends what is queued, flushes it, and lets go of the shard. It returns
// the error that had made the log fail, if any. Closing twice is fine.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.mu.close
	l.mu.close = true
	if l.mu.err == nil || errors.Is(l.mu.err, ErrSealed) {
		l.mu.err = fmt.Errorf("%w: log of %s is closed", wire.ErrClosing, l.shard)
	}
	l.mu.Unlock()
	if closed {
		<-l.ended
		return nil
	}
	return l.order(context.Background(), closeOrder)
}
