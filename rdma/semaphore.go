package rdma

import "sync/atomic"

// semaphore of one, which says who leads. Taking it when it is free and nobody
// waits, and giving it back, are one atomic operation each.
type semaphore struct {
	taken   atomic.Bool
	waiters atomic.Int32
	// free has a token when it was given back while somebody waited. Whoever receives
	// it tries, or passes it on. One without use does no harm.
	free chan struct{} // of capacity 1
}

func newSemaphore() semaphore { return semaphore{free: make(chan struct{}, 1)} }

// try takes the semaphore if it is free.
func (s *semaphore) try() bool { return s.taken.CompareAndSwap(false, true) }

// give gives it back.
func (s *semaphore) give() {
	s.taken.Store(false)
	if s.waiters.Load() > 0 {
		s.pass()
	}
}

// pass lets another waiter try.
func (s *semaphore) pass() {
	select {
	case s.free <- struct{}{}:
	default:
	}
}

// wait announces a waiter, which then has to try before it receives from free:
// what is given back after the announcement leaves a token.
func (s *semaphore) wait() { s.waiters.Add(1) }

// leave takes the announcement back.
func (s *semaphore) leave() { s.waiters.Add(-1) }

// take waits for the semaphore, or for stop, and reports whether it has it: not
// once stop is closed.
func (s *semaphore) take(stop <-chan struct{}) bool {
	s.wait()
	defer s.leave()
	for {
		select {
		case <-stop:
			return false
		default:
		}
		if s.try() {
			return true
		}
		select {
		case <-s.free:
		case <-stop:
		}
	}
}
