package reader

import (
	"testing"
	"time"
)

// TestTailQuorum: with several replicas, what a relaxed read has not brought is asked
// of all of them. Each step is a view, the action that is expected, and its outcome.
func TestTailQuorum(t *testing.T) {
	three := view{now: at(0), length: 30, paths: 1, replicas: 3}
	with := func(replicas, paths int) view {
		v := three
		v.replicas, v.paths = replicas, paths
		return v
	}
	read := action{kind: doRead, to: 30}
	full := action{kind: doRead, to: 30, whom: fullReplica}
	quorum := action{kind: doQuorum, to: 30}
	quorum1 := action{kind: doQuorum, to: 30, path: 1}
	durable := action{kind: doDurable, to: 30}
	rests := func(ms int) action { return action{kind: doWait, until: at(ms)} }
	type outcome struct {
		why     reason
		holes   int // of a quorum read
		partial bool
	}
	type step struct {
		view
		want action
		out  outcome
	}
	torn, hole, short, lost, late, scarce := outcome{why: reasonTorn}, outcome{why: reasonHole}, outcome{why: reasonShort}, outcome{why: reasonTransport}, outcome{why: reasonDeadline}, outcome{why: reasonBuffers}
	holes := func(n int) outcome { return outcome{why: reasonHole, holes: n} }
	partial := outcome{partial: true}
	for name, steps := range map[string][]step{
		"a hole everywhere is cold":            {{three, read, hole}, {three, quorum, holes(3)}, {three, durable, outcome{}}},
		"a short chunk everywhere is cold":     {{three, read, short}, {three, quorum, holes(3)}, {three, durable, outcome{}}},
		"a hole at two that are left is cold":  {{three, read, lost}, {with(2, 1), quorum, holes(2)}, {with(2, 1), durable, outcome{}}},
		"one that is left says it twice":       {{three, read, lost}, {with(1, 1), read, hole}, {with(1, 1), read, hole}, {with(1, 1), durable, outcome{}}},
		"one that is left has said it already": {{three, read, hole}, {with(1, 1), read, hole}, {with(1, 1), durable, outcome{}}},
		"one has failed, the others lack it": {{three, read, hole}, {three, quorum, outcome{why: reasonTransport, holes: 2}},
			{with(2, 1), quorum, holes(2)}, {with(2, 1), durable, outcome{}}},
		"a failure is no hole":       {{three, read, late}, {with(2, 1), quorum, lost}, {with(0, 0), rests(1000), outcome{}}},
		"torn three times, then all": {{three, read, torn}, {three, read, torn}, {three, read, torn}, {three, quorum, torn}, {three, rests(2), outcome{}}},
		"then over the next paths": {{with(3, 2), read, torn}, {with(3, 2), read, torn}, {with(3, 2), read, torn}, {with(3, 2), quorum, torn},
			{with(3, 2), quorum1, torn}, {with(3, 2), rests(2), outcome{}}},
		"no memory to land in is no reason to ask all": {{with(3, 2), read, scarce}, {with(3, 2), action{kind: doRead, to: 30, path: 1}, scarce}, {with(3, 2), rests(2), outcome{}}},
		"a partial replica lacks it":                   {{three, read, partial}, {three, full, hole}, {three, quorum, holes(3)}, {three, durable, outcome{}}},
		"only partial ones are left":                   {{with(0, 1), read, partial}, {with(0, 1), rests(1000), outcome{}}},
		"and a full one comes back":                    {{with(0, 1), read, partial}, {three, full, torn}, {three, full, torn}, {three, full, torn}, {three, quorum, torn}},
		"a path went away meanwhile":                   {{with(3, 2), read, scarce}, {with(3, 1), read, hole}, {with(3, 1), quorum, holes(3)}},
	} {
		s := newTail(0)
		for i, st := range steps {
			if got := s.next(st.view); got != st.want {
				t.Errorf("%s: step %d: %+v, want %+v", name, i, got, st.want)
				break
			}
			switch {
			case st.want.kind != doRead && st.want.kind != doQuorum:
			case st.out.partial:
				s.partialMissed()
			case st.want.kind == doRead:
				s.failed(st.view, st.out.why)
			default:
				s.quorumFailed(st.view, st.out.why, st.out.holes)
			}
		}
	}
}

// TestTailRelaxesAfterADelivery, whatever has failed before.
func TestTailRelaxesAfterADelivery(t *testing.T) {
	v := view{now: at(0), length: 30, paths: 2, replicas: 3}
	for _, why := range []reason{reasonHole, reasonTransport, reasonBuffers} {
		for _, from := range []Source{FromTCP, FromDurable} {
			s := newTail(0)
			s.partialMissed()
			s.failed(v, why)
			s.failed(v, why)
			s.delivered(10, from)
			if a := s.next(v); a != (action{kind: doRead, from: 10, to: 30}) {
				t.Errorf("%v, then delivered from %v: %+v", why, from, a)
			}
		}
	}
}

// TestTailWaitsForAFullReplicaThatRests, when only partial ones can be asked and lack
// the bytes.
func TestTailWaitsForAFullReplicaThatRests(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 1, backAt: at(50)}
	s.next(v)
	s.partialMissed()
	if a := s.next(v); a.kind != doWait || a.until != at(50) {
		t.Fatalf("got %+v", a)
	}
}

// TestTailFill: what is cold is left to a node that reads it for everybody, once; then
// memory is tried again, and the store when that did not help.
func TestTailFill(t *testing.T) {
	v := view{now: at(0), length: 30, paths: 1, replicas: 3}
	cold := func() *tail {
		s := newTail(0)
		s.next(v)
		s.failed(v, reasonHole)
		s.next(v)
		s.quorumFailed(v, reasonHole, 3)
		return s
	}
	fills := v
	fills.fills = true
	if a := cold().next(v); a.kind != doDurable {
		t.Fatalf("nobody fills: %+v", a)
	}
	s := cold()
	if a := s.next(fills); a != (action{kind: doFill, to: 30}) {
		t.Fatalf("got %+v", a)
	}
	s.fillFailed()
	if a := s.next(fills); a.kind != doDurable {
		t.Fatalf("not filled: %+v", a)
	}
	s.durableFailed(v.now)
	fills.now = at(50)
	if a := s.next(fills); a.kind != doRead {
		t.Fatalf("the store has failed: %+v", a)
	}
	s = cold()
	s.next(fills)
	s.fillDone()
	if a := s.next(fills); a != (action{kind: doRead, to: 30}) {
		t.Fatalf("filled: %+v", a)
	}
	s.failed(v, reasonHole)
	if a := s.next(fills); a.kind != doQuorum {
		t.Fatalf("at another replica: %+v", a)
	}
	s.quorumFailed(v, reasonHole, 3)
	if a := s.next(fills); a.kind != doDurable {
		t.Fatalf("filled and gone again: %+v", a)
	}
	s.delivered(10, FromDurable)
	s.failed(v, reasonHole)
	s.quorumFailed(v, reasonHole, 3)
	if a := s.next(fills); a != (action{kind: doFill, from: 10, to: 30}) {
		t.Fatalf("the next position: %+v", a)
	}
	if s.delay = time.Hour; s.next(view{now: at(0), stored: 30, paths: 1, fills: true}).kind == doFill {
		t.Fatal("filled what has no length in the cache")
	}
}

// TestTailRate: a Reader with a rate takes steps of 100 ms, and waits until what it
// got is paid for; what one source brings beyond a step is paid for too.
func TestTailRate(t *testing.T) {
	s := newTail(0)
	s.rate = 10_000
	v := view{now: at(0), length: 1 << 20, paths: 1}
	if a := s.next(v); a != (action{kind: doRead, to: 1000}) {
		t.Fatalf("got %+v", a)
	}
	s.delivered(1000, FromSHM)
	s.spent(v.now, 1000)
	if a := s.next(v); a != (action{kind: doWait, until: at(100)}) {
		t.Fatalf("got %+v", a)
	}
	v.now = at(100)
	if a := s.next(v); a != (action{kind: doRead, from: 1000, to: 2000}) {
		t.Fatalf("got %+v", a)
	}
	s.delivered(6000, FromDurable)
	s.spent(v.now, 6000)
	if a := s.next(v); a != (action{kind: doWait, until: at(700)}) {
		t.Fatalf("got %+v", a)
	}
	v.now = at(9000) // time that passed without need is no credit
	s.delivered(1000, FromSHM)
	s.spent(v.now, 1000)
	if a := s.next(v); a != (action{kind: doWait, until: at(9100)}) {
		t.Fatalf("got %+v", a)
	}
	s.seek(5, 10)
	if a := s.next(v); a != (action{kind: doWait, until: at(9100)}) {
		t.Fatalf("Seek is no way around it: %+v", a)
	}
	v.now, v.paths, v.stored = at(20_000), 0, 1<<20
	if a := s.next(v); a != (action{kind: doDurable, from: 5, to: 1005}) {
		t.Fatalf("the store has no other rate: %+v", a)
	}
	s.seek(1<<20, 1<<20)
	v.sealed = true
	if a := s.next(v); a.kind != doEnd {
		t.Fatalf("at the end: %+v", a)
	}
}
