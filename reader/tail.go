package reader

import (
	"time"
)

// tail decides what one Reader does next: which bytes, from which resort, or
// how long to wait. It is a pure state machine: the clock and all that was
// learnt come in by a view, what was done comes back by the methods below, and
// nothing in it reads, waits or locks.
//
// Order of resort for a position, with one replica:
//
//  1. the best memory path, tried again at once for torn or moved bytes;
//  2. the next memory path, and so on;
//  3. the durable store: at once for a hole that was seen twice, as evicted bytes do not come back;
//     else only when the bytes have been missing for the delay.
type tail struct {
	delay time.Duration

	pos   uint64 // next position to deliver
	lag   lagQueue
	tries int // failed tries at pos on the present path
	level int // paths given up at pos
	// cold: the cache does not hold pos; missed: it has said so once.
	cold, missed bool

	// Rests after every path, or the store, has failed at pos.
	memoryAt, durableAt     time.Time
	memoryRest, durableRest time.Duration
}

// view is what is known when a decision is taken.
type view struct {
	now    time.Time
	length uint64    // published length: the largest valid one seen
	stored uint64    // durable length last heard of; may be behind length
	sealed bool      // length is final
	paths  int       // memory paths that are up
	backAt time.Time // with none up: when one that rests is up again; zero: never
	blind  bool      // no length comes from the cache at present
	statAt time.Time // when asking the store for its length is worth it; zero: never
}

type actionKind int

const (
	doWait    actionKind = iota // until news, or a time if it is set
	doRead                      // [from, to) over memory path number path
	doDurable                   // [from, to) from the durable store
	doStat                      // ask the durable store for the shard's length
	doEnd                       // the sealed shard is delivered
)

type action struct {
	kind     actionKind
	from, to uint64
	path     int
	until    time.Time // doWait; zero: no limit of its own
}

const (
	triesPerPath = 3
	// Rests grow by doubling from the first to the last.
	memoryRestMin  = 2 * time.Millisecond
	memoryRestMax  = 250 * time.Millisecond
	durableRestMin = 50 * time.Millisecond
	durableRestMax = 2 * time.Second
)

// next returns what to do at v.now.
func (t *tail) next(v view) action {
	end := max(v.length, v.stored)
	t.lag.delivered(t.pos)
	if end > t.pos {
		t.lag.observe(v.now, end)
	} else if v.sealed {
		return action{kind: doEnd}
	}
	if t.level >= v.paths { // a path went away meanwhile
		t.level = 0
	}
	if t.pos < v.length && !t.cold && t.level < v.paths && !v.now.Before(t.memoryAt) {
		return action{kind: doRead, from: t.pos, to: v.length, path: t.level}
	}
	due := t.durableDue(v)
	if !due.IsZero() && !v.now.Before(due) {
		return action{kind: doDurable, from: t.pos, to: end}
	}
	if !v.statAt.IsZero() && !v.now.Before(v.statAt) {
		return action{kind: doStat}
	}
	wake := earliest(due, v.statAt)
	switch {
	case t.pos >= v.length || t.cold:
	case v.paths > 0:
		wake = earliest(wake, t.memoryAt)
	case !v.backAt.IsZero():
		wake = earliest(wake, latest(t.memoryAt, v.backAt))
	}
	return action{kind: doWait, until: wake}
}

// durableDue returns when the store may be asked for the bytes at pos; zero if
// none are known to exist.
func (t *tail) durableDue(v view) time.Time {
	due := t.lag.dueAt(t.delay)
	if due.IsZero() {
		return due
	}
	if t.cold {
		due = v.now
	}
	return latest(due, t.durableAt)
}

// delivered moves the position; whatever failed at the old one is forgotten.
func (t *tail) delivered(n int, from Source) {
	t.pos += uint64(n)
	t.tries, t.level = 0, 0
	t.cold, t.missed = false, false
	t.memoryAt, t.memoryRest = time.Time{}, 0
	if from == FromDurable {
		t.durableAt, t.durableRest = time.Time{}, 0
	}
}

// failed takes the reason why a memory read delivered nothing at pos.
func (t *tail) failed(v view, r reason) {
	switch r {
	case reasonHole, reasonShort:
		// Seen twice, as an identity that was read half written looks like a hole,
		// and a second look at memory is cheaper than one at the store.
		t.cold = t.missed
		t.missed = true
		return
	case reasonTorn, reasonMoved:
		if t.tries++; t.tries < triesPerPath {
			return
		}
	case reasonDeadline, reasonTransport:
		// The path is now suspect and leaves the list of those that are up, so the
		// next one has this one's number already.
		t.tries = 0
		return
	}
	t.tries = 0
	if t.level++; t.level >= v.paths {
		t.level = 0
		t.memoryRest = min(max(2*t.memoryRest, memoryRestMin), memoryRestMax)
		t.memoryAt = v.now.Add(t.memoryRest)
	}
}

// durableFailed takes that the store had nothing at pos, or was out of reach.
// A hole is probed again: the cache may have been filled meanwhile.
func (t *tail) durableFailed(now time.Time) {
	t.durableRest = min(max(2*t.durableRest, durableRestMin), durableRestMax)
	t.durableAt = now.Add(t.durableRest)
	t.cold, t.missed = false, false
	t.memoryAt = latest(t.memoryAt, t.durableAt)
}

// seek starts over at another position.
func (t *tail) seek(pos uint64) { *t = tail{delay: t.delay, pos: pos} }

// earliest returns the earlier of two times, of which zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
