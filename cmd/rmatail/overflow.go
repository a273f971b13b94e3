package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errDropped is returned at the end by an append that had to drop lines.
var errDropped = errors.New("lines were dropped")

// overflow is what happens to input that comes faster than it can be appended.
type overflow int

const (
	// block makes whoever writes the input wait.
	block overflow = iota
	// dropNewest drops what does not fit into the queue.
	dropNewest
	// dropOldest drops what has waited the longest.
	dropOldest
)

func (o *overflow) UnmarshalText(text []byte) error {
	for i, name := range []string{"block", "drop-newest", "drop-oldest"} {
		if string(text) == name {
			*o = overflow(i)
			return nil
		}
	}
	return fmt.Errorf("%q, want block, drop-newest or drop-oldest", text)
}

// queue is a sink that never makes its sender wait: batches wait in it, up to a
// number of bytes, and are dropped beyond. Batches are dropped whole. One sender;
// its goroutine ends with close.
type queue struct {
	sink
	what    overflow
	limit   int
	dropped func(*batch)
	ended   chan struct{} // nil: not started
	mu      struct {
		sync.Mutex
		changed sync.Cond
		waiting []*batch
		bytes   int
		busy    bool // one is being handed to the sink
		closed  bool
		err     error // of the sink; final
	}
}

func newQueue(s sink, what overflow, limit int, dropped func(*batch)) *queue {
	q := &queue{sink: s, what: what, limit: limit, dropped: dropped}
	q.mu.changed.L = &q.mu
	return q
}

func (q *queue) start(from uint64, fixed bool) {
	q.sink.start(from, fixed)
	q.ended = make(chan struct{})
	go q.run()
}

func (q *queue) run() {
	defer close(q.ended)
	for b := q.next(nil); b != nil; {
		b = q.next(q.sink.send(b))
	}
}

// next waits for a batch, given what became of the one before. nil: end.
func (q *queue) next(err error) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil && q.mu.err == nil {
		q.mu.err = err
	}
	q.mu.busy = false
	q.mu.changed.Broadcast()
	for len(q.mu.waiting) == 0 && !q.mu.closed && q.mu.err == nil {
		q.mu.changed.Wait()
	}
	if q.mu.closed || q.mu.err != nil {
		return nil
	}
	q.mu.busy = true
	return q.pop()
}

func (q *queue) pop() *batch {
	b := q.mu.waiting[0]
	q.mu.waiting[0] = nil
	q.mu.waiting = q.mu.waiting[1:]
	q.mu.bytes -= len(b.data)
	return b
}

func (q *queue) send(b *batch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.err != nil {
		return q.mu.err
	}
	for len(q.mu.waiting) > 0 && q.mu.bytes+len(b.data) > q.limit {
		if q.what == dropNewest {
			q.dropped(b)
			return nil
		}
		q.dropped(q.pop())
	}
	q.mu.waiting = append(q.mu.waiting, b)
	q.mu.bytes += len(b.data)
	q.mu.changed.Broadcast()
	return nil
}

func (q *queue) flush() error {
	q.mu.Lock()
	for (len(q.mu.waiting) > 0 || q.mu.busy) && q.mu.err == nil {
		q.mu.changed.Wait()
	}
	err := q.mu.err
	q.mu.Unlock()
	if err != nil {
		return err
	}
	return q.sink.flush()
}

// close drops what was not flushed.
func (q *queue) close(ctx context.Context) error {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.changed.Broadcast()
	q.mu.Unlock()
	err := q.sink.close(ctx) // a send under way ends with it
	if q.ended != nil {
		<-q.ended
	}
	return err
}
