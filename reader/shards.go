package reader

import (
	"cmp"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// ShardStats is how one followed shard fares by what this process knows, and why.
type ShardStats struct {
	Shard string
	cause.Verdict
	Readers int
	// Position is that of the Reader which is the furthest behind, Length how far bytes
	// are known to exist, Lag the difference.
	Position, Length, Lag uint64
	// LagTime is for how long bytes have waited for that Reader, to a quarter second.
	LagTime time.Duration
	// HeartbeatAge is how long ago the producer's heartbeat has moved, PublishedAge how
	// long ago the published length has; negative: not seen.
	HeartbeatAge, PublishedAge time.Duration
}

// Shards returns how the followed shards fare, by name. The first call begins to look
// at them, Open does with a Registerer; what takes two looks is told a little later.
func (c *Cluster) Shards() []ShardStats {
	w := &c.observer
	w.begin()
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(now)
	all := make([]ShardStats, 0, len(w.mu.shards))
	for f, s := range w.mu.shards {
		all = append(all, w.stats(f, s, now))
	}
	slices.SortFunc(all, func(a, b ShardStats) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(b.State, a.State))
	})
	return all
}

// stats is what is known of a shard. The lock is held.
func (w *observer) stats(f *follow, s *observed, now time.Time) ShardStats {
	facts := w.facts(f, s, now)
	st := ShardStats{Shard: f.key.name, Verdict: cause.Decide(facts), Readers: f.watchers(),
		Position: facts.Position.V, Length: f.end(), LagTime: facts.LagAge.V, HeartbeatAge: -1, PublishedAge: -1}
	st.Lag = st.Length - min(st.Position, st.Length)
	if facts.HeartbeatAge.Known {
		st.HeartbeatAge = facts.HeartbeatAge.V
	}
	if facts.PublishedAge.Known {
		st.PublishedAge = facts.PublishedAge.V
	}
	return st
}

// watchers is how many Readers follow the shard.
func (f *follow) watchers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.readers)
}

// facts are a shard's. The lock is held.
func (w *observer) facts(f *follow, s *observed, now time.Time) cause.Facts {
	facts := cause.Facts{Window: s.counts.length(now)}
	f.tell(&facts, now)
	w.cache(f, &facts, now)
	if facts.Window > 0 {
		s.reads(&facts)
		w.store(f, s, &facts, now)
	}
	s.consumer(f, &facts, now)
	return facts
}

// tell tells what the cache and the store have said of the shard.
func (f *follow) tell(facts *cause.Facts, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	facts.Stored = cause.Know(f.mu.stored)
	facts.Sealed = f.mu.pub.sealed || f.mu.sealed
	switch {
	case f.mu.seen:
		facts.Published, facts.CacheKnows = cause.Know(f.mu.pub.length), cause.Know(true)
	case f.mu.misses >= absentMisses:
		facts.CacheKnows = cause.Know(false)
	}
	if !f.mu.beatAt.IsZero() {
		facts.HeartbeatAge = cause.Know(max(now.Sub(f.mu.beatAt), 0))
	}
	if !f.mu.pubAt.IsZero() {
		facts.PublishedAge = cause.Know(max(now.Sub(f.mu.pubAt), 0))
	}
}

// cache tells whether the cache can be asked, and how.
func (w *observer) cache(f *follow, facts *cause.Facts, now time.Time) {
	ro := w.c.roster.Load()
	if ro == nil { // the durable store is all there is
		facts.HeartbeatAge, facts.CacheKnows = cause.Maybe[time.Duration]{}, cause.Maybe[bool]{}
		return
	}
	blind := f.page.isBlind(now)
	facts.CacheAnswers = cause.Know(!blind)
	if blind { // it is not the producer who is silent
		facts.HeartbeatAge = cause.Maybe[time.Duration]{}
	}
	end := max(facts.Published.V, facts.Stored.V, 1)
	best, used := ro.transports(f.hash, layout.Extent(end-1), now)
	facts.Best, facts.Used = cause.Know(best), cause.Know(used)
}

// reads tells what came from where in the window.
func (s *observed) reads(facts *cause.Facts) {
	n := s.sum.minus(s.counts.old)
	facts.FromCache, facts.FromStore = cause.Know(n.fromCache), cause.Know(n.fromStore)
	facts.Holes, facts.ReadsFailed, facts.StoreRefused = cause.Know(n.holes), cause.Know(n.failed), cause.Know(n.refused)
}

// store tells how the durable store does, as far as the shard needs it: the limits are
// those of all shards together.
func (w *observer) store(f *follow, s *observed, facts *cause.Facts, now time.Time) {
	if !s.behind.IsZero() {
		facts.BehindFor = cause.Know(now.Sub(s.behind))
	}
	if !facts.HeartbeatAge.Known || facts.HeartbeatAge.V >= beatStale { // else nobody asks the store how long it is
		facts.StoredGrew = cause.Know(facts.Stored.V - s.stored.old)
	}
	wait := w.c.gate.waits(f.key, now)
	facts.StoreWait = cause.Know(wait)
	if wait == 0 && facts.FromStore.V == 0 && facts.StoreRefused.V == 0 {
		return
	}
	g := w.c.gateCounts()
	if window := w.mu.gate.length(now); window > 0 {
		facts.StoreHeld = cause.Know(min((g.held-w.mu.gate.old.held).Seconds()/window.Seconds(), 1))
	}
	if n := g.reads - w.mu.gate.old.reads; n > 0 {
		facts.StoreTime = cause.Know((g.took - w.mu.gate.old.took) / time.Duration(n))
	}
}

// consumer tells of the Reader that is the furthest behind.
func (s *observed) consumer(f *follow, facts *cause.Facts, now time.Time) {
	var last *Reader
	for r := range s.readers {
		if last == nil || r.pos.Load() < last.pos.Load() {
			last = r
		}
	}
	if last == nil {
		return
	}
	k, pos := s.readers[last], last.pos.Load()
	facts.Position = cause.Know(pos)
	facts.LagAge = cause.Know(k.lag(pos, f.end(), now))
	facts.ConsumerAway = cause.Know(time.Duration(0))
	if !k.away.IsZero() {
		facts.ConsumerAway = cause.Know(now.Sub(k.away))
	}
	if n := k.looks.minus(k.window.old); n.all > 0 {
		facts.ConsumerShare = cause.Know(float64(n.away) / float64(n.all))
	}
	facts.CatchingUp = pos < last.trace.born.Load()
	facts.Capped = last.trace.capped.Load()
}
