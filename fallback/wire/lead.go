package wire

import "time"

// Who receives. One goroutine at a time leads: it reads the connection, and settles the calls of all. A caller that waits leads by
// itself if nobody does, until its own reply has come: then no other goroutine has to be woken on the way of a reply, neither one
// that receives nor, by that, the caller. Others that wait sleep, and one of them goes on when the leader leaves.
//
// The Client's own goroutine leads when nobody has for a while, so that the end of the connection is noticed and late replies are
// dropped, and at once for callers that cannot: those that have a context, and those that wait for room. It steps back when
// callers sleep while it leads.
const (
	// leadAfter is how often the Client's goroutine looks whether somebody leads, and leads when nobody has since it looked last; while
	// callers do, it looks ever more seldom, down to every leadAtLast.
	leadAfter  = 10 * time.Millisecond
	leadAtLast = 80 * time.Millisecond
	// stepBackAfter is after how many replies to callers that slept it steps back.
	stepBackAfter = 4
	// readSlack is how much of the connection's read deadline must be left for a leader to keep it instead of setting its own.
	readSlack = 2 * time.Millisecond
)

// lead receives until call has its reply, or until a time. It returns at once when somebody else leads, or there is nothing to wait for.
func (c *Client) lead(call *Call, now, until time.Time) {
	c.mu.Lock()
	if c.mu.leading || call.replied || call.settled || c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	c.takeLead(now, until)
	c.mu.Unlock()
	for {
		done, err := c.recv.one()
		if err != nil && err != errTurnOver {
			c.fail(err)
		}
		if err != nil || done == call {
			break
		}
	}
	c.endLead()
}

// takeLead makes the caller the leader; mu is held, nobody leads.
func (c *Client) takeLead(now, until time.Time) {
	c.mu.leading = true
	c.mu.turns++
	c.recv.until = until
	c.recv.letGoAbandoned()
	c.readBy(now)
}

// endLead ends the turn, and lets somebody else lead who waits.
func (c *Client) endLead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.leading = false
	c.recv.letGoAbandoned()
	c.dropLost()
	c.passTurn()
}

// passTurn wakes somebody who would lead; mu is held, nobody leads.
func (c *Client) passTurn() {
	switch {
	case c.mu.err != nil: // all calls are settled
	case c.mu.sleepers > 0:
		select {
		case c.turn <- struct{}{}:
		default:
		}
	case c.mu.others > 0:
		c.kickLeader()
	}
}

// dropLost settles the call whose reply was coming when the connection ended, unless its leader does; mu is held.
func (c *Client) dropLost() {
	if call := c.recv.call; call != nil && c.mu.err != nil && !c.mu.leading {
		call.lost = c.mu.err
		c.recv.letGo()
	}
}

// readBy gives the connection the read deadline of the leader; mu is held. Setting one costs a good part of a small read: an earlier
// one that is not near is kept, and whoever it wakes goes on.
func (c *Client) readBy(now time.Time) {
	want, have := c.recv.until, c.mu.readUntil
	if want.IsZero() && have.IsZero() || !want.IsZero() && !have.IsZero() && !have.After(want) && have.After(now.Add(readSlack)) {
		return
	}
	c.mu.readUntil = want
	_ = c.conn.SetReadDeadline(want) // fails only when closed, which the next read will say
}

// interruptLeader makes the leader's read return; mu is held.
func (c *Client) interruptLeader() {
	c.mu.readUntil = longAgo
	_ = c.conn.SetReadDeadline(longAgo) // fails only when closed, which ends the leader as well
}

// kickLeader makes the Client's goroutine lead if nobody does.
func (c *Client) kickLeader() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// receive is the Client's goroutine that leads.
func (c *Client) receive() {
	defer c.ended.Done()
	look := leadAfter
	timer := time.NewTimer(look)
	defer timer.Stop()
	var seen uint64 // turns when it looked last
	for {
		kicked := false
		select {
		case <-c.lost:
			return
		case <-c.kick:
			kicked = true
		case <-timer.C:
		}
		c.mu.Lock()
		idle := kicked || c.mu.turns == seen
		look = min(2*look, leadAtLast)
		if idle && !c.mu.leading && c.mu.err == nil {
			c.takeLead(time.Now(), time.Time{})
			c.mu.Unlock()
			c.attend()
			c.endLead()
			c.mu.Lock()
			look = leadAfter
		}
		seen = c.mu.turns
		c.mu.Unlock()
		timer.Reset(look)
	}
}

// attend leads until the connection ends, or callers sleep.
func (c *Client) attend() {
	for c.recv.handed = 0; c.recv.handed < stepBackAfter; {
		if _, err := c.recv.one(); err != nil {
			c.fail(err) // never errTurnOver
			return
		}
	}
}
