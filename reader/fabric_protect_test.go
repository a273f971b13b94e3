package reader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma/local"
)

// TestFabricRate: a Reader with a rate takes no more, whether its bytes come from
// memory or from the store; one without is not held up by it.
func TestFabricRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []int64{20_000, 3 << 20} {
			for _, lost := range []bool{false, true} {
				s := newSite(t, siteNodes("a", "b", "c"), 16<<20, FromTCP)
				total := uint64(2 * rate)
				s.append(int(total))
				s.publish(0)
				if lost {
					s.kill("a", "b", "c")
				}
				r, err := s.c.Reader(t.Context(), "fabric/3", Earliest(), Rate(rate))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, by := s.delays(r, total)
				// The last step is delivered before it is paid for; a step is at least a chunk.
				least, most := 1800*time.Millisecond, 2200*time.Millisecond
				if lost {
					least, most = 0, most+2*time.Second // the store is asked for at least 64 KiB
				}
				if d := time.Since(start); d < least || d > most || (by[FromDurable] > 0) != lost {
					t.Errorf("rate %d, cache lost %v: took %v, by source %v", rate, lost, d, by)
				}
				r.Close()
				s.c.Close()
			}
		}
	})
}

// TestFabricBytesInFlight: many Readers of a slow network share its budget. What is on
// its way is never more, no Reader starves, and none is sent to the store.
func TestFabricBytesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 512 << 10
		s := newSite(t, siteNodes("a", "b", "c"), 16<<20, FromTCP, func(c *Config) { c.BytesInFlight = limit })
		defer s.c.Close()
		n := newNIC(limit)
		for _, p := range s.c.roster.Load().peers {
			for _, via := range p.paths(time.Now()) {
				via.nic = n
			}
		}
		s.mix(faults{slow: 1, delay: 2 * time.Millisecond}, "a", "b", "c")
		const total, readers = 2 << 20, 40
		s.append(total)
		s.publish(0)
		var all sync.WaitGroup
		took := make([]time.Duration, readers)
		for i := range readers {
			all.Go(func() {
				r := openAt(t, s.c, Earliest())
				defer r.Close()
				start := time.Now()
				s.delays(r, total)
				took[i] = time.Since(start)
			})
		}
		done := make(chan struct{})
		most := int64(0)
		go func() {
			defer close(done)
			for range 2000 {
				<-time.After(100 * time.Microsecond)
				for _, b := range []*budget{&n.wanted, &n.ahead} {
					b.mu.Lock()
					most = max(most, b.mu.used)
					b.mu.Unlock()
				}
			}
		}()
		all.Wait()
		<-done
		least, longest := took[0], took[0]
		for _, d := range took {
			least, longest = min(least, d), max(longest, d)
		}
		st := s.c.Stats()
		if most > limit || most < limit/4 {
			t.Errorf("%d bytes on their way, want at most %d", most, limit)
		}
		if longest > 3*least || s.store.reads != 0 || st.Retries["budget"] != 0 {
			t.Errorf("took %v to %v, %d durable reads, retries %v", least, longest, s.store.reads, st.Retries)
		}
		if n.wanted.mu.used != 0 || n.ahead.mu.used != 0 {
			t.Errorf("%d and %d bytes are never given back", n.wanted.mu.used, n.ahead.mu.used)
		}
		t.Logf("took %v to %v, at most %d bytes", least, longest, most)
	})
}

// TestFabricHedgeBesideABudget: a replica does not answer, and the bytes that were asked of
// it are all that may be on their way. The second replica is asked all the same.
func TestFabricHedgeBesideABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 16<<20, FromTCP, func(c *Config) { c.ReadTimeout = 10 * time.Second })
		defer s.c.Close()
		n := newNIC(16 << 10)
		for _, p := range s.c.roster.Load().peers {
			for _, via := range p.paths(time.Now()) {
				via.nic = n
			}
		}
		s.append(4096)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		s.delays(r, 4096)
		s.mix(faults{deadline: 1}, used(s.c))
		for i := range 20 { // until it is asked
			s.append(4096)
			s.publish(0)
			if !n.wanted.try(4096) { // others' bytes: what is left is enough for one
				t.Fatalf("round %d: %d bytes are not given back", i, n.wanted.mu.used)
			}
			d, _ := s.delays(r, s.pos)
			n.wanted.give(4096)
			if most := 2*s.c.cfg.HedgeDelay + s.c.cfg.PollMax + 10*time.Millisecond; percentile(d, 100) > most {
				t.Fatalf("round %d: delivered after %v, want at most %v", i, percentile(d, 100), most)
			}
			<-time.After(s.c.cfg.ReadTimeout + time.Second) // what lost is given back, and what has failed rests no more
		}
		if st := s.c.Stats(); st.HedgeWins == 0 {
			t.Errorf("the replica that does not answer was never asked: %+v", st)
		}
	})
}

// TestFabricFlightKeepsItsBudget: for which there is no memory, so that a smaller one is
// tried: that is paid for as well.
func TestFabricFlightKeepsItsBudget(t *testing.T) {
	b := newFlightBench(t, 3*layout.ExtentSize)
	n := newNIC(1 << 20)
	b.via.memory, b.via.nic = shortOfMemory{b.via.memory, smallFlight}, n
	c := bareCluster(t, b.store)
	defer c.Close()
	r := &Reader{c: c}
	r.ctx = t.Context()
	o := b.order(0, prefixAt(b.hash(), 0), 1<<20)
	if err := r.launch(&b.f, o, time.Now()); err != nil || b.f.size != smallFlight {
		t.Fatalf("%v, a batch of %d bytes, want a small one", err, b.f.size)
	}
	if n.wanted.mu.used == 0 {
		t.Error("a flight is on its way that nothing was paid for")
	}
	b.f.release()
	if n.wanted.mu.used != 0 {
		t.Errorf("%d bytes are never given back", n.wanted.mu.used)
	}
}

// shortOfMemory has no batches of more than most bytes.
type shortOfMemory struct {
	memory
	most int
}

func (m shortOfMemory) newBatch(size int) (batch, error) {
	if size > m.most {
		return nil, local.ErrNoBuffers
	}
	return m.memory.newBatch(size)
}
