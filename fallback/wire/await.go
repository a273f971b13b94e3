package wire

import (
	"os"
	"time"
)

// Await waits until the call has settled or a time has come, and reports whether it has: then Wait returns at once. It gives nothing
// up; at the call's own deadline, which only Wait and Abandon act upon, it reports that there is something to Wait for.
func (call *Call) Await(until time.Time) (settled bool) {
	if call.queued {
		call.c.Flush(call.deadline)
	}
	if !until.Before(call.deadline) {
		until = call.deadline
	}
	if call.sleep(until, nil) != nil {
		return !until.Before(call.deadline)
	}
	call.done <- struct{}{} // for Wait; there is room, as a call settles once
	return true
}

// sleep takes the token of a settled call: nil. Otherwise it returns os.ErrDeadlineExceeded at a time, or errStopped when stop is
// closed. Without a stop it leads as long as nobody else does.
func (call *Call) sleep(until time.Time, stop <-chan struct{}) error {
	select {
	case <-call.done:
		return nil
	default:
	}
	c := call.c
	now := time.Now()
	if !now.Before(until) {
		c.kickLeader() // it was only to look: somebody has to see to it that there is something to see
		return os.ErrDeadlineExceeded
	}
	if stop == nil {
		c.lead(call, now, until)
		select {
		case <-call.done:
			return nil
		default:
		}
	}
	turn := c.turn
	if stop != nil {
		turn = nil
	}
	if call.liesDown(stop) && turn != nil {
		c.lead(call, time.Now(), until) // its leader left just before
	}
	defer call.getsUp(stop)
	call.timer.Reset(time.Until(until))
	defer call.timer.Stop()
	for {
		select {
		case <-call.done:
			return nil
		case <-turn:
			c.lead(call, time.Now(), until)
		case <-call.timer.C:
			return os.ErrDeadlineExceeded
		case <-stop:
			return errStopped
		}
	}
}

// liesDown announces a caller that is going to sleep, and reports whether nobody leads: then one that cannot has somebody woken who does.
func (call *Call) liesDown(stop <-chan struct{}) (leaderless bool) {
	c := call.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop == nil {
		c.mu.sleepers++
		call.sleeps = true
		return !c.mu.leading
	}
	c.mu.others++
	if !c.mu.leading {
		c.kickLeader()
	}
	return !c.mu.leading
}

// getsUp takes the announcement back. What it may have been told is another's to hear.
func (call *Call) getsUp(stop <-chan struct{}) {
	c := call.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop != nil {
		c.mu.others--
		return
	}
	c.mu.sleepers--
	call.sleeps = false
	if !c.mu.leading {
		c.passTurn()
	}
}
