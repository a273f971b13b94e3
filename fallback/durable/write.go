package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// order asks the writing goroutine for something else than appends.
type order struct {
	kind int
	done chan error // capacity 1
}

const (
	flushOrder = iota
	sealOrder
	closeOrder
)

func (l *Log) order(ctx context.Context, kind int) error {
	o := order{kind, make(chan error, 1)}
	select {
	case l.orders <- o:
	case <-l.ended:
		return fmt.Errorf("%w: log of %s is closed", wire.ErrClosing, l.shard)
	case <-ctx.Done():
		return fmt.Errorf("flush of %s: %w", l.shard, ctx.Err())
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("flush of %s: %w", l.shard, ctx.Err())
	}
}

// write is the goroutine that owns w. It ends with Close.
func (l *Log) write(w *writer) {
	defer close(l.ended)
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	var due time.Time // of the flush that policy Interval owes; zero: none
	for {
		var o order
		select {
		case <-l.wake:
		case <-timer.C:
		case o = <-l.orders:
		}
		for g := l.take(); g != nil; g = l.take() {
			l.process(w, g)
			due = l.flushDue(w, due, timer)
		}
		due = l.flushDue(w, due, timer)
		if o.done != nil {
			o.done <- l.obey(w, o.kind)
			if o.kind == closeOrder {
				return
			}
		}
	}
}

// take swaps the two groups and lets appends in again.
func (l *Log) take() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.mu.next
	if len(g.waiters) == 0 {
		return nil
	}
	l.mu.next, l.spare = l.spare, nil
	l.makeRoom()
	return g
}

// makeRoom wakes who waits for room. The caller holds mu.
func (l *Log) makeRoom() {
	if l.mu.room != nil {
		close(l.mu.room)
		l.mu.room = nil
	}
}

// process writes a group, in as many parts as it takes segments.
func (l *Log) process(w *writer, g *group) {
	buf, ws := g.buf, g.waiters
	for len(ws) > 0 {
		n, k, err := l.part(w, ws)
		if err == nil {
			err = w.commit(buf[:n])
		}
		if err != nil {
			l.failAll(w, ws, err)
			break
		}
		l.count.groups.Add(1)
		l.count.bytes.Add(uint64(n))
		l.count.appends.Add(uint64(k))
		l.count.flushes.Store(w.flushes)
		end := w.length - uint64(n)
		l.length.Store(w.length)
		for _, x := range ws[:k] {
			end += uint64(x.n)
			x.end = end
			x.done <- struct{}{}
		}
		buf, ws = buf[n:], ws[k:]
	}
	clear(g.waiters)
	g.waiters = g.waiters[:0]
	if cap(g.buf) > maxIdle && len(g.buf) < cap(g.buf)/8 {
		g.buf = nil
	}
	g.buf = g.buf[:0]
	l.spare = g
}

// maxIdle is the buffer that a log keeps however little it is used.
const maxIdle = 256 << 10

// part returns how many of the waiters, at least one, go into the active segment,
// and their bytes; it rolls over first if need be.
func (l *Log) part(w *writer, ws []*waiter) (n, k int, err error) {
	if w.failed != nil {
		return 0, 0, w.failed
	}
	rolled, err := w.prepare(ws[0].n, l.o)
	if err != nil {
		return 0, 0, err
	}
	if rolled {
		l.first.Store(w.first())
		l.count.rolls.Add(1)
		l.o.Logger.Debug("new segment", "shard", l.shard, "position", w.length)
	}
	room := w.room(l.o)
	n, k = ws[0].n, 1
	for k < len(ws) && int64(n+ws[k].n) <= room {
		n, k = n+ws[k].n, k+1
	}
	return n, k, nil
}

// failAll fails ws and everything queued behind: its offsets are void.
func (l *Log) failAll(w *writer, ws []*waiter, err error) {
	if errors.As(err, new(fatal)) && w.failed == nil {
		err = l.fail(w, err)
	}
	l.mu.Lock()
	behind := l.mu.next
	ws = append(ws[:len(ws):len(ws)], behind.waiters...)
	clear(behind.waiters)
	behind.waiters, behind.buf = behind.waiters[:0], behind.buf[:0]
	l.mu.tail = w.length
	l.makeRoom()
	l.mu.Unlock()
	for _, x := range ws {
		x.end, x.err = 0, err
		x.done <- struct{}{}
	}
}

// fail ends the log's usefulness.
func (l *Log) fail(w *writer, err error) error {
	err = &failedError{l.shard, err}
	w.fail(err)
	l.mu.Lock()
	if !l.mu.close {
		l.mu.err = err
	}
	l.mu.Unlock()
	l.o.Logger.Error("log failed", "shard", l.shard, "error", err)
	return err
}

// flushDue does the flush that policy Interval owes, when it is time, and sets
// the timer for it otherwise. It returns when the flush is due; zero: none is.
func (l *Log) flushDue(w *writer, due time.Time, timer *time.Timer) time.Time {
	switch {
	case l.o.Policy != Interval || w.failed != nil || w.synced == w.length:
		return time.Time{}
	case due.IsZero():
		due = time.Now().Add(l.o.Interval)
	}
	if left := time.Until(due); left > 0 {
		timer.Reset(left)
		return due
	}
	_ = l.flush(w) // kept in w.failed, for the next append and for Close
	return time.Time{}
}

func (l *Log) flush(w *writer) error {
	if w.failed != nil {
		return w.failed
	}
	if w.synced == w.length {
		return nil
	}
	err := w.flush()
	l.count.flushes.Store(w.flushes)
	if err != nil {
		return l.fail(w, err)
	}
	return nil
}

func (l *Log) obey(w *writer, kind int) error {
	err := l.flush(w)
	switch kind {
	case sealOrder:
		if err == nil {
			if err = w.settle(flagSealed); err != nil {
				return l.fail(w, err)
			}
			l.sealed.Store(true)
		}
	case closeOrder:
		if err == nil {
			err = w.settle(0)
		}
		err = errors.Join(err, w.closeFiles(), l.lock.Close())
		l.release(l)
	}
	return err
}
