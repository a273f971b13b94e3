package rdma

import (
	"errors"
	"fmt"
	"time"
)

// drainTime bounds how long flushed READs may take to complete. Some devices
// never flush; destroying the queue pair ends their READs too.
const drainTime = 2 * time.Second

// janitor settles what nobody waits for, and takes a lost connection apart. It
// ends with the connection.
func (e *engine) janitor() {
	defer close(e.ended)
	for range e.kick {
		if e.dead.Load() {
			e.takeApart()
			return
		}
		e.reap()
	}
}

// reap leads until no abandoned batch is on the queue. A batch that stays for
// longer than the device's retries can take means that the device is stuck.
func (e *engine) reap() {
	for {
		e.mu.Lock()
		oldest, any := time.Now(), false
		for _, s := range e.mu.slots {
			if s.state == flying && !s.abandoned.IsZero() {
				any = true
				if s.abandoned.Before(oldest) {
					oldest = s.abandoned
				}
			}
		}
		e.mu.Unlock()
		if !any {
			return
		}
		deadline := oldest.Add(e.stuck)
		if !time.Now().Before(deadline) {
			e.fail(fmt.Errorf("%w: none for %v", ErrStuck, e.stuck))
			return
		}
		if !e.lead.take(e.lost) {
			return
		}
		e.serve(untilReaped, nil, deadline)
		e.endLead()
	}
}

// takeApart settles everything and frees the queue. The semaphore stays taken:
// nobody leads after this.
func (e *engine) takeApart() {
	if e.onLost != nil {
		e.onLost(e.rootCause())
	}
	var errs []error
	errs = append(errs, e.q.toErr())
	e.waitNotPosting()
	e.lead.take(nil) // the leader was woken and sees that the connection is dead
	errs = append(errs, e.drain())
	destroyed := e.q.destroyQP()
	errs = append(errs, destroyed)
	// What was completed before the queue pair went is still there to take.
	for {
		n, err := e.q.poll(e.wcs, 0)
		if n == 0 || err != nil {
			errs = append(errs, err)
			break
		}
		e.dispatch(n, untilDrained, nil)
	}
	e.mu.Lock()
	for _, s := range e.mu.slots {
		if s.state != flying {
			continue
		}
		e.mu.stats.Destroyed += uint64(s.n - s.next)
		s.err = e.mu.err
		e.advance(s, s.n)
	}
	e.mu.Unlock()
	errs = append(errs, e.q.close())

	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.closeErr = errors.Join(errs...)
	if destroyed != nil {
		e.freed = nil // the device may still write: the memory stays for good
	}
	e.mu.gone = true
	e.freeIfUnused()
}

// waitNotPosting waits until no call posts any more. Calls that came after the
// root cause was set do not post, and posting does not sleep.
func (e *engine) waitNotPosting() {
	e.mu.Lock()
	if e.mu.posting == 0 {
		e.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	e.mu.idle = idle
	e.mu.Unlock()
	<-idle
}

// drain takes the flushed READs' completions.
func (e *engine) drain() error {
	deadline := time.Now().Add(drainTime)
	for {
		n, err := e.q.poll(e.wcs, 0)
		if n == 0 && err == nil {
			if e.reachedNow(untilDrained, nil) {
				return nil
			}
			n, err = e.armAndPoll()
		}
		if err != nil {
			return err
		}
		if n > 0 {
			e.dispatch(n, untilDrained, nil)
			continue
		}
		event, err := e.q.wait(deadline, nil)
		switch {
		case err != nil:
			return err
		case event:
			e.armed = false
		case !time.Now().Before(deadline):
			return nil // destroying settles the rest
		}
	}
}
