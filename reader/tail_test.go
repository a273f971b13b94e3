package reader

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Unix(1_700_000_000, 0)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func newTail(pos uint64) *tail { return &tail{delay: time.Second, pos: pos} }

func TestTailReadsWhatIsPublished(t *testing.T) {
	s := newTail(10)
	a := s.next(view{now: at(0), length: 30, paths: 1})
	if a != (action{kind: doRead, from: 10, to: 30}) {
		t.Fatalf("got %+v", a)
	}
	s.delivered(20, FromSHM)
	if a := s.next(view{now: at(1), length: 30, paths: 1}); a.kind != doWait || !a.until.IsZero() {
		t.Fatalf("with everything delivered: %+v, want a wait without a limit", a)
	}
	if a := s.next(view{now: at(1), length: 30, paths: 1, sealed: true}); a.kind != doEnd {
		t.Fatalf("sealed and delivered: %+v", a)
	}
}

func TestTailTornBytesGoToTheNextPathThenRest(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 2}
	for path := range 2 {
		for try := range triesPerPath {
			if a := s.next(v); a.kind != doRead || a.path != path {
				t.Fatalf("path %d try %d: %+v", path, try, a)
			}
			s.failed(v, reasonTorn)
		}
	}
	a := s.next(v)
	if a.kind != doWait || a.until != v.now.Add(memoryRestMin) {
		t.Fatalf("after every path failed: %+v", a)
	}
	v.now = a.until
	if a := s.next(v); a.kind != doRead || a.path != 0 {
		t.Fatalf("after the rest: %+v", a)
	}
}

// TestTailWaitsForAPathThatRests, also when no other news will come.
func TestTailWaitsForAPathThatRests(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, backAt: at(50)}
	if a := s.next(v); a.kind != doWait || a.until != at(50) {
		t.Fatalf("got %+v", a)
	}
	v.paths = 1
	s.failed(v, reasonTorn)
	for range triesPerPath {
		s.failed(v, reasonTorn)
	}
	v.paths, v.backAt = 0, at(1) // before what the torn bytes have to rest
	if a := s.next(v); a.kind != doWait || a.until != at(2) {
		t.Fatalf("got %+v", a)
	}
	v.backAt = at(5000) // the store is due before
	if a := s.next(v); a.kind != doWait || a.until != at(1000) {
		t.Fatalf("got %+v", a)
	}
	for range 2 {
		s.failed(v, reasonHole)
	}
	v.backAt = at(50)
	if a := s.next(v); a.kind != doDurable {
		t.Fatalf("a hole: %+v", a)
	}
}

// TestTailNoBuffers goes to the next path at once, and then rests.
func TestTailNoBuffers(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 2}
	s.next(v)
	s.failed(v, reasonBuffers)
	if a := s.next(v); a.kind != doRead || a.path != 1 {
		t.Fatalf("got %+v", a)
	}
	s.failed(v, reasonBuffers)
	if a := s.next(v); a.kind != doWait || a.until != at(2) {
		t.Fatalf("got %+v", a)
	}
}

// TestTailDeliveryForgetsFailures: the next position has its own tries, on the best
// path.
func TestTailDeliveryForgetsFailures(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 2}
	for range 3 {
		for range triesPerPath - 1 {
			s.failed(v, reasonTorn)
		}
		if a := s.next(v); a.path != 0 {
			t.Fatalf("with a try left: %+v", a)
		}
		s.delivered(1, FromSHM)
	}
	for range triesPerPath {
		s.failed(v, reasonTorn)
	}
	if a := s.next(v); a.path != 1 {
		t.Fatalf("with no try left: %+v", a)
	}
	s.delivered(1, FromSHM)
	if a := s.next(v); a.path != 0 {
		t.Fatalf("after a delivery: %+v", a)
	}
}

// TestTailRestsGrow while nothing is delivered, and begin anew when something is.
func TestTailRestsGrow(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 1}
	rest := func(fail func()) time.Duration {
		s.next(v)
		fail()
		a := s.next(v)
		if a.kind != doWait {
			t.Fatalf("got %+v", a)
		}
		d := a.until.Sub(v.now)
		v.now = a.until
		return d
	}
	memory := func() {
		for range triesPerPath {
			s.failed(v, reasonTorn)
		}
	}
	for _, want := range []int{2, 4, 8, 16, 32, 64, 128, 250} {
		if got := rest(memory); got != time.Duration(want)*time.Millisecond {
			t.Fatalf("memory rests for %v, want %d ms", got, want)
		}
	}
	s.delivered(1, FromSHM)
	if got := rest(memory); got != memoryRestMin {
		t.Fatalf("after a delivery memory rests for %v", got)
	}
	durable := func() {
		s.failed(v, reasonHole)
		s.failed(v, reasonHole)
		if a := s.next(v); a.kind != doDurable {
			t.Fatalf("got %+v", a)
		}
		s.durableFailed(v.now)
	}
	s.delivered(1, FromSHM)
	for _, want := range []int{50, 100, 200, 400, 800} {
		if got := rest(durable); got != time.Duration(want)*time.Millisecond {
			t.Fatalf("the store rests for %v, want %d ms", got, want)
		}
	}
	s.delivered(1, FromDurable)
	if got := rest(durable); got != durableRestMin {
		t.Fatalf("after a delivery the store rests for %v", got)
	}
}

// TestTailSeek forgets everything but the delay.
func TestTailSeek(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 1}
	s.next(v)
	s.failed(v, reasonHole)
	s.failed(v, reasonHole)
	s.next(v)
	s.durableFailed(v.now)
	s.seek(10, 10)
	if a := s.next(v); a != (action{kind: doRead, from: 10, to: 30}) {
		t.Fatalf("got %+v", a)
	}
	v.paths = 0
	if a := s.next(v); a.until != at(1000) {
		t.Fatalf("got %+v", a)
	}
}

// TestLagQueueGrain: lengths that come close together are one point.
func TestLagQueueGrain(t *testing.T) {
	var q lagQueue
	for i := range 49 {
		q.observe(at(i), uint64(i+1))
	}
	q.observe(at(50), 60)
	q.observe(at(51), 5) // smaller: stale
	if len(q.seen) != 2 || q.seen[0] != (lagPoint{at(0), 49}) || q.seen[1] != (lagPoint{at(50), 60}) {
		t.Fatalf("%+v", q.seen)
	}
	q.delivered(48)
	if q.dueAt(time.Second) != at(1000) {
		t.Fatal("a byte of the first point is missing")
	}
	q.delivered(49)
	if q.dueAt(time.Second) != at(1050) {
		t.Fatal("nothing of the first point is missing")
	}
}

func TestTailDurableOnlyAfterTheDelay(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 0}
	if a := s.next(v); a.kind != doWait || a.until != at(1000) {
		t.Fatalf("cache away for 0 ms: %+v", a)
	}
	v.now, v.length = at(600), 50 // news does not restart the clock of the older bytes
	if a := s.next(v); a.kind != doWait || a.until != at(1000) {
		t.Fatalf("cache away for 600 ms: %+v", a)
	}
	v.now = at(1000)
	if a := s.next(v); a != (action{kind: doDurable, from: 0, to: 50}) {
		t.Fatalf("cache away for 1 s: %+v", a)
	}
	s.delivered(20, FromDurable) // some of the old ones: the others have waited as long
	if a := s.next(v); a != (action{kind: doDurable, from: 20, to: 50}) {
		t.Fatalf("after a part of what is due: %+v", a)
	}
	s.delivered(20, FromDurable) // the younger ones wait for a second of their own
	if a := s.next(v); a.kind != doWait || a.until != at(1600) {
		t.Fatalf("after what was due: %+v", a)
	}
}

func TestTailHoleGoesToDurableAtOnce(t *testing.T) {
	for _, why := range []reason{reasonHole, reasonShort} {
		s := newTail(0)
		v := view{now: at(0), length: 30, paths: 1}
		s.next(v)
		s.failed(v, why)
		if a := s.next(v); a.kind != doRead {
			t.Fatalf("%v once: %+v", why, a)
		}
		s.failed(v, why)
		if a := s.next(v); a.kind != doDurable {
			t.Fatalf("%v: %+v", why, a)
		}
		s.delivered(10, FromDurable)
		if a := s.next(v); a.kind != doRead || a.from != 10 {
			t.Fatalf("%v: after it the cache is tried again: %+v", why, a)
		}
	}
}

// A shard that the cache has never had is read from the store at once, as far as
// it reached when the Reader came; what was appended since is the cache's to
// bring, for as long as the delay.
func TestTailAbsentShardIsColdUpToItsBirth(t *testing.T) {
	s := newTail(0)
	s.seek(0, 30)
	v := view{now: at(0), stored: 50, paths: 1}
	if a := s.next(v); a.kind != doWait || a.until != at(1000) {
		t.Fatalf("before the cache was looked at: %+v", a)
	}
	v.absent = true
	if a := s.next(v); a != (action{kind: doDurable, from: 0, to: 50}) {
		t.Fatalf("absent: %+v", a)
	}
	s.delivered(30, FromDurable)
	if a := s.next(v); a.kind != doWait || a.until != at(1000) {
		t.Fatalf("what is younger than the Reader: %+v", a)
	}
}

func TestTailDurableFailureRests(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 1}
	s.next(v)
	s.failed(v, reasonHole)
	s.next(v)
	s.failed(v, reasonHole)
	if a := s.next(v); a.kind != doDurable {
		t.Fatalf("got %+v", a)
	}
	s.durableFailed(v.now)
	a := s.next(v)
	if a.kind != doWait || a.until != v.now.Add(durableRestMin) {
		t.Fatalf("after a failed durable read: %+v", a)
	}
	v.now = a.until
	if a := s.next(v); a.kind != doRead {
		t.Fatalf("after its rest: %+v", a)
	}
}

func TestTailAsksTheStoreWhenItIsTime(t *testing.T) {
	s := newTail(30)
	v := view{now: at(0), length: 30, paths: 1, statAt: at(2500)}
	if a := s.next(v); a.kind != doWait || a.until != at(2500) {
		t.Fatalf("got %+v", a)
	}
	v.now = at(2500)
	if a := s.next(v); a.kind != doStat {
		t.Fatalf("got %+v", a)
	}
	v.stored, v.statAt = 90, at(9000) // the cache is behind the store
	if a := s.next(v); a.kind != doWait || a.until != at(3500) {
		t.Fatalf("got %+v", a)
	}
	v.now = at(3500)
	if a := s.next(v); a != (action{kind: doDurable, from: 30, to: 90}) {
		t.Fatalf("got %+v", a)
	}
}

func TestTailSurvivesAPathThatGoesAway(t *testing.T) {
	s := newTail(0)
	v := view{now: at(0), length: 30, paths: 2}
	for range triesPerPath {
		s.next(v)
		s.failed(v, reasonTorn)
	}
	v.paths = 1
	if a := s.next(v); a.kind != doRead || a.path != 0 {
		t.Fatalf("got %+v", a)
	}
}

// TestTailAlwaysMoves drives the machine with random outcomes. It never skips or
// repeats a byte, asks only for bytes that exist, never waits without a limit
// while bytes exist, and delivers everything once failures stop.
func TestTailAlwaysMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTail(uint64(rapid.IntRange(0, 5000).Draw(t, "start")))
		v := view{now: t0, length: s.pos, stored: s.pos}
		var got uint64 = s.pos
		steps := rapid.IntRange(20, 200).Draw(t, "steps")
		for i := 0; i < steps || got < max(v.length, v.stored); i++ {
			calm := i >= steps
			if i > steps+2000 {
				t.Fatalf("stuck at %d of %d/%d: %+v", got, v.length, v.stored, s)
			}
			if !calm {
				v.length += uint64(rapid.SampledFrom([]int{0, 0, 1, 200, 70000}).Draw(t, "grown"))
				v.stored = max(v.stored, v.length-min(v.length, uint64(rapid.IntRange(0, 300).Draw(t, "behind"))))
				v.paths = rapid.IntRange(0, 3).Draw(t, "paths")
				v.replicas = rapid.IntRange(0, min(v.paths, 1)*5).Draw(t, "replicas")
			} else {
				v.paths, v.replicas = 1, 1
				v.stored = max(v.stored, v.length)
			}
			a := s.next(v)
			end := max(v.length, v.stored)
			switch a.kind {
			case doRead, doQuorum, doDurable:
				memory := a.kind != doDurable
				if a.from != got || a.to > end || a.to <= a.from || memory && a.path >= v.paths ||
					a.kind == doQuorum && v.replicas < 2 || a.whom == fullReplica && v.replicas == 0 {
					t.Fatalf("asked for %+v at %d of %d", a, got, end)
				}
				n := rapid.IntRange(0, int(a.to-a.from)).Draw(t, "n")
				if calm {
					n = int(a.to - a.from)
				}
				switch {
				case n > 0 && memory:
					s.delivered(n, FromSHM)
				case n > 0:
					s.delivered(n, FromDurable)
				case a.kind == doRead && a.whom == anyReplica && rapid.IntRange(0, 3).Draw(t, "partial") == 0:
					s.partialMissed()
				case a.kind == doRead:
					s.failed(v, reason(rapid.IntRange(0, reasons-1).Draw(t, "reason")))
				case memory:
					s.quorumFailed(v, reason(rapid.IntRange(0, reasons-1).Draw(t, "reason")), rapid.IntRange(0, v.replicas).Draw(t, "holes"))
				default:
					s.durableFailed(v.now)
				}
				got += uint64(n)
			case doWait:
				if a.until.IsZero() && got < end {
					t.Fatalf("waits for ever with %d of %d delivered", got, end)
				}
				v.now = v.now.Add(time.Millisecond)
				if !a.until.IsZero() {
					v.now = latest(v.now, a.until)
				}
			}
			if s.pos != got {
				t.Fatalf("position %d, delivered to %d", s.pos, got)
			}
			v.now = v.now.Add(time.Microsecond)
		}
	})
}

func TestLagQueueIsBounded(t *testing.T) {
	var q lagQueue
	for i := range 10_000 {
		q.observe(at(i*10), uint64(i+1))
	}
	if len(q.seen) > lagPoints {
		t.Fatalf("%d points, want at most %d", len(q.seen), lagPoints)
	}
	if due := q.dueAt(time.Second); due != at(1000) {
		t.Fatalf("the oldest missing byte is due at %v, want %v", due.Sub(t0), time.Second)
	}
	q.delivered(10_000)
	if !q.dueAt(time.Second).IsZero() {
		t.Fatal("everything is delivered, but something is due")
	}
}
