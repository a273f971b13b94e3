package reader

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// watchEvery is how often the watch looks at the Readers.
	watchEvery = 250 * time.Millisecond
	// watchReaders is how many Readers of one shard are looked at.
	watchReaders = 256
)

// watch looks at the Readers of a Cluster from outside, so that it can be told why one
// lags. It runs from the first question on, as long as the Cluster.
type watch struct {
	c  *Cluster
	mu struct {
		sync.Mutex
		running bool
		round   uint // of looks
		follows []*follow
		shards  map[*follow]*watched
		gate    window[gateCounts]
	}
}

// watched is what the watch knows of a shard.
type watched struct {
	round   uint // it was looked at in
	seen    []*Reader
	readers map[*Reader]*watchedReader
	gone    traceCounts // of Readers that were closed
	behind  time.Time   // since when the published length is less than the durable one; zero: it is not
	sum     traceCounts // of all that were seen
	counts  window[traceCounts]
	stored  window[uint64]
}

// watchedReader is what it knows of a Reader.
type watchedReader struct {
	last traceCounts
	// turns is trace.turns as it was last, away since when the consumer has had the
	// turn without a break; zero: it has not.
	turns uint64
	away  time.Time
	// Bytes up to mark existed at markAt, and were not delivered when that was noted;
	// passed is how long it took to deliver what was marked before.
	mark   uint64
	markAt time.Time
	passed time.Duration
	looks  looks
	window window[looks]
}

// looks counts looks at a Reader, and those that found the turn with its consumer.
type looks struct{ all, away int }

func (l looks) minus(o looks) looks { return looks{l.all - o.all, l.away - o.away} }

// gateCounts are counts of the way to the durable store.
type gateCounts struct {
	held, took time.Duration
	reads      uint64
}

// begin starts the watch unless it runs.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.running {
		return
	}
	w.mu.shards = map[*follow]*watched{}
	w.mu.running = w.c.spawn(w.run)
}

func (w *watch) run() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-w.c.stop:
			return
		case <-t.C:
			w.mu.Lock()
			w.look(time.Now())
			w.mu.Unlock()
		}
	}
}

// look looks at every Reader. The lock is held.
func (w *watch) look(now time.Time) {
	w.c.mu.Lock()
	for _, f := range w.c.mu.follows {
		w.mu.follows = append(w.mu.follows, f)
	}
	w.c.mu.Unlock()
	w.mu.round++
	for _, f := range w.mu.follows {
		s := w.mu.shards[f]
		if s == nil {
			s = &watched{readers: map[*Reader]*watchedReader{}}
			w.mu.shards[f] = s
		}
		s.round = w.mu.round
		s.look(f, now)
	}
	if len(w.mu.shards) > len(w.mu.follows) {
		maps.DeleteFunc(w.mu.shards, func(_ *follow, s *watched) bool { return s.round != w.mu.round })
	}
	clear(w.mu.follows)
	w.mu.follows = w.mu.follows[:0]
	w.mu.gate.roll(now, w.c.gateCounts())
}

func (c *Cluster) gateCounts() gateCounts {
	t := c.count.times[FromDurable].Snapshot()
	return gateCounts{held: time.Duration(c.count.durableHeld.Load()), took: t.Sum, reads: t.Count}
}

func (s *watched) look(f *follow, now time.Time) {
	f.mu.Lock()
	s.seen = append(s.seen[:0], f.mu.readers[:min(len(f.mu.readers), watchReaders)]...)
	published, stored := f.mu.pub.length, f.mu.stored
	f.mu.Unlock()
	switch {
	case published >= stored:
		s.behind = time.Time{}
	case s.behind.IsZero():
		s.behind = now
	}
	for _, r := range s.seen {
		k := s.readers[r]
		if k == nil {
			k = &watchedReader{}
			s.readers[r] = k
		}
		k.look(r, max(published, stored), now)
	}
	s.sum = s.gone
	for r, k := range s.readers {
		if len(s.readers) > len(s.seen) && !slices.Contains(s.seen, r) {
			s.gone = s.gone.plus(k.last)
			delete(s.readers, r)
		}
		s.sum = s.sum.plus(k.last)
	}
	clear(s.seen)
	s.counts.roll(now, s.sum)
	s.stored.roll(now, stored)
}

func (k *watchedReader) look(r *Reader, end uint64, now time.Time) {
	turns := r.trace.turns.Load()
	k.looks.all++
	switch away := turns%2 == 0; {
	case !away:
		k.away = time.Time{}
	case turns != k.turns || k.away.IsZero():
		k.away = now
		k.looks.away++
	default:
		k.looks.away++
	}
	k.turns = turns
	k.window.roll(now, k.looks)
	if pos := r.pos.Load(); pos >= k.mark {
		k.passed = 0
		if d := now.Sub(k.markAt); k.mark > 0 && pos < end && d > 2*watchEvery {
			k.passed = d
		}
		k.mark, k.markAt = end, now
	}
	k.last = r.trace.counts()
}

// lag is for how long the oldest byte has waited that is not delivered.
func (k *watchedReader) lag(pos, end uint64, now time.Time) time.Duration {
	switch {
	case pos >= end:
		return 0
	case pos >= k.mark:
		return k.passed
	}
	return max(k.passed, now.Sub(k.markAt))
}
