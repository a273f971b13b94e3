package reader

import "time"

// tail decides what one Reader does next: which bytes, from which resort, or
// how long to wait. It is a pure state machine: the clock and all that was
// learnt come in by a view, what was done comes back by the methods below, and
// nothing in it reads, waits or locks.
//
// Order of resort for a position:
//
//  1. a relaxed read: one replica, over its best memory path; again at once for torn
//     or moved bytes, and, when a partial replica lacks the bytes, of a full one;
//  2. a quorum read: all full replicas that can be asked, at once. With one replica
//     there is none;
//  3. the same over the replicas' next paths, and so on;
//  4. the durable store: at once when every full replica that can be asked lacks the
//     bytes, and that was said twice, as evicted bytes do not come back; else only
//     when the bytes have been missing for the delay.
type tail struct {
	delay time.Duration

	pos    uint64 // next position to deliver
	lag    lagQueue
	tries  int  // failed tries at pos on the present level
	level  int  // which of the replicas' paths are used at pos: 0 the best ones
	asking bool // relaxed reads are over at pos: all full replicas are asked
	// born is the shard's length when the Reader took its position: what is below
	// is no news that the cache may be about to bring.
	born uint64
	// cold: the cache does not hold pos; holes: how often a full replica has said so.
	cold  bool
	holes int
	// full: a partial replica lacks pos, and only full ones are asked.
	full bool

	// At most rate bytes a second are delivered, on average; 0: no cap. Nothing is
	// before idleTo, which is when those that were are paid for.
	rate   int64
	idleTo time.Time

	// Rests after every path, or the store, has failed at pos.
	memoryAt, durableAt     time.Time
	memoryRest, durableRest time.Duration
}

// view is what is known when a decision is taken.
type view struct {
	now      time.Time
	length   uint64    // published length: the largest valid one seen
	stored   uint64    // durable length last heard of; may be behind length
	sealed   bool      // length is final
	paths    int       // memory paths that are up to a replica of pos: the most to one
	replicas int       // full replicas of pos that can be asked; 0 with paths: as 1, or only partial ones can
	backAt   time.Time // with none: when one that rests is up again; zero: never
	blind    bool      // no length comes from the cache at present
	absent   bool      // the cache answers, and has never had the shard
	statAt   time.Time // when asking the store for its length is worth it; zero: never
}

type actionKind int

const (
	doWait    actionKind = iota // until news, or a time if it is set
	doRead                      // [from, to) of one of whom, over its memory path number path
	doQuorum                    // [from, to) of all full replicas, each over its memory path number path
	doDurable                   // [from, to) from the durable store
	doStat                      // ask the durable store for the shard's length
	doEnd                       // the sealed shard is delivered
)

type action struct {
	kind     actionKind
	from, to uint64
	path     int
	whom     whom      // doRead
	until    time.Time // doWait; zero: no limit of its own
}

// whom says which replicas a relaxed read may ask.
type whom int

const (
	anyReplica  whom = iota
	fullReplica      // only those that are counted on
)

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
	if v.now.Before(t.idleTo) {
		return action{kind: doWait, until: t.idleTo}
	}
	length := t.allowed(v.length)
	end = t.allowed(end)
	if t.level >= v.paths { // a path went away meanwhile
		t.level = 0
	}
	who := anyReplica
	if t.full {
		who = fullReplica
	}
	wanted := t.pos < v.length && !t.cold
	able := v.paths > 0 && (who == anyReplica || v.replicas > 0)
	if wanted && able && !v.now.Before(t.memoryAt) {
		if t.asking && v.replicas > 1 {
			return action{kind: doQuorum, from: t.pos, to: length, path: t.level}
		}
		return action{kind: doRead, from: t.pos, to: length, path: t.level, whom: who}
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
	case !wanted:
	case able:
		wake = earliest(wake, t.memoryAt)
	case !v.backAt.IsZero():
		wake = earliest(wake, latest(t.memoryAt, v.backAt))
	}
	return action{kind: doWait, until: wake}
}

// allowed returns how far a Reader may go at once, at most to end.
func (t *tail) allowed(end uint64) uint64 {
	if t.rate == 0 || end <= t.pos {
		return end
	}
	return min(end, t.pos+t.burst())
}

// burst is what one step of a Reader with a rate may bring.
func (t *tail) burst() uint64 {
	return max(uint64(t.rate)*uint64(rateStep/time.Millisecond)/1000, 1)
}

// rateStep is for how long the bytes of one step are enough at the rate.
const rateStep = 100 * time.Millisecond

// spent takes that n bytes were delivered at now: they are paid for with time.
func (t *tail) spent(now time.Time, n int) {
	if t.rate > 0 {
		t.idleTo = latest(t.idleTo, now).Add(time.Duration(float64(n) / float64(t.rate) * float64(time.Second)))
	}
}

// durableDue returns when the store may be asked for the bytes at pos; zero if
// none are known to exist.
func (t *tail) durableDue(v view) time.Time {
	due := t.lag.dueAt(t.delay)
	if due.IsZero() {
		return due
	}
	if t.cold || v.absent && t.pos < t.born {
		due = v.now
	}
	return latest(due, t.durableAt)
}

// delivered moves the position; whatever failed at the old one is forgotten.
func (t *tail) delivered(n int, from Source) {
	t.pos += uint64(n)
	t.relax()
	t.memoryAt, t.memoryRest = time.Time{}, 0
	if from == FromDurable {
		t.durableAt, t.durableRest = time.Time{}, 0
	}
}

// relax begins again with a relaxed read over the best paths.
func (t *tail) relax() {
	t.tries, t.level, t.asking, t.full = 0, 0, false, false
	t.cold, t.holes = false, 0
}

// failed takes the reason why a relaxed read delivered nothing at pos.
func (t *tail) failed(v view, r reason) {
	switch r {
	case reasonHole, reasonShort:
		// Said twice, as an identity that was read half written looks like a hole,
		// and a second look at memory is cheaper than one at the store.
		t.holes++
		t.asking = v.replicas > 1
		t.cold = !t.asking && t.holes > 1
		return
	case reasonTorn, reasonMoved:
		if t.tries++; t.tries < triesPerPath {
			return
		}
		if v.replicas > 1 && !t.asking {
			t.tries, t.asking = 0, true
			return
		}
	case reasonDeadline, reasonTransport:
		// The path is now suspect and leaves the list of those that are up, so the
		// next one has this one's number already.
		t.tries, t.asking = 0, v.replicas > 1
		return
	}
	t.nextLevel(v)
}

// quorumFailed takes the reason why a quorum read delivered nothing at pos, and how
// many full replicas have said that they lack it. reasonHole: all of them.
func (t *tail) quorumFailed(v view, r reason, holes int) {
	t.holes += holes
	switch r {
	case reasonHole, reasonShort:
		t.cold = t.holes > 1
	case reasonDeadline, reasonTransport: // those that have failed are asked no more for a while
	default:
		t.nextLevel(v)
	}
}

// nextLevel goes on with the replicas' next paths. After the last ones memory rests
// and is tried from the beginning.
func (t *tail) nextLevel(v view) {
	t.tries = 0
	if t.level++; t.level >= v.paths {
		t.level, t.asking = 0, false
		t.memoryRest = min(max(2*t.memoryRest, memoryRestMin), memoryRestMax)
		t.memoryAt = v.now.Add(t.memoryRest)
	}
}

// partialMissed takes that a partial replica lacks pos: that is normal.
func (t *tail) partialMissed() { t.full = true }

// durableFailed takes that the store had nothing at pos, or was out of reach.
// A hole is probed again: the cache may have been filled meanwhile.
func (t *tail) durableFailed(now time.Time) {
	t.durableRest = min(max(2*t.durableRest, durableRestMin), durableRestMax)
	t.durableAt = now.Add(t.durableRest)
	t.relax()
	t.memoryAt = latest(t.memoryAt, t.durableAt)
}

// seek starts over at another position.
func (t *tail) seek(pos, length uint64) {
	*t = tail{delay: t.delay, rate: t.rate, idleTo: t.idleTo, pos: pos, born: length}
}

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
