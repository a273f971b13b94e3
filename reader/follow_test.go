package reader

import (
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

var followed = layout.Shard{Stream: "followed", Number: 1}

const ours, theirs = 7, 8 // incarnations

func testFollow() (*follow, *Reader) {
	f := newFollow(followed, ours)
	r := &Reader{news: make(chan struct{}, 1)}
	f.mu.readers = []*Reader{r}
	return f, r
}

func woken(r *Reader) bool {
	select {
	case <-r.news:
		return true
	default:
		return false
	}
}

func entry(incarnation, length, beat uint64, flags uint16) layout.Entry {
	return layout.Entry{Length: length, TailCRC: uint32(length * 3), HeartbeatMS: beat, Flags: flags, Incarnation: incarnation}.
		Seal(followed.Hash(incarnation))
}

// TestFollowEntry: lengths only rise, and nothing is believed that does not check.
func TestFollowEntry(t *testing.T) {
	f, r := testFollow()
	bad := entry(ours, 500, 1, 0)
	bad.Length++
	badTheirs := entry(theirs, 500, 1, 0)
	badTheirs.TailCRC++
	for i, step := range []struct {
		entry  layout.Entry
		why    reason
		moved  bool
		length uint64
		sealed bool
	}{
		{layout.Entry{}, reasonEntry, false, 0, false},
		{entry(ours, 100, 1, 0), proven, true, 100, false},
		{entry(ours, 100, 2, 0), proven, false, 100, false},
		{entry(ours, 90, 3, 0), reasonStale, false, 100, false},
		{bad, reasonEntry, false, 100, false},
		{badTheirs, reasonEntry, false, 100, false},
		{entry(ours, 120, 3, 0), proven, true, 120, false},
		{entry(ours, 120, 3, layout.FlagSealed), proven, true, 120, true},
	} {
		why, moved := f.entry(step.entry, at(i))
		v, pub := f.view(at(i), false)
		if why != step.why || moved != step.moved || pub.length != step.length || v.length != step.length || v.sealed != step.sealed {
			t.Fatalf("step %d: %v, %v, %+v, %+v", i, why, moved, v, pub)
		}
		if pub.length > 0 && pub.tailCRC != uint32(pub.length*3) {
			t.Fatalf("step %d: the tail CRC is another length's", i)
		}
		if woken(r) != step.moved {
			t.Fatalf("step %d: woken %v", i, !step.moved)
		}
	}
	if f.mu.other {
		t.Fatal("an entry that does not check made the shard another")
	}
}

// TestFollowAsksTheStore when the heartbeat has stopped, when no path tells, and
// when another incarnation was seen; rarer and rarer while nothing changes; one
// Reader of many.
func TestFollowAsksTheStore(t *testing.T) {
	f, _ := testFollow()
	statAt := func(ms int, blind bool) int {
		v, _ := f.view(at(ms), blind)
		return int(v.statAt.Sub(t0) / time.Millisecond)
	}
	f.entry(entry(ours, 100, 1, 0), at(0))
	if got := statAt(100, false); got != 2500 {
		t.Fatalf("while it beats: at %d", got)
	}
	if got := statAt(100, true); got != 100 {
		t.Fatalf("blind: at %d", got)
	}
	ask := func(ms int, blind bool) (next int) {
		t.Helper()
		if !f.claimStat(at(ms), blind) {
			t.Fatalf("at %d: not to be asked", ms)
		}
		if f.claimStat(at(ms+1), blind) {
			t.Fatalf("at %d: asked by two", ms)
		}
		f.asked(at(ms + 10)) // rests from when the answer came
		return statAt(ms+10, blind)
	}
	now, rests := 2500, []int{250, 500, 1000, 2000, 4000, 5000, 5000}
	for _, rest := range rests {
		next := ask(now, false)
		if next != now+10+rest {
			t.Fatalf("asked at %d, again at %d; want a rest of %d", now, next, rest)
		}
		now = next
	}
	f.info(durable.Info{Incarnation: ours, Length: 150})
	if next := ask(now, false); next != now+10+250 {
		t.Fatalf("after news: asked at %d, again at %d", now, next)
	}
	now += 260
	for range 3 {
		if next := ask(now, true); next != now+10+250 {
			t.Fatalf("blind: asked at %d, again at %d", now, next)
		}
		now += 260
	}
	f.entry(entry(ours, 100, 2, 0), at(now))
	if got := statAt(now, false); got != now+2500 {
		t.Fatalf("a new beat at %d: asked at %d", now, got)
	}
	f.entry(entry(theirs, 100, 2, 0), at(now))
	if got := statAt(now, false); got != now {
		t.Fatalf("another incarnation at %d: asked at %d", now, got)
	}
}

// TestFollowBeatEndsTheRests: when the producer is back and stops again, the store
// is asked as often as at first.
func TestFollowBeatEndsTheRests(t *testing.T) {
	f, _ := testFollow()
	for i, now := range []int{10_000, 20_000, 30_000} {
		f.claimStat(at(now), false)
		f.asked(at(now))
		if want := statRestMin << i; f.mu.statRest != want {
			t.Fatalf("rests for %v, want %v", f.mu.statRest, want)
		}
	}
	f.entry(entry(ours, 100, 1, 0), at(40_000))
	f.claimStat(at(50_000), false)
	if f.mu.statRest != statRestMin {
		t.Fatalf("after a beat: rests for %v", f.mu.statRest)
	}
}

// TestFollowOtherIncarnationWakesOnce between two answers of the store, not at
// every poll that sees it.
func TestFollowOtherIncarnationWakesOnce(t *testing.T) {
	f, r := testFollow()
	for round := range 3 {
		f.entry(entry(theirs, 10, 1, 0), at(0))
		if !woken(r) {
			t.Fatalf("round %d: not woken", round)
		}
		f.entry(entry(theirs, 11, 1, 0), at(1))
		if woken(r) {
			t.Fatalf("round %d: woken again", round)
		}
		if !f.info(durable.Info{Incarnation: ours}) {
			t.Fatalf("round %d: the store's answer was refused", round)
		}
	}
	if f.info(durable.Info{Incarnation: theirs}) {
		t.Fatal("the store's other shard was taken for ours")
	}
}

// TestFollowLeave in any order, and twice.
func TestFollowLeave(t *testing.T) {
	f := newFollow(followed, ours)
	var all [5]*Reader
	for i := range all {
		all[i] = &Reader{news: make(chan struct{}, 1)}
		f.join(all[i])
	}
	for n, i := range []int{1, 4, 0, 2, 3} {
		if last := f.leave(all[i]); last != (n == 4) {
			t.Fatalf("after %d of 5: last is %v", n+1, last)
		}
		if f.leave(all[i]) {
			t.Fatalf("%d left twice", i)
		}
		f.mu.Lock()
		f.wake()
		f.mu.Unlock()
		for j, r := range all {
			if woken(r) != (r.seat >= 0) {
				t.Errorf("after %d of 5: reader %d, seat %d", n+1, j, r.seat)
			}
		}
	}
}

// TestFollowInfo: answers of the store may overtake each other.
func TestFollowInfo(t *testing.T) {
	f, r := testFollow()
	for i, step := range []struct {
		info   durable.Info
		stored uint64
		sealed bool
		woken  bool
	}{
		{durable.Info{Incarnation: ours, Length: 100}, 100, false, true},
		{durable.Info{Incarnation: ours, Length: 100}, 100, false, false},
		{durable.Info{Incarnation: ours, Length: 90, Sealed: true}, 100, true, true},
		{durable.Info{Incarnation: ours, Length: 200}, 200, true, true},
		{durable.Info{Incarnation: ours, Length: 150}, 200, true, false},
	} {
		f.info(step.info)
		v, _ := f.view(at(0), true)
		if v.stored != step.stored || v.sealed != step.sealed || woken(r) != step.woken {
			t.Fatalf("step %d: %+v", i, v)
		}
	}
	if v, _ := f.view(at(0), true); !v.statAt.IsZero() {
		t.Fatal("the length of a sealed shard is asked for")
	}
}

// TestFollowMissed: only when every replica that can be asked has said so, and twice,
// a shard is absent from the cache.
func TestFollowMissed(t *testing.T) {
	f, r := testFollow()
	absent := func() bool { v, _ := f.view(at(0), false); return v.absent }
	for i, step := range []struct {
		replica, reachable uint64
		wanted, absent     bool
	}{
		{1, 7, true, false}, {1, 7, true, false}, {2, 7, true, false}, {4, 7, true, false}, // once
		{4, 7, true, false}, {2, 6, false, true}, // replica 1 cannot be asked any more
		{1, 7, false, true},
	} {
		wanted, known := f.missed(step.replica, step.reachable)
		if wanted != step.wanted || known || absent() != step.absent {
			t.Fatalf("step %d: wanted %v, known %v, absent %v", i, wanted, known, absent())
		}
		if woken(r) != (i == 5) {
			t.Fatalf("step %d: woken %v", i, i != 5)
		}
	}
	f, _ = testFollow()
	f.missed(1, 3)
	f.moved() // bits mean other replicas now
	if f.missed(2, 3); f.mu.misses != 0 {
		t.Fatal("what replicas of another placement said was counted")
	}
	f.entry(entry(ours, 100, 1, 0), at(0))
	if wanted, known := f.missed(1, 1); wanted || !known || absent() {
		t.Fatal("a shard that was seen is absent")
	}
}

// TestFollowBeats: a replica that is behind shows an old heartbeat again and again.
func TestFollowBeats(t *testing.T) {
	f, _ := testFollow()
	for i, step := range []struct {
		beat  uint64
		lives bool
	}{
		{100, true}, {100, false}, {101, true}, {100, true}, {101, false}, {100, false}, {99, false}, {101, false}, {102, true},
		{50, false}, {100, false}, {200, true}, {150, true}, {151, true}, {152, true}, {200, false}, {152, false}, {201, true}, // set back
	} {
		if got := f.beats(step.beat); got != step.lives {
			t.Errorf("step %d, %d: %v", i, step.beat, got)
		}
	}
}
