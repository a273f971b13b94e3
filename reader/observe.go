package reader

import (
	"slices"
	"sync"
	"time"
)

const (
	// observeEvery is how often the observer looks at the Readers.
	observeEvery = 250 * time.Millisecond
	// observeReaders is how many Readers of one shard are looked at.
	observeReaders = 256
)

// observer looks at the Readers of a Cluster from outside, so that it can be told why one
// lags. It runs from the first question on, as long as the Cluster.
type observer struct {
	c  *Cluster
	mu struct {
		sync.Mutex
		running bool
		shards  map[*follow]*observed
		gate    window[gateCounts]
	}
}

// observed is what the observer knows of a shard.
type observed struct {
	seen    []*Reader
	readers map[*Reader]*observedReader
	gone    traceCounts // of Readers that were closed
	behind  time.Time   // since when the published length is less than the durable one; zero: it is not
	sum     traceCounts // of all that were seen
	counts  window[traceCounts]
	stored  window[uint64]
}

// observedReader is what it knows of a Reader.
type observedReader struct {
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

// begin starts the observer unless it runs.
func (w *observer) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.running {
		return
	}
	w.mu.shards = map[*follow]*observed{}
	w.mu.running = w.c.spawn(w.run)
}

func (w *observer) run() {
	t := time.NewTicker(observeEvery)
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
func (w *observer) look(now time.Time) {
	w.c.mu.Lock()
	follows := make([]*follow, 0, len(w.c.mu.follows))
	for _, f := range w.c.mu.follows {
		follows = append(follows, f)
	}
	w.c.mu.Unlock()
	stays := make(map[*follow]bool, len(follows))
	for _, f := range follows {
		stays[f] = true
		s := w.mu.shards[f]
		if s == nil {
			s = &observed{readers: map[*Reader]*observedReader{}}
			w.mu.shards[f] = s
		}
		s.look(f, now)
	}
	for f := range w.mu.shards {
		if !stays[f] {
			delete(w.mu.shards, f)
		}
	}
	w.mu.gate.roll(now, w.c.gateCounts())
}

func (c *Cluster) gateCounts() gateCounts {
	t := c.count.times[FromDurable].Snapshot()
	return gateCounts{held: time.Duration(c.count.durableHeld.Load()), took: t.Sum, reads: t.Count}
}

func (s *observed) look(f *follow, now time.Time) {
	f.mu.Lock()
	s.seen = append(s.seen[:0], f.mu.readers[:min(len(f.mu.readers), observeReaders)]...)
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
			k = &observedReader{}
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

func (k *observedReader) look(r *Reader, end uint64, now time.Time) {
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
		if d := now.Sub(k.markAt); k.mark > 0 && pos < end && d > 2*observeEvery {
			k.passed = d
		}
		k.mark, k.markAt = end, now
	}
	k.last = r.trace.counts()
}

// lag is for how long the oldest byte has waited that is not delivered.
func (k *observedReader) lag(pos, end uint64, now time.Time) time.Duration {
	switch {
	case pos >= end:
		return 0
	case pos >= k.mark:
		return k.passed
	}
	return max(k.passed, now.Sub(k.markAt))
}
