package rdma

import (
	"fmt"
	"os"
	"time"
)

// goal is what a leader leads for. Its methods are called with engine.mu held.
type goal uint8

const (
	untilSettled goal = iota // the slot's READs are settled
	untilGranted             // the slot has credits
	untilReaped              // no abandoned slot has READs outstanding
	untilDrained             // nothing is outstanding
)

func (e *engine) reached(g goal, s *slot) bool {
	switch g {
	case untilSettled:
		return s.state == settled
	case untilGranted:
		return s.state == admitted
	case untilReaped:
		return e.mu.abandoned == 0
	case untilDrained:
		return e.mu.outstanding == 0
	}
	return true
}

// tryLead takes the semaphore if nobody has it.
func (e *engine) tryLead() bool { return !e.dead.Load() && e.lead.try() } // on a lost connection only the janitor leads

func (e *engine) endLead() { e.lead.give() }

// serve polls for everybody until the goal is reached, the deadline has passed,
// or the connection is lost; once when it has passed before. The caller leads.
func (e *engine) serve(g goal, s *slot, deadline time.Time) {
	start := time.Now()
	spun, first := true, start.Before(deadline)
	for !e.dead.Load() {
		n, err := e.q.poll(e.wcs, e.spinBudget(first))
		if err != nil {
			e.fail(fmt.Errorf("%w: %w", ErrDevice, err))
			return
		}
		if n == 0 && !start.Before(deadline) {
			return // it was only to look
		}
		if n == 0 {
			if n, err = e.armAndPoll(); err != nil {
				e.fail(fmt.Errorf("%w: %w", ErrDevice, err))
				return
			}
		}
		if n > 0 {
			if first {
				e.spin.took(time.Since(start))
				first = false
			}
			if e.dispatch(n, g, s) {
				if spun {
					e.spun.Add(1)
				} else {
					e.slept.Add(1)
				}
				return
			}
			continue
		}
		if e.reachedNow(g, s) {
			return
		}
		spun = false
		event, err := e.q.wait(deadline, &e.dead)
		switch {
		case err != nil:
			e.fail(fmt.Errorf("%w: %w", ErrDevice, err))
			return
		case event:
			e.armed = false
		case !time.Now().Before(deadline):
			return
		}
	}
}

// spinBudget: only the first poll of a wait spins; after it the leader has
// slept, or has just found something.
func (e *engine) spinBudget(first bool) time.Duration {
	if !first {
		return 0
	}
	return e.spin.budget()
}

// armAndPoll leaves the completion queue armed. An event that has not been taken
// yet counts: it will end the next wait at once.
func (e *engine) armAndPoll() (int, error) {
	if e.armed {
		return 0, nil
	}
	n, err := e.q.armPoll(e.wcs)
	if err == nil {
		e.armed = true
	}
	return n, err
}

// dispatch settles n completions, and reports whether the goal is reached.
func (e *engine) dispatch(n int, g goal, s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.wcs[:n] {
		e.settleLocked(&e.wcs[i])
	}
	e.grantLocked()
	return e.reached(g, s)
}

func (e *engine) reachedNow(g goal, s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reached(g, s)
}

// wait waits until the slot's READs are settled.
func (e *engine) wait(s *slot, deadline time.Time) error {
	for !e.await(s, deadline) {
		if e.abandon(s) {
			return lateError("read", s.n)
		}
	}
	return e.result(s)
}

// await waits until the slot's READs are settled or a time has come, and reports
// whether they are.
func (e *engine) await(s *slot, until time.Time) bool {
	if s.over || e.settledNow(s) {
		return true
	}
	if e.tryLead() {
		e.serve(untilSettled, s, until)
		e.endLead()
	}
	if e.sleeps(s) {
		return true
	}
	s.timer.Reset(time.Until(until))
	defer s.timer.Stop()
	e.lead.wait()
	defer e.lead.leave()
	for {
		select {
		case <-s.done:
			return true
		case <-e.turn(untilSettled, s, until):
		case <-s.timer.C:
			return e.leaves(s)
		}
	}
}

// turn leads if nobody else does. It returns what has something to receive when
// that is worth another try. The caller has announced itself as a waiter.
func (e *engine) turn(g goal, s *slot, until time.Time) <-chan struct{} {
	if e.tryLead() {
		e.serve(g, s, until)
		e.endLead()
	}
	if e.dead.Load() {
		e.lead.pass() // what was received may have been the janitor's
		return nil
	}
	return e.lead.free
}

func (e *engine) settledNow(s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.state == settled
}

// sleeps says that the slot's user is going to wait on done, unless the slot has
// settled by now.
func (e *engine) sleeps(s *slot) (isSettled bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.sleeps = s.state != settled
	return !s.sleeps
}

// leaves is sleeps' end when done has not been received from.
func (e *engine) leaves(s *slot) (isSettled bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.sleeps {
		s.sleeps = false
		return false
	}
	<-s.done
	return true
}

// abandon gives up waiting, unless the slot has settled by now.
func (e *engine) abandon(s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.state != flying {
		return false
	}
	e.abandonLocked(s)
	e.mu.stats.Abandoned++
	return true
}

func (e *engine) result(s *slot) error {
	if s.over {
		return s.outcome
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.err
}

func lateError(what string, n int) error {
	return fmt.Errorf("rdma %s of %d ranges: %w", what, n, os.ErrDeadlineExceeded)
}
