package chunkstore

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Entry returns what the arena has published of a shard; ok is false if it has
// nothing. For a caller that looks now and then: it takes the locks of a put.
func (a *Arena) Entry(shard layout.Shard) (e layout.Entry, ok bool) {
	k := key{layout.StreamHash(shard.Stream), shard.Page()}
	s := sets(a.header.Geometry.PageSetsOf(k.hash, k.number))
	r := &a.pages
	r.lock(s)
	defer r.unlock(s)
	if a.closed.Load() {
		return e, false
	}
	index, ok := r.find(s, k)
	if !ok {
		return e, false
	}
	e = layout.ParseEntry(a.mem[r.slot(index)+uint64(shard.EntryOffset()):], 0)
	return e, e.Incarnation != 0
}

// Holds reports whether the arena holds any of an extent.
func (a *Arena) Holds(shard layout.Hash, extent uint64) bool {
	_, ok := a.Slot(shard, extent)
	return ok
}

// Slot returns where in the arena an extent is, if it is there: a moment later it may
// have been evicted, and the slot be another one's.
func (a *Arena) Slot(shard layout.Hash, extent uint64) (offset uint64, ok bool) {
	s := sets(a.header.Geometry.ExtentSetsOf(shard, extent))
	r := &a.extents
	r.lock(s)
	defer r.unlock(s)
	index, ok := r.find(s, key{shard, extent})
	return r.slot(index), ok
}

// TTL is how long an extent lives after its last put.
func (a *Arena) TTL() time.Duration { return a.extents.ttl }

// LeasedShard is a shard whose writer is known, or was.
type LeasedShard struct {
	Shard layout.Shard
	Lease
	// Released: the writer has given the lease back.
	Released bool
}

// Recent returns at most so many shards that are or were leased, the one renewed last
// first.
func (l *Leases) Recent(most int) []LeasedShard {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]LeasedShard, 0, min(most, len(l.mu.held)))
	for h := l.mu.latest; h != nil && len(all) < most; h = h.older {
		all = append(all, LeasedShard{h.shard, l.state(h.shard), h.until.IsZero()})
	}
	return all
}
