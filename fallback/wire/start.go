package wire

import (
	"fmt"
	"os"
	"time"
)

type flushMode uint8

const (
	flushNow flushMode = iota
	flushLater
)

func (c *Client) start(stop <-chan struct{}, deadline time.Time, op Op, head, tail []byte, dst [][]byte, mode flushMode) (*Call, error) {
	n := len(head) + len(tail)
	if most := op.maxRequest(); n > most {
		return nil, fmt.Errorf("%s request of %d B, at most %d: %w", op, n, most, ErrBadRequest)
	}
	now := time.Now()
	if deadline.IsZero() {
		deadline = now.Add(c.o.Timeout)
	}
	if !deadline.After(now) {
		return nil, fmt.Errorf("%s: deadline passed before the request was sent: %w", op, os.ErrDeadlineExceeded)
	}
	total := 0
	for _, d := range dst {
		total += len(d)
	}
	c.mu.Lock()
	if c.mu.err != nil {
		defer c.mu.Unlock()
		return nil, c.mu.err
	}
	call := c.newCall()
	call.op, call.begun, call.deadline, call.dst, call.total = op, now, deadline, dst, total
	call.need = HeaderLen + n
	if !c.admit(call) {
		var err error
		if now, err = c.awaitRoom(call, now, stop); err != nil {
			return nil, err
		}
	}
	call.id = c.takeSlot(call)
	call.tailBusy = len(tail) > 0
	c.mu.pend.add(Header{Length: uint32(n), Op: op, ID: call.id, Budget: max(deadline.Sub(now), time.Millisecond)}, head, tail, call)
	if c.mu.flushing {
		c.mu.Unlock()
		return call, nil
	}
	if mode == flushLater && c.mu.pend.size < c.o.MaxPending/2 {
		call.queued = true
		c.mu.Unlock()
		return call, nil
	}
	c.flush(now, deadline)
	return call, nil
}

// admit takes room for the call if there is some and nobody waits for it already; mu is held.
func (c *Client) admit(call *Call) bool {
	if c.mu.waiting.head != nil || !c.fits(call.need) {
		return false
	}
	c.mu.outstanding++
	c.mu.pendBytes += call.need
	return true
}

func (c *Client) fits(need int) bool {
	return c.mu.outstanding < c.o.MaxOutstanding && (c.mu.pendBytes == 0 || c.mu.pendBytes+need <= c.o.MaxPending)
}

// awaitRoom waits, in order with others, until the call has its room. mu is held before, and after unless it returns an error; then
// the call is gone.
func (c *Client) awaitRoom(call *Call, now time.Time, stop <-chan struct{}) (time.Time, error) {
	c.mu.waiting.push(call)
	c.mu.others++ // replies make room, and the caller does not receive them here: whoever stops leading has another one lead
	leaderless := !c.mu.leading
	if !c.mu.flushing && c.mu.pend.size > 0 {
		c.flush(now, call.deadline) // what Queue left may be what fills the room
	} else {
		c.mu.Unlock()
	}
	if leaderless {
		c.kickLeader()
	}
	call.timer.Reset(time.Until(call.deadline))
	var cause error
	select {
	case <-call.done:
	case <-call.timer.C:
		cause = os.ErrDeadlineExceeded
	case <-stop:
		cause = errStopped
	}
	call.timer.Stop()
	c.mu.Lock()
	c.mu.others--
	if cause != nil {
		if call.granted || call.lost != nil {
			<-call.done // sent under mu
		} else {
			c.mu.waiting.remove(call)
		}
	}
	if now = time.Now(); cause == nil && !call.deadline.After(now) {
		cause = os.ErrDeadlineExceeded
	}
	// The connection may have ended after the room was granted.
	if c.mu.err != nil {
		err := c.mu.err
		c.recycle(call)
		c.mu.Unlock()
		return now, err
	}
	if cause == nil {
		return now, nil
	}
	outstanding, pending := c.mu.outstanding, c.mu.pendBytes
	if call.granted {
		c.mu.outstanding--
		c.mu.pendBytes -= call.need
	}
	op, waited := call.op, now.Sub(call.begun)
	c.recycle(call)
	c.grant()
	c.mu.Unlock()
	return now, fmt.Errorf("%s: not sent within %s, %d requests unanswered and %d B unsent before it: %w",
		op, waited.Round(time.Microsecond), outstanding, pending, cause)
}

// grant gives freed room to waiting Starts, in order; mu is held.
func (c *Client) grant() {
	for head := c.mu.waiting.head; head != nil && c.fits(head.need); head = c.mu.waiting.head {
		c.mu.waiting.pop()
		c.mu.outstanding++
		c.mu.pendBytes += head.need
		head.granted = true
		head.done <- struct{}{}
	}
}

// takeSlot gives the call an id; mu is held, and outstanding counts the call already.
func (c *Client) takeSlot(call *Call) uint64 {
	var at uint32
	if n := len(c.mu.free); n > 0 {
		at = c.mu.free[n-1]
		c.mu.free = c.mu.free[:n-1]
	} else {
		at = uint32(len(c.mu.slots))
		c.mu.slots = append(c.mu.slots, slot{})
	}
	c.mu.seq++
	id := c.mu.seq<<slotBits | uint64(at)
	c.mu.slots[at] = slot{id: id, call: call}
	return id
}
