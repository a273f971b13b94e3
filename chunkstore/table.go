package chunkstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// key names what a way may hold: an extent of a shard, or a length page of a stream.
type key struct {
	hash   layout.Hash
	number uint64
}

// way is the node's own record of one way. It is guarded by the stripe of its set.
type way struct {
	key
	used       bool
	generation uint32 // of this key, or of the last one when not used; never with a zero tag
	// modified is when the key was last put or published, since the table's start.
	// Zero and negative values are times like others.
	modified time.Duration
}

// sets are the two candidates of a key; they are equal in a table of one set.
type sets [2]uint32

// table decides which key holds which way; it knows nothing of the arena's
// memory. Its methods other than lock, unlock and the counters need the stripes
// of the sets that they touch.
type table struct {
	ways    []way // index = set*16 + way, as in the arena
	ttl     time.Duration
	stripes [64]stripe

	used     atomic.Int64 // ways with a key
	expired  atomic.Uint64
	capacity atomic.Uint64
}

// stripe guards the sets whose number is congruent to its own modulo the number
// of stripes. Padded, as neighbours are taken by different callers.
type stripe struct {
	sync.Mutex
	_ [56]byte
}

func newTable(setCount uint32, ttl time.Duration) *table {
	t := &table{ways: make([]way, int(setCount)*layout.Ways), ttl: ttl}
	for i := range t.ways {
		t.ways[i].generation = layout.NextGeneration(rand.Uint32())
	}
	return t
}

// lock takes the stripes of both sets, the lower one first, so that two callers
// never wait for each other.
func (t *table) lock(s sets) {
	a, b := s.stripes(t)
	t.stripes[a].Lock()
	if a != b {
		t.stripes[b].Lock()
	}
}

func (t *table) unlock(s sets) {
	a, b := s.stripes(t)
	if a != b {
		t.stripes[b].Unlock()
	}
	t.stripes[a].Unlock()
}

func (s sets) stripes(t *table) (low, high uint32) {
	n := uint32(len(t.stripes))
	a, b := s[0]%n, s[1]%n
	return min(a, b), max(a, b)
}

func (t *table) lockAll() {
	for i := range t.stripes {
		t.stripes[i].Lock()
	}
}

func (t *table) unlockAll() {
	for i := range t.stripes {
		t.stripes[i].Unlock()
	}
}

// find returns the index of a key.
func (t *table) find(s sets, k key) (index uint32, ok bool) {
	for _, set := range s {
		first := set * layout.Ways
		for i := range t.ways[first:][:layout.Ways] {
			if w := &t.ways[first+uint32(i)]; w.number == k.number && w.used && w.hash == k.hash {
				return first + uint32(i), true
			}
		}
	}
	return 0, false
}

// choose returns the way that a key which is not in the table shall take: an
// empty or else an expired way of the first set while it has few live keys, then of
// the emptier set, else the least recently modified one of both sets.
//
// The first set is preferred for the readers' sake: they look there first, and alone
// as long as that mostly finds. It costs nothing, as what two choices are for, full
// sets, is decided by those that come when a set has more.
//
// Emptier is measured in the life that is left: a live key weighs two, plus the
// part of its time to live that is ahead of it. Counting keys alone makes sets
// swing (a set that is low gets many keys at once, which later expire at once): in
// the steady state of a table with 80 % live keys it pushes out twenty times more
// of them than this does.
func (t *table) choose(s sets, now time.Duration) (index uint32) {
	a, b := t.survey(s[0], now), t.survey(s[1], now)
	switch {
	case a.live < fewLive:
	case a.live == layout.Ways && b.live == layout.Ways:
		if t.older(b.oldest, a.oldest) {
			a = b
		}
	case a.live == layout.Ways:
		a = b
	case b.live == layout.Ways:
	case b.load < a.load, b.load == a.load && b.empty && !a.empty:
		a = b
	}
	if a.empty {
		return a.free
	}
	return a.oldest // expired if any of the set is
}

// fewLive is below how many live keys of 16 the first set is taken.
const fewLive = 8

// survey is what choose needs to know of one set.
type survey struct {
	live   int           // keys whose time has not passed
	load   time.Duration // see choose
	empty  bool          // there is a way without a key
	free   uint32        // such a way
	oldest uint32        // least recently modified way with a key
}

func (t *table) survey(set uint32, now time.Duration) survey {
	first := set * layout.Ways
	v := survey{oldest: first}
	for index := first; index < first+layout.Ways; index++ {
		w := &t.ways[index]
		switch {
		case !w.used:
			if !v.empty {
				v.empty, v.free = true, index
			}
			continue
		case !t.past(w, now):
			v.live++
			v.load += 3*t.ttl - (now - w.modified)
		}
		if !t.ways[v.oldest].used || t.older(index, v.oldest) {
			v.oldest = index
		}
	}
	return v
}

func (t *table) older(a, b uint32) bool { return t.ways[a].modified < t.ways[b].modified }

func (t *table) past(w *way, now time.Duration) bool { return now-w.modified >= t.ttl }

// drop forgets the key of a way, and counts the reason.
func (t *table) drop(index uint32, now time.Duration) {
	w := &t.ways[index]
	if t.past(w, now) {
		t.expired.Add(1)
	} else {
		t.capacity.Add(1)
	}
	w.used = false
	t.used.Add(-1)
}

// take gives an empty way to a key, under a new generation.
func (t *table) take(index uint32, k key, now time.Duration) {
	w := &t.ways[index]
	w.key, w.used, w.modified = k, true, now
	w.generation = layout.NextGeneration(w.generation)
	t.used.Add(1)
}
