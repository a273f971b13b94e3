package server

import (
	"context"
	"sync"
)

// stopper owns goroutines: what it starts it also ends and waits for.
type stopper struct {
	// Context is done when the goroutines have to end.
	context.Context
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		stopped bool
		running int
	}
	idle chan struct{} // closed when stopped and none is running
}

func newStopper(parent context.Context) *stopper {
	s := &stopper{idle: make(chan struct{})}
	s.Context, s.cancel = context.WithCancel(parent)
	return s
}

// start runs f in a goroutine, unless the stopper was closed.
func (s *stopper) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return false
	}
	s.mu.running++
	go func() {
		defer s.ended()
		f()
	}()
	return true
}

func (s *stopper) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running--
	if s.mu.stopped && s.mu.running == 0 {
		close(s.idle)
	}
}

// close lets no further goroutine start. Those that run go on.
func (s *stopper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return
	}
	s.mu.stopped = true
	if s.mu.running == 0 {
		close(s.idle)
	}
}

// wait waits for all goroutines after close.
func (s *stopper) wait(ctx context.Context) error {
	select {
	case <-s.idle:
		return nil
	default:
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
