package wire

import (
	"errors"
	"fmt"
	"time"
)

// errStopped is why a call ended whose context did.
var errStopped = errors.New("call stopped by its context")

// Call is one request in flight, from Start to its one Wait or Abandon, after which it is reused for another: keep no pointer to it.
// One goroutine at a time.
type Call struct {
	c        *Client
	op       Op
	begun    time.Time
	deadline time.Time
	queued   bool // by Queue: perhaps nobody has flushed it
	dst      [][]byte
	total    int // sum of dst
	need     int // bytes of the whole frame
	id       uint64

	// done gets one token when a waiting Start may go on, and one when the call is settled. What is read after the token
	// needs no lock.
	done  chan struct{}
	timer *time.Timer
	next  *Call // in the queue of waiting Starts, or in the free list

	// Guarded by c.mu until settled.
	granted   bool // a waiting Start got its room
	replied   bool // payload and err are the outcome
	payload   []byte
	err       error // of the reply
	lost      error // of the connection
	abandoned bool
	sleeps    bool // its caller would lead, but somebody else does
	receiving bool // the receiver writes to dst
	tailBusy  bool // an outbox refers to the tail
	settled   bool
}

// callQueue is a first-in, first-out list of calls.
type callQueue struct{ head, tail *Call }

func (q *callQueue) push(call *Call) {
	call.next = nil
	if q.tail == nil {
		q.head = call
	} else {
		q.tail.next = call
	}
	q.tail = call
}

func (q *callQueue) pop() *Call {
	call := q.head
	if call == nil {
		return nil
	}
	q.head = call.next
	if q.head == nil {
		q.tail = nil
	}
	call.next = nil
	return call
}

// remove takes call out, wherever it is.
func (q *callQueue) remove(call *Call) {
	var prev *Call
	for at := q.head; at != nil; prev, at = at, at.next {
		if at != call {
			continue
		}
		if prev == nil {
			q.head = call.next
		} else {
			prev.next = call.next
		}
		if q.tail == call {
			q.tail = prev
		}
		call.next = nil
		return
	}
}

// newCall takes a Call from the free list; mu is held.
func (c *Client) newCall() *Call {
	call := c.mu.idle
	if call == nil {
		call = &Call{c: c, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		call.timer.Stop()
		return call
	}
	c.mu.idle = call.next
	c.mu.idleLen--
	call.next = nil
	return call
}

// recycle puts a Call that nothing refers to back; mu is held.
func (c *Client) recycle(call *Call) {
	*call = Call{c: c, done: call.done, timer: call.timer}
	if c.mu.idleLen < maxIdleCalls {
		call.next = c.mu.idle
		c.mu.idle = call
		c.mu.idleLen++
	}
}

// settle ends the call when there is an outcome and nothing refers to its memory any more; mu is held.
func (call *Call) settle() {
	if call.settled || call.receiving || call.tailBusy || !(call.replied || call.lost != nil || call.abandoned) {
		return
	}
	call.settled = true
	call.done <- struct{}{}
}

// Wait returns the reply's payload (nil when dst took it) or why there is none: a *Error when the node refused, an error that
// matches os.ErrDeadlineExceeded when the deadline passed (the request may have been carried out), ErrLost when the
// connection ended. When Wait returns, nothing refers to tail and dst any more, and the Call is dead.
func (call *Call) Wait() ([]byte, error) { return call.wait(nil) }

func (call *Call) wait(stop <-chan struct{}) ([]byte, error) {
	if call.queued {
		call.c.Flush(call.deadline)
	}
	cause := call.sleep(call.deadline, stop)
	if cause != nil {
		call.giveUp()
	}
	return call.take(cause)
}

// Abandon gives a call up without waiting for its reply; when it returns, nothing refers to tail and dst any more, and the Call is
// dead. The request may be carried out all the same.
func (call *Call) Abandon() {
	call.giveUp()
	c := call.c
	c.mu.Lock()
	c.recycle(call)
	c.mu.Unlock()
}

// giveUp cuts every tie between the call and the connection, and returns when that is done. The receiver and the flusher may be
// using the call's memory at this moment, perhaps for long if the peer has stopped in the middle of a frame: they are
// interrupted by a deadline in the past, see the call abandoned, and go on without its memory.
func (call *Call) giveUp() {
	c := call.c
	c.mu.Lock()
	if !call.settled {
		call.abandoned = true
		if s := &c.mu.slots[call.id&(1<<slotBits-1)]; s.id == call.id {
			s.call = nil
		}
		switch {
		case call.receiving && c.mu.leading:
			c.interruptLeader()
		case call.receiving:
			c.recv.letGo()
		}
		if call.tailBusy && !c.mu.pend.rescue(call) {
			c.mu.writeUntil = longAgo
			_ = c.conn.SetWriteDeadline(longAgo)
		}
		call.settle()
	}
	c.mu.Unlock()
	<-call.done
}

// longAgo is a deadline that interrupts whoever reads or writes.
var longAgo = time.Unix(1, 0)

// take reads the outcome of a settled call, whose token was taken, and recycles it. cause is why it was given up, nil if it was not.
func (call *Call) take(cause error) ([]byte, error) {
	p, err := call.payload, call.err
	switch {
	case call.replied:
	case call.lost != nil:
		err = call.lost
	case cause != nil:
		err = fmt.Errorf("%s: no reply within %s: %w", call.op, call.deadline.Sub(call.begun).Round(time.Microsecond), cause)
	}
	c := call.c
	c.mu.Lock()
	c.recycle(call)
	c.mu.Unlock()
	return p, err
}
