package chunkstore

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Publish moves a shard's published end, and its heartbeat. The entry's check is
// computed here. Within an incarnation a smaller length does not move the end
// back, and sealed stays; another incarnation replaces the entry. The ballot must
// be admitted by Leases. Errors match ErrBadPublication, ErrLease or ErrClosed. It
// does not allocate unless it returns an error, or meets a ballot that is new.
func (a *Arena) Publish(p layout.Publication) error {
	if n := len(p.Shard.Stream); n == 0 || n > layout.MaxStream || p.Entry.Incarnation == 0 {
		a.counters.bad.Add(1)
		return fmt.Errorf("%w: stream name of %d bytes (1 to %d), incarnation %x (not 0)", ErrBadPublication, n, layout.MaxStream, p.Entry.Incarnation)
	}
	k := key{layout.StreamHash(p.Shard.Stream), p.Shard.Page()}
	s := sets(a.header.Geometry.PageSetsOf(k.hash, k.number))
	hash := p.Shard.Hash(p.Entry.Incarnation)
	now := a.age(a.cfg.Clock())

	r := &a.pages
	r.lock(s)
	defer r.unlock(s)
	if a.closed.Load() {
		return ErrClosed
	}
	// Under the lock of the page: what was admitted under an older ballot is stored
	// before what a newer one publishes.
	if err := a.leases.Admit(p.Shard, p.Ballot); err != nil {
		a.counters.poisoned.Add(1)
		return err
	}
	index, ok := r.find(s, k)
	if !ok {
		index = a.claim(r, s, k, now)
	}
	offset := r.slot(index) + uint64(p.Shard.EntryOffset())
	held := layout.ParseEntry(a.mem[offset:], 0)
	next, err := a.merge(held, p)
	if err != nil {
		return err
	}
	a.update(offset, held, next.Seal(hash))
	r.ways[index].modified = now
	a.counters.publishes.Add(1)
	a.published(index, p.Shard.EntryOffset()/layout.EntrySize)
	return nil
}

// published tells who wants to know that a length page has changed.
func (a *Arena) published(index uint32, entry int) {
	if a.cfg.Published != nil {
		a.cfg.Published(index, entry)
	}
}

// merge decides what the entry becomes.
func (a *Arena) merge(held layout.Entry, p layout.Publication) (layout.Entry, error) {
	next := p.Entry
	switch {
	case held.Incarnation == 0:
	case held.Incarnation != next.Incarnation:
		a.counters.replaced.Add(1)
	case next.Length < held.Length: // late, or of a writer that is behind: only its heartbeat is news
		a.counters.stale.Add(1)
		next.Length, next.TailCRC, next.Flags = held.Length, held.TailCRC, held.Flags
	case next.Length > held.Length && held.Flags&layout.FlagSealed != 0:
		a.counters.bad.Add(1)
		return next, fmt.Errorf("%w: length %d of shard %s, which is sealed at %d", ErrBadPublication, next.Length, p.Shard, held.Length)
	default:
		// Two CRCs for one prefix: one writer is wrong, and consumers will notice
		// by the data. The later one has read the durable bytes later.
		if next.Length == held.Length && next.TailCRC != held.TailCRC {
			a.counters.conflicts.Add(1)
		}
		next.Flags |= held.Flags & layout.FlagSealed
	}
	return next, nil
}

// update stores an entry's words over the held ones. The check is stored last of
// the words that change within an incarnation; another incarnation first makes
// the entry none, and counts with its last word.
func (a *Arena) update(offset uint64, held, next layout.Entry) {
	w := next.Words()
	if held.Incarnation != next.Incarnation {
		layout.StoreWord(a.mem, offset+24, 0)
	}
	layout.StoreWord(a.mem, offset+16, w[2])
	layout.StoreWord(a.mem, offset, w[0])
	layout.StoreWord(a.mem, offset+8, w[1])
	if held.Incarnation != next.Incarnation {
		layout.StoreWord(a.mem, offset+24, w[3])
	}
}
