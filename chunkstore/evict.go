package chunkstore

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Evict drops the keys whose time has passed by now, from each table that is
// filled beyond Config.EvictFrom, and returns how many. Puts do not need it: they
// reuse such ways themselves. It is for a caller that ticks every second or so.
func (a *Arena) Evict(now time.Time) (n int) {
	return a.sweep(&a.extents, a.age(now)) + a.sweep(&a.pages, a.age(now))
}

func (a *Arena) sweep(r *region, now time.Duration) (n int) {
	if float64(r.used.Load()) <= a.cfg.EvictFrom*float64(len(r.ways)) {
		return 0
	}
	for i := range r.stripes { // one at a time: a put waits for 1/64 of the sweep
		n += a.sweepStripe(r, uint32(i), now)
	}
	return n
}

func (a *Arena) sweepStripe(r *region, i uint32, now time.Duration) (n int) {
	r.stripes[i].Lock()
	defer r.stripes[i].Unlock()
	if a.closed.Load() {
		return 0
	}
	for index := range r.waysOf(i) {
		if w := &r.ways[index]; w.used && r.past(w, now) {
			a.evict(r, index, now)
			n++
		}
	}
	return n
}

// waysOf yields the indexes of the ways that a stripe guards.
func (t *table) waysOf(stripe uint32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for first := int(stripe) * layout.Ways; first < len(t.ways); first += len(t.stripes) * layout.Ways {
			for index := first; index < first+layout.Ways; index++ {
				if !yield(uint32(index)) {
					return
				}
			}
		}
	}
}
