package rdma

import (
	"fmt"
	"runtime"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// staying says whether a post waits a while for completions.
type staying uint8

const (
	goOn      staying = iota // post and return
	untilDone                // poll as long as a wait would spin
)

// restAfter is after how many READs a caller that never sleeps lets the scheduler
// run. The runtime takes a goroutine that has not been scheduled for 10 ms for
// one that is stuck: it sends its thread a signal, takes its processor away from
// under the call to the device, and looks every 20 us whether it has to again
// (runtime.sysmon, runtime.retake). Soft-RoCE under emulation, where a READ takes
// 30 us, was seen to lose a quarter of a CPU to that.
const restAfter = 128

// post puts the slot's READs on the queue, waiting for credits until the
// deadline. stay says whether to spin for their completion in the same call; if
// somebody else leads it does not.
//
// What is common needs the lock twice, before the call to the device and after
// it, and no clock: until an answer is late the deadline does not matter.
func (e *engine) post(s *slot, deadline time.Time, stay staying) error {
	n := len(s.reads)
	if s.busy += n; s.busy >= restAfter {
		s.busy = 0
		runtime.Gosched()
	}
	left := time.Duration(1)
	if stay == goOn {
		left = time.Until(deadline)
	}
	e.mu.Lock()
	granted, err := e.admitLocked(s, n, left)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	if !granted {
		e.mu.Unlock()
		if err := e.waitCredits(s, n, deadline); err != nil {
			return err
		}
		e.mu.Lock()
	}
	if err := e.launchLocked(s, n); err != nil {
		e.mu.Unlock()
		return err
	}
	e.mu.Unlock()
	for i := range s.reads {
		s.reads[i].ID = wrID(s.num, s.gen, i)
		s.reads[i].Signaled = 0
	}
	s.reads[n-1].Signaled = 1

	// Leading or not, what has completed meanwhile is taken in the same call.
	lead := e.tryLead()
	wcs, spin := []ibverbs.WC(nil), time.Duration(-1)
	var start time.Time // zero: the wait is not timed
	if lead {
		wcs, spin = e.wcs, 0
		if stay == untilDone {
			spin = e.spin.budget()
			if e.spin.due() {
				start = time.Now()
			}
		}
	}
	counts, err := e.q.post(s.reads, wcs, spin)
	if counts.Polled > 0 && !start.IsZero() {
		e.spin.took(time.Since(start))
	}
	err = e.launched(s, n, counts, err)
	if lead {
		e.endLead()
	}
	return err
}

// admitLocked gets n credits for the slot if nobody waits for some; else granted
// is false, and the slot is in the queue of posters.
func (e *engine) admitLocked(s *slot, n int, left time.Duration) (granted bool, err error) {
	switch {
	case e.mu.err != nil:
		return false, e.mu.err
	case s.state != planning && s.state != settled || !s.abandoned.IsZero():
		return false, ErrInFlight
	case n > e.depth:
		return false, fmt.Errorf("%w: %d reads, the send queue has room for %d", ErrBatchSize, n, e.depth)
	case left <= 0:
		return false, lateError("post", n)
	case e.mu.waiting.head == nil && e.mu.credits >= n:
		e.mu.credits -= n
		s.state = admitted
		return true, nil
	}
	s.state = queued
	e.mu.waiting.add(s)
	e.mu.stats.Credits++
	return false, nil
}

// waitCredits waits in the queue of posters, polling if nobody else does.
func (e *engine) waitCredits(s *slot, n int, deadline time.Time) error {
	s.timer.Reset(time.Until(deadline))
	defer s.timer.Stop()
	e.lead.wait()
	defer e.lead.leave()
	for {
		select {
		case <-s.credit:
			return nil
		case <-e.turn(untilGranted, s, deadline):
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
	if s.state == admitted {
		return false
	}
	e.mu.waiting.remove(s)
	s.state = planning
	e.grantLocked()
	return true
}

// launchLocked marks an admitted slot as flying, unless the connection was lost.
func (e *engine) launchLocked(s *slot, n int) error {
	if e.mu.err != nil {
		s.state = planning
		e.mu.credits += n
		return e.mu.err
	}
	s.gen++
	s.state, s.n, s.next, s.err, s.over = flying, n, 0, nil, false
	e.mu.posting++
	e.mu.outstanding += n
	e.mu.stats.Batches++
	e.mu.stats.Posted += uint64(n)
	return nil
}

// launched takes what a post call did.
func (e *engine) launched(s *slot, n int, counts ibverbs.Counts, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.posting--; e.mu.posting == 0 && e.mu.idle != nil {
		close(e.mu.idle)
		e.mu.idle = nil
	}
	for i := range e.wcs[:counts.Polled] {
		e.settleLocked(&e.wcs[i])
	}
	if counts.Polled > 0 {
		e.mu.stats.Spun++
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
	if e.mu.waiting.head != nil {
		e.grantLocked()
	}
	s.over, s.outcome = s.state == settled, s.err
	return err
}
