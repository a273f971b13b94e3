package rdma

import (
	"fmt"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// staying says whether a post waits a while for completions.
type staying uint8

const (
	goOn      staying = iota // post and return
	untilDone                // poll as long as a wait would spin
)

// post puts the slot's READs on the queue, waiting for credits until the
// deadline. stay says whether to spin for their completion in the same call; if
// somebody else leads it does not.
func (e *engine) post(s *slot, deadline time.Time, stay staying) error {
	n := len(s.reads)
	if err := e.admit(s, n, deadline); err != nil {
		return err
	}
	s.gen++
	for i := range s.reads {
		s.reads[i].ID = wrID(s.num, s.gen, i)
		s.reads[i].Signaled = 0
	}
	s.reads[n-1].Signaled = 1

	// Leading or not, what has completed meanwhile is taken in the same call.
	lead := e.tryLead()
	wcs, spin := []ibverbs.WC(nil), time.Duration(-1)
	if lead {
		wcs, spin = e.wcs, 0
		if stay == untilDone {
			spin = e.spin.budget()
		}
	}
	if !e.launch(s, n) {
		if lead {
			e.endLead()
		}
		return e.rootCause()
	}
	start := time.Now()
	counts, err := e.q.post(s.reads, wcs, spin)
	if stay == untilDone && counts.Polled > 0 {
		e.spin.took(time.Since(start))
		e.spun.Add(1)
	}
	err = e.launched(s, n, counts, err)
	if lead {
		e.endLead()
	}
	return err
}

// admit gets n credits.
func (e *engine) admit(s *slot, n int, deadline time.Time) error {
	e.mu.Lock()
	switch {
	case e.mu.err != nil:
		defer e.mu.Unlock()
		return e.mu.err
	case s.state != planning && s.state != settled || !s.abandoned.IsZero():
		defer e.mu.Unlock()
		return ErrInFlight
	case n > e.depth:
		defer e.mu.Unlock()
		return fmt.Errorf("%w: %d reads, the send queue has room for %d", ErrBatchSize, n, e.depth)
	case !time.Now().Before(deadline):
		defer e.mu.Unlock()
		return lateError("post", n)
	case e.mu.waiting.head == nil && e.mu.credits >= n:
		e.mu.credits -= n
		s.state = granted
		e.mu.Unlock()
		return nil
	}
	s.state = queued
	e.mu.waiting.add(s)
	e.mu.stats.Credits++
	e.mu.Unlock()
	return e.waitCredits(s, n, deadline)
}

// waitCredits waits in the queue of posters, polling if nobody else does.
func (e *engine) waitCredits(s *slot, n int, deadline time.Time) error {
	s.timer.Reset(time.Until(deadline))
	defer s.timer.Stop()
	for {
		select {
		case <-s.credit:
			return nil
		case e.leadChan() <- struct{}{}:
			e.serve(untilGranted, s, deadline)
			e.endLead()
		case <-e.lost:
			if e.leaveQueue(s) {
				return e.rootCause()
			}
		case <-s.timer.C:
			if e.leaveQueue(s) {
				return lateError("post", n)
			}
		}
	}
}

// leaveQueue takes the slot out of the queue of posters, unless it has its
// credits by now.
func (e *engine) leaveQueue(s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.state == granted {
		return false
	}
	e.mu.waiting.remove(s)
	s.state = planning
	e.grantLocked()
	return true
}

// launch marks a granted slot as flying. False: the connection was lost.
func (e *engine) launch(s *slot, n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.err != nil {
		s.state = planning
		e.mu.credits += n
		return false
	}
	select { // the result of the last posting, if nobody took it
	case <-s.done:
	default:
	}
	s.state, s.n, s.next, s.err = flying, n, 0, nil
	e.mu.posting++
	e.mu.outstanding += n
	e.mu.stats.Batches++
	e.mu.stats.Posted += uint64(n)
	return true
}

// launched takes what a post call did.
func (e *engine) launched(s *slot, n int, counts ibverbs.Counts, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.posting--; e.mu.posting == 0 && e.mu.idle != nil {
		close(e.mu.idle)
		e.mu.idle = nil
	}
	for _, wc := range e.wcs[:counts.Polled] {
		e.settleLocked(wc)
	}
	if refused := n - counts.Posted; refused > 0 {
		// Nothing refuses a READ while there are credits: the queue pair is
		// broken or gone.
		e.mu.stats.Posted -= uint64(refused)
		e.mu.outstanding -= refused
		e.mu.credits += refused
		s.n = counts.Posted
		if s.state == flying && s.next == s.n {
			s.state = planning
			if s.n > 0 {
				s.state = settled
			}
		}
		if s.state == flying {
			e.abandonLocked(s)
		}
	}
	if err != nil {
		e.failLocked(fmt.Errorf("%w: %w", ErrDevice, err))
		err = e.mu.err
	}
	e.grantLocked()
	return err
}
