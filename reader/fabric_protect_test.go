package reader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
