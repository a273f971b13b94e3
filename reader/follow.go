package reader

import (
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// follow is what a Cluster knows of one shard, shared by its Readers: the
// greatest valid length, the producer's heartbeat, the durable length. Lengths
// only rise: a smaller one is an older replica's, not a truncation.
type follow struct {
	shard layout.Shard
	key   shardKey
	hash  layout.Hash

	mu struct {
		sync.Mutex
		pub      published
		stored   uint64
		sealed   bool      // the store says so
		other    bool      // an entry of another incarnation was seen
		beat     uint64    // producer's heartbeat, as last seen
		beatAt   time.Time // when it changed, by this host's clock
		statAt   time.Time // when to ask the store for its length
		statRest time.Duration
		readers  []*Reader
	}
}

func newFollow(shard layout.Shard, incarnation uint64) *follow {
	return &follow{shard: shard, key: shardKey{shard.String(), incarnation}, hash: shard.Hash(incarnation)}
}

const (
	// beatStale is without a new heartbeat (one a second) when the cache may be
	// behind the store: then the store is asked, rarer and rarer.
	beatStale   = 2500 * time.Millisecond
	statRestMin = 250 * time.Millisecond
	statRestMax = 5 * time.Second
)

// view returns what a Reader decides upon. blind says that no length comes from
// the cache at present.
func (f *follow) view(now time.Time, paths int, blind bool) (view, published) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := view{now: now, length: f.mu.pub.length, stored: f.mu.stored, paths: paths}
	v.sealed = f.mu.pub.sealed || f.mu.sealed
	v.blind = blind
	if v.sealed {
		return v, f.mu.pub
	}
	if blind || f.mu.other || now.Sub(f.mu.beatAt) >= beatStale {
		v.statAt = f.mu.statAt
		if v.statAt.IsZero() {
			v.statAt = now
		}
	} else {
		v.statAt = f.mu.beatAt.Add(beatStale)
	}
	return v, f.mu.pub
}

// entry takes a shard entry from a length page. It returns why the entry was
// not used, or proven.
func (f *follow) entry(e layout.Entry, now time.Time) (why reason, moved bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.Incarnation != f.key.incarnation && e.Incarnation != 0:
		if !e.Valid(f.shard.Hash(e.Incarnation)) {
			return reasonEntry, false
		}
		if !f.mu.other { // once until the store has been asked, not at every poll
			f.mu.other = true
			f.wake()
		}
		return reasonEntry, false
	case !e.Valid(f.hash):
		return reasonEntry, false
	}
	if e.HeartbeatMS != f.mu.beat {
		f.mu.beat, f.mu.beatAt = e.HeartbeatMS, now
		f.mu.statAt, f.mu.statRest = time.Time{}, 0
	}
	sealed := e.Flags&layout.FlagSealed != 0
	switch {
	case e.Length < f.mu.pub.length:
		return reasonStale, false
	case e.Length == f.mu.pub.length && sealed == f.mu.pub.sealed && f.mu.pub.tailCRC == e.TailCRC:
		return proven, false
	}
	f.mu.pub = published{e.Length, e.TailCRC, sealed}
	f.wake()
	return proven, true
}

// claimStat lets one Reader of many ask the store.
func (f *follow) claimStat(now time.Time, blind bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.mu.statAt) {
		return false
	}
	rest := statRestMin // the store is all there is
	if !blind {
		rest = min(max(2*f.mu.statRest, statRestMin), statRestMax)
	}
	f.mu.statRest = rest
	f.mu.statAt = now.Add(rest)
	return true
}

// asked takes that the store has answered a claimStat, or did not in time: the
// rest begins now.
func (f *follow) asked(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.statAt = now.Add(max(f.mu.statRest, statRestMin))
}

// info takes the store's answer. ok is false when it is of another incarnation.
func (f *follow) info(i durable.Info) (ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.Incarnation != f.key.incarnation {
		return false
	}
	f.mu.other = false
	if i.Length > f.mu.stored || i.Sealed && !f.mu.sealed { // answers may overtake each other
		f.mu.statRest = 0 // there may be more
		f.mu.stored, f.mu.sealed = max(i.Length, f.mu.stored), i.Sealed || f.mu.sealed
		f.wake()
	}
	return true
}

// join adds a Reader; leave takes it away, and reports whether it was the last one.
func (f *follow) join(r *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.seat = len(f.mu.readers)
	f.mu.readers = append(f.mu.readers, r)
}

func (f *follow) leave(r *Reader) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.seat < 0 {
		return false
	}
	end := len(f.mu.readers) - 1
	moved := f.mu.readers[end]
	f.mu.readers[r.seat], moved.seat = moved, r.seat
	f.mu.readers[end] = nil
	f.mu.readers, r.seat = f.mu.readers[:end], -1
	return end == 0
}

// wake tells every Reader that there is news. The lock is held.
func (f *follow) wake() {
	for _, r := range f.mu.readers {
		r.wake()
	}
}
