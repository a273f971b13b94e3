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
	page  *page // set when it is polled

	mu struct {
		sync.Mutex
		pub      published
		stored   uint64
		sealed   bool      // the store says so
		seen     bool      // a valid entry was seen
		misses   int       // looks at the cache that found no entry, before that
		lacking  uint64    // replicas of the page that have none, in the look under way
		other    bool      // an entry of another incarnation was seen
		beat     uint64    // producer's heartbeat, the latest one seen
		oldBeat  uint64    // the latest of those before it that some replica still has
		beatAt   time.Time // when it moved, by this host's clock
		pubAt    time.Time // when the length did
		statAt   time.Time // when to ask the store for its length
		statRest time.Duration
		readers  []*Reader
		hot      hot  // what came along with the last news
		cold     bool // it was not right
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

// absentMisses looks at all replicas that find no entry make a shard absent from the cache: more
// than one, as an identity may have been read half written.
const absentMisses = 2

// missed takes that one of the replicas of the length page, as a bit, has no entry
// of the shard; reachable are those that can be asked. When all of them have said
// so, the cache has been looked at once.
//
// wanted: the shard was never seen, and the others are still to be asked. known:
// another replica has had the entry.
func (f *follow) missed(replica, reachable uint64) (wanted, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.seen || f.mu.misses >= absentMisses {
		return false, f.mu.seen
	}
	f.mu.lacking |= replica
	if reachable&^f.mu.lacking != 0 {
		return true, false
	}
	f.mu.lacking = 0
	if f.mu.misses++; f.mu.misses < absentMisses {
		return true, false
	}
	f.wake()
	return false, false
}

// moved takes that the length page has other replicas now.
func (f *follow) moved() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.lacking = 0
}

// view returns what a Reader decides upon, but for the paths. blind says that no
// length comes from the cache at present.
func (f *follow) view(now time.Time, blind bool) (view, published) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := view{now: now, length: f.mu.pub.length, stored: f.mu.stored}
	v.sealed = f.mu.pub.sealed || f.mu.sealed
	v.blind = blind
	v.absent = !blind && !f.mu.seen && f.mu.misses >= absentMisses
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

// published returns the greatest valid length.
func (f *follow) published() published {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.pub
}

// end returns how far bytes are known to exist.
func (f *follow) end() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.mu.pub.length, f.mu.stored)
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
	f.mu.seen = true
	if f.beats(e.HeartbeatMS) {
		f.mu.beatAt = now
		f.mu.statAt, f.mu.statRest = time.Time{}, 0
	}
	sealed := e.Flags&layout.FlagSealed != 0
	switch {
	case e.Length < f.mu.pub.length:
		return reasonStale, false
	case e.Length == f.mu.pub.length && sealed == f.mu.pub.sealed && f.mu.pub.tailCRC == e.TailCRC:
		return proven, false
	}
	f.mu.pub, f.mu.pubAt = published{e.Length, e.TailCRC, sealed}, now
	f.wake()
	return proven, true
}

// beats takes a heartbeat and reports whether the producer lives. That of a replica
// which is behind is an old one, again and again: no sign of life. One that rises is,
// also when it is an old one, as the producer's clock may have been set back. The
// lock is held.
func (f *follow) beats(beat uint64) bool {
	switch {
	case beat > f.mu.beat:
		f.mu.beat = beat
	case beat < f.mu.beat && beat > f.mu.oldBeat:
		f.mu.oldBeat = beat
	default:
		return false
	}
	return true
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
