package server

import (
	"context"
	"slices"
	"sync"
)

// budget is a number of bytes that many share. Takers are served in the order
// in which they came, so that a large one is not starved by small ones.
type budget struct {
	mu struct {
		sync.Mutex
		free    int
		waiting []*taker
	}
}

type taker struct {
	n     int
	ready chan struct{}
}

func newBudget(n int) *budget {
	b := &budget{}
	b.mu.free = n
	return b
}

// tryTake takes n bytes if they are free and nobody waits.
func (b *budget) tryTake(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.waiting) > 0 || b.mu.free < n {
		return false
	}
	b.mu.free -= n
	return true
}

// take waits for n bytes, which must not exceed the whole budget.
func (b *budget) take(ctx context.Context, n int) error {
	if b.tryTake(n) {
		return nil
	}
	t := &taker{n: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.mu.waiting = append(b.mu.waiting, t)
	b.serve()
	b.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.mu.waiting, t); i >= 0 {
		b.mu.waiting = slices.Delete(b.mu.waiting, i, i+1)
	} else {
		b.mu.free += n // served in the moment of giving up
	}
	b.serve()
	return ctx.Err()
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.free += n
	b.serve()
}

// state is how much is taken, and how many wait for some.
func (b *budget) state(all int) (used, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return all - b.mu.free, len(b.mu.waiting)
}

// serve lets the first takers go on. The lock is held.
func (b *budget) serve() {
	for len(b.mu.waiting) > 0 && b.mu.waiting[0].n <= b.mu.free {
		t := b.mu.waiting[0]
		b.mu.waiting = slices.Delete(b.mu.waiting, 0, 1)
		b.mu.free -= t.n
		close(t.ready)
	}
}
