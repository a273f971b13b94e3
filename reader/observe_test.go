package reader

import (
	"fmt"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// observedCluster has shards with a Reader each, of which nothing is known but lengths.
func observedCluster(t testing.TB, shards int) (*Cluster, []*Reader) {
	t.Helper()
	c := bareCluster(t, &positionStore{})
	c.observer.mu.shards = map[*follow]*observed{}
	var readers []*Reader
	for i := range shards {
		f := newFollow(layout.Shard{Stream: fmt.Sprintf("s%d", i)}, 1)
		f.page = newPage(c.roster.Load(), f.shard)
		f.mu.pub.length = 1000
		r := &Reader{c: c, f: f, news: make(chan struct{}, 1)}
		f.join(r)
		c.mu.follows[f.key] = f
		readers = append(readers, r)
	}
	return c, readers
}

// look has the observer look after d.
func (o *observer) lookAfter(now *time.Time, d time.Duration) {
	*now = now.Add(d)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look(*now)
}

// TestObserverMeasuresLag: for how long the oldest byte has waited, while a Reader lags by
// a constant time, catches up, and stands still.
func TestObserverMeasuresLag(t *testing.T) {
	c, readers := observedCluster(t, 1)
	r, now := readers[0], time.Unix(1000, 0)
	lag := func() time.Duration {
		k := c.observer.mu.shards[r.f].readers[r]
		return k.lag(r.pos.Load(), r.f.end(), now)
	}
	r.pos.Store(1000)
	c.observer.lookAfter(&now, 0)
	if lag() != 0 {
		t.Errorf("with everything: %v", lag())
	}
	r.f.mu.pub.length = 2000
	for range 8 {
		c.observer.lookAfter(&now, observeEvery)
	}
	if d := lag(); d < 2*time.Second-2*observeEvery || d > 2*time.Second {
		t.Errorf("2 s after bytes came: %v", d)
	}
	// Each second brings 1000 bytes, and 1000 are delivered: it stays some 2 s behind.
	for range 40 {
		r.f.mu.pub.length += 250
		r.pos.Add(250)
		c.observer.lookAfter(&now, observeEvery)
	}
	for range 12 {
		r.f.mu.pub.length += 250
		r.pos.Add(250)
		c.observer.lookAfter(&now, observeEvery)
		if d := lag(); d < 500*time.Millisecond || d > 5*time.Second {
			t.Errorf("1000 bytes behind at 1000 B/s: %v", d)
		}
	}
	r.pos.Store(r.f.mu.pub.length)
	c.observer.lookAfter(&now, observeEvery)
	if lag() != 0 {
		t.Errorf("caught up: %v", lag())
	}
}

// TestObserverCountsOverReadersThatLeave: what a closed Reader has read still counts, and
// a shard that nobody follows is forgotten.
func TestObserverCountsOverReadersThatLeave(t *testing.T) {
	c, readers := observedCluster(t, 2)
	now := time.Unix(1000, 0)
	c.observer.lookAfter(&now, 0)
	r := readers[0]
	r.trace.delivered(FromDurable, 70)
	r.trace.delivered(FromTCP, 30)
	c.observer.lookAfter(&now, observeEvery)
	other := &Reader{c: c, f: r.f, news: make(chan struct{}, 1)}
	r.f.join(other)
	r.f.leave(r)
	other.trace.delivered(FromDurable, 5)
	c.observer.lookAfter(&now, observeEvery)
	s := c.observer.mu.shards[r.f]
	if s.sum != (traceCounts{fromCache: 30, fromStore: 75}) || len(s.readers) != 1 {
		t.Errorf("%+v of %d Readers", s.sum, len(s.readers))
	}
	delete(c.mu.follows, r.f.key)
	c.observer.lookAfter(&now, observeEvery)
	if len(c.observer.mu.shards) != 1 {
		t.Errorf("%d shards are remembered", len(c.observer.mu.shards))
	}
}

// TestObserverTellsWhoHasTheTurn: a consumer that is away, one that takes most of the
// time, one that waits.
func TestObserverTellsWhoHasTheTurn(t *testing.T) {
	c, readers := observedCluster(t, 3)
	now := time.Unix(1000, 0)
	away, busy, waits := readers[0], readers[1], readers[2]
	for _, r := range []*Reader{busy, waits} {
		r.trace.turn()
	}
	for i := range 40 {
		if i%4 == 0 || i%4 == 1 {
			busy.trace.turn() // out of Next for three looks of four
		}
		c.observer.lookAfter(&now, observeEvery)
	}
	for _, k := range []struct {
		r           *Reader
		away        time.Duration
		least, most float64
	}{{away, 39 * observeEvery, 1, 1}, {busy, 0, 0.1, 0.9}, {waits, 0, 0, 0}} {
		s := c.observer.mu.shards[k.r.f]
		f := c.observer.facts(k.r.f, s, now)
		if f.ConsumerShare.V < k.least || f.ConsumerShare.V > k.most {
			t.Errorf("share %v, want %v to %v", f.ConsumerShare.V, k.least, k.most)
		}
		if k.r != busy && f.ConsumerAway.V != k.away {
			t.Errorf("away for %v, want %v", f.ConsumerAway.V, k.away)
		}
	}
}

// BenchmarkObserver is one look at 10,000 shards with a Reader each: four a second.
func BenchmarkObserver(b *testing.B) {
	c, _ := observedCluster(b, 10_000)
	now := time.Unix(1000, 0)
	c.observer.lookAfter(&now, 0)
	b.ReportAllocs()
	for b.Loop() {
		c.observer.lookAfter(&now, observeEvery)
	}
}
