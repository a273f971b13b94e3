package reader

import (
	"errors"
	"sync"
	"time"
)

// errBudget is returned when the bytes on their way over a device are as many as
// may be for too long.
var errBudget = errors.New("byte budget of the network device used up (Config.BytesInFlight)")

// nic is the byte budget of one network device: half of it for bytes that somebody
// waits for, half for those that are read ahead. The latter may have landed long
// before their Reader comes back to see it; they must not hold up the former.
type nic struct{ wanted, ahead budget }

func newNIC(limit int64) *nic {
	return &nic{wanted: budget{limit: limit - limit/2}, ahead: budget{limit: limit / 2}}
}

// spares pays for a flight beside one that is slow if there is something left, of either
// half: nobody waits for one while what he waits for is on its way. n
// may be nil.
func (n *nic) spares(f *flight, bytes int64) bool {
	if n == nil {
		return true
	}
	for _, b := range [...]*budget{&n.wanted, &n.ahead} {
		if b.try(bytes) {
			f.pay(b, bytes)
			return true
		}
	}
	return false
}

// budget bounds the bytes that are on their way at once. Who waits for some is served
// in order: none starves. Any number of goroutines may use it.
type budget struct {
	limit int64
	mu    struct {
		sync.Mutex
		used    int64
		waiting []*claim
	}
}

// claim is a wait for n bytes; ready is closed when it has them.
type claim struct {
	n     int64
	ready chan struct{}
}

// try takes n bytes if they are free and nobody waits. More than the limit are free
// when all are.
func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.waiting) == 0 && b.take(n)
}

// take takes n bytes if they are free. The lock is held.
func (b *budget) take(n int64) bool {
	if b.mu.used > 0 && b.mu.used+n > b.limit {
		return false
	}
	b.mu.used += n
	return true
}

// wait takes n bytes, waiting for them until a deadline or stop.
func (b *budget) wait(n int64, deadline time.Time, stop <-chan struct{}) bool {
	b.mu.Lock()
	if len(b.mu.waiting) == 0 && b.take(n) {
		b.mu.Unlock()
		return true
	}
	c := &claim{n, make(chan struct{})}
	b.mu.waiting = append(b.mu.waiting, c)
	b.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c.ready:
		return true
	case <-timer.C:
	case <-stop:
	}
	return b.leave(c)
}

// leave ends a wait; true if it has been served meanwhile.
func (b *budget) leave(c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.mu.waiting {
		if w == c {
			b.mu.waiting = append(b.mu.waiting[:i], b.mu.waiting[i+1:]...)
			b.serve() // those behind it may want less
			return false
		}
	}
	return true
}

// give gives n bytes back.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used -= n
	b.serve()
}

// serve serves those that wait, in order. The lock is held.
func (b *budget) serve() {
	n := 0
	for n < len(b.mu.waiting) && b.take(b.mu.waiting[n].n) {
		close(b.mu.waiting[n].ready)
		n++
	}
	b.mu.waiting = append(b.mu.waiting[:0], b.mu.waiting[n:]...)
}
