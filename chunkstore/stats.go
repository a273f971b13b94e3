package chunkstore

import (
	"sync/atomic"
	"time"
)

type counters struct {
	puts, deltas, duplicates, prefixMisses, conflicts, bad atomic.Uint64
	publishes, stale, replaced, poisoned                   atomic.Uint64
}

// Stats are counts since New, and the state of both tables.
type Stats struct {
	Puts         uint64 // accepted puts, duplicates included
	Deltas       uint64 // those of them that did not begin at the chunk's start
	Duplicates   uint64 // those of them that brought nothing new
	PrefixMisses uint64 // puts refused as the node lacks the prefix
	Conflicts    uint64 // puts and publications whose bytes or CRC contradict what was held
	Bad          uint64 // puts and publications refused as malformed
	Publishes    uint64 // accepted publications
	Stale        uint64 // those of them with a smaller length, which did not move the end
	Replaced     uint64 // those of them that replaced another incarnation
	Poisoned     uint64 // publications refused as another writer holds the lease
	Leases       int    // leases known
	Forgotten    uint64 // leases forgotten for want of room
	Extents      TableStats
	Pages        TableStats
}

// TableStats is the state of one table.
type TableStats struct {
	Ways     int           // how many keys it can hold
	Used     int           // how many it holds
	Expired  uint64        // evictions of keys whose time had passed
	Capacity uint64        // evictions of keys that were still live: the arena is too small
	Oldest   time.Duration // age of the least recently modified key; 0 when empty
}

// Stats takes a snapshot. It looks at every way (about 40 B each), a 64th of
// them at a time under a lock: for a caller that asks every second, not every put.
func (a *Arena) Stats() Stats {
	now := a.age(a.cfg.Clock())
	c := &a.counters
	leases, forgotten := a.leases.Count()
	return Stats{
		Puts: c.puts.Load(), Deltas: c.deltas.Load(), Duplicates: c.duplicates.Load(),
		PrefixMisses: c.prefixMisses.Load(), Conflicts: c.conflicts.Load(), Bad: c.bad.Load(),
		Publishes: c.publishes.Load(), Stale: c.stale.Load(), Replaced: c.replaced.Load(), Poisoned: c.poisoned.Load(), Leases: leases, Forgotten: forgotten,
		Extents: a.extents.stats(now), Pages: a.pages.stats(now),
	}
}

func (t *table) stats(now time.Duration) TableStats {
	s := TableStats{Ways: len(t.ways), Expired: t.expired.Load(), Capacity: t.capacity.Load()}
	for i := range t.stripes {
		t.stripes[i].Lock()
		for index := range t.waysOf(uint32(i)) {
			if w := &t.ways[index]; w.used {
				s.Used++
				s.Oldest = max(s.Oldest, now-w.modified)
			}
		}
		t.stripes[i].Unlock()
	}
	return s
}
