package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

const (
	// healthWait is how long an answer waits for a check, healthFresh how long its
	// result counts.
	healthWait  = 2 * time.Second
	healthFresh = time.Second
)

// health answers supervisors.
type health struct {
	s            *Server
	locks, store check
}

func newHealth(s *Server) *health {
	h := &health{s: s}
	h.locks = check{start: s.serving.start, run: func() error { s.Stats(); return nil }}
	h.store = check{start: s.serving.start, run: s.tryStore}
	return h
}

// alive is /healthz: whether a restart would help. The locks that requests need can be
// had.
func (h *health) alive(w http.ResponseWriter, r *http.Request) {
	if err := h.locks.wait(r.Context()); err != nil && !h.s.closing.Load() {
		say(w, http.StatusServiceUnavailable, "the node hangs: its state is not to be had: "+err.Error())
		return
	}
	say(w, http.StatusOK, "ok")
}

// ready is /readyz: whether clients get what they come for.
func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	if err := h.unready(r.Context()); err != nil {
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	say(w, http.StatusOK, "ok")
}

func (h *health) unready(ctx context.Context) error {
	switch {
	case h.s.closing.Load():
		return errors.New("shutting down")
	case !h.s.accepting.Load():
		return errors.New("clients are not accepted yet")
	}
	if err := h.locks.wait(ctx); err != nil {
		return fmt.Errorf("arena: %w", err)
	}
	var err error
	h.s.memories.each(func(m *memory) {
		header, headerErr := layout.ParseHeader(m.arena.Bytes()[:layout.HeaderSize])
		switch {
		case headerErr != nil:
			err = fmt.Errorf("arena: %w", headerErr)
		case header.Epoch != m.arena.Epoch():
			err = fmt.Errorf("arena: its header is of epoch %x, not %x", header.Epoch, m.arena.Epoch())
		}
	})
	if err != nil {
		return err
	}
	if h.s.store == nil {
		return nil
	}
	if err := h.store.wait(ctx); err != nil {
		return fmt.Errorf("durable store: %w", err)
	}
	return nil
}

// tryStore finds out whether the durable directory can still be written: whether it is
// there, on a disk that answers, is not full and not read-only.
func (s *Server) tryStore() error {
	if s.cfg.Durable.ReadOnly {
		_, err := s.store.List(s.life, "", 1)
		return err
	}
	path := filepath.Join(s.cfg.Dir, ".ready") // no stream has such a name
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}

// check runs something that may hang, once at a time, for all who wait for it.
type check struct {
	run   func() error
	start func(func()) bool
	mu    struct {
		sync.Mutex
		done  chan struct{} // of the run under way; nil: none is
		began time.Time
		at    time.Time // of the last result
		err   error
	}
}

// wait returns the result of a run that is not older than healthFresh, or that it has
// hung for healthWait.
func (c *check) wait(ctx context.Context) error {
	done, began, err := c.enter()
	if done == nil {
		return err
	}
	t := time.NewTimer(healthWait)
	defer t.Stop()
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return fmt.Errorf("no answer for %s", time.Since(began).Round(100*time.Millisecond))
	}
}

// enter returns the run to wait for, or, if done is nil, the result.
func (c *check) enter() (done chan struct{}, began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.done != nil {
		return c.mu.done, c.mu.began, nil
	}
	if !c.mu.at.IsZero() && time.Since(c.mu.at) < healthFresh {
		return nil, time.Time{}, c.mu.err
	}
	done = make(chan struct{})
	began = time.Now()
	if !c.start(func() { c.finish(c.run()) }) {
		return nil, time.Time{}, errClosing
	}
	c.mu.done, c.mu.began = done, began
	return done, began, nil
}

func (c *check) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.err, c.mu.at = err, time.Now()
	close(c.mu.done)
	c.mu.done = nil
}
