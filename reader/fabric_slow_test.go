package reader

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stalledMost is how many deliveries may be late because a node was found to be slow:
// those of two hedge delays, one for a length and one for bytes, at 2 ms each, and
// something for chance.
const stalledMost = 60

// stalled returns how many deliveries took much longer than the next poll.
func stalled(d []time.Duration) (n int) {
	for _, took := range d {
		if took > 10*time.Millisecond {
			n++
		}
	}
	return n
}

// used returns the node that has answered most reads: that a Reader is with.
func used(c *Cluster) string {
	return slices.MaxFunc(c.Stats().Peers, func(a, b PeerStats) int { return cmp.Compare(a.Reads, b.Reads) }).Node
}

// TestFabricSlowReplica: one replica of three answers after 200 ms. A second one is
// asked after the hedge delay, and the slow one is then left alone, so that few
// deliveries are late, and none later than the delay allows.
func TestFabricSlowReplica(t *testing.T) {
	for _, as := range []Source{FromSHM, FromTCP} {
		t.Run(as.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, siteNodes("a", "b", "c"), 32<<20, as)
				defer s.c.Close()
				s.append(1000)
				s.publish(0)
				r := openAt(t, s.c, Earliest())
				defer r.Close()
				s.delays(r, 1000)
				s.mix(faults{slow: 1, delay: 200 * time.Millisecond}, used(s.c))
				const total = 16 << 20
				var writer sync.WaitGroup
				writer.Go(func() { s.siteWriter.run(1, total) })
				d, _ := s.delays(r, total)
				writer.Wait()
				st := s.c.Stats()
				if st.Hedges == 0 || st.HedgeWins == 0 || s.store.reads != 0 || st.Retries["deadline"] != 0 {
					t.Errorf("%d durable reads, %+v", s.store.reads, st)
				}
				// A length and its bytes may each meet the slow replica.
				if most := 2*s.c.cfg.HedgeDelay + 10*time.Millisecond; percentile(d, 100) > most {
					t.Errorf("delivered after %v, want at most %v", percentile(d, 100), most)
				}
				if n := stalled(d); n > stalledMost {
					t.Errorf("%d of %d deliveries were late", n, len(d))
				}
				t.Logf("p50 %v p95 %v p99 %v max %v, %d hedges, %d won", percentile(d, 50), percentile(d, 95), percentile(d, 99), percentile(d, 100), st.Hedges, st.HedgeWins)
				<-time.After(time.Second) // the losers are taken back
				if s.c.Stats().Requests == 0 {
					t.Error("nothing was asked for")
				}
			})
		})
	}
}

// TestFabricFrozenReplica: one replica does not answer at all, as a process that is
// stopped. It is found out by its deadline, rests, and is used again when it goes on.
func TestFabricFrozenReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 32<<20, FromTCP)
		defer s.c.Close()
		s.append(1000)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		s.delays(r, 1000)
		victim := used(s.c)
		s.mix(faults{deadline: 1}, victim)
		const half = 8 << 20
		var writer sync.WaitGroup
		writer.Go(func() {
			s.siteWriter.run(1, half)
			s.mix(faults{}, victim)
			<-time.After(10 * time.Second)
			s.siteWriter.run(2, 2*half)
		})
		d, _ := s.delays(r, half)
		frozen := s.c.Stats()
		s.delays(r, 2*half)
		writer.Wait()
		st := s.c.Stats()
		if frozen.Failures["tcp"] == 0 || frozen.Retries["deadline"] == 0 || s.store.reads != 0 {
			t.Errorf("%d durable reads, %+v", s.store.reads, frozen)
		}
		if most := 2*s.c.cfg.HedgeDelay + 10*time.Millisecond; percentile(d, 100) > most || stalled(d) > stalledMost {
			t.Errorf("%d of %d late, max %v, want at most %v", stalled(d), len(d), percentile(d, 100), most)
		}
		for i := range st.Peers {
			if st.Peers[i].Node == victim && st.Peers[i].Reads == frozen.Peers[i].Reads {
				t.Errorf("the replica that went on, %s, is not used: %+v", victim, st.Peers)
			}
		}
		t.Logf("p95 %v max %v, %d hedges, %d won, retries %v", percentile(d, 95), percentile(d, 100), st.Hedges, st.HedgeWins, st.Retries)
	})
}

// TestFabricStaleReplica: writers do not reach one of three nodes. Its lengths are
// old and its bytes missing; that costs a few reads, and no delivery is late.
func TestFabricStaleReplica(t *testing.T) {
	for _, as := range []Source{FromSHM, FromTCP} {
		t.Run(as.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, siteNodes("a", "b", "c"), 32<<20, as)
				defer s.c.Close()
				s.append(1000)
				s.publish(0)
				r := openAt(t, s.c, Earliest())
				defer r.Close()
				s.delays(r, 1000)
				s.deafen(true, used(s.c))
				const total = 8 << 20
				var writer sync.WaitGroup
				writer.Go(func() { s.siteWriter.run(1, total) })
				d, _ := s.delays(r, total)
				writer.Wait()
				st := s.c.Stats()
				if st.Retries["stale"] == 0 || st.Retries["hole"]+st.Retries["short"] == 0 || s.store.reads != 0 {
					t.Errorf("%d durable reads, %+v", s.store.reads, st)
				}
				if percentile(d, 100) > 20*time.Millisecond {
					t.Errorf("delivered after %v", percentile(d, 100))
				}
				// It is left alone, by the poller and by the Reader, for longer and longer.
				if n := st.Retries["hole"] + st.Retries["short"]; n > 30 || st.Retries["stale"] > 30 {
					t.Errorf("met too often: %v", st.Retries)
				}
				t.Logf("p99 %v max %v, %+v", percentile(d, 99), percentile(d, 100), st.Retries)
			})
		})
	}
}

// TestFabricStaleNeighbour: the one node that is read over shared memory is not
// reached by writers. It is preferred, and found to be behind all the same.
func TestFabricStaleNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 32<<20, FromTCP)
		defer s.c.Close()
		for _, via := range s.c.roster.Load().peers[0].paths(time.Now()) {
			via.source = FromSHM
		}
		s.append(1000)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		_, by := s.delays(r, 1000)
		if by[FromSHM] != 1000 {
			t.Fatalf("by source: %v", by)
		}
		s.deafen(true, "a")
		const total = 4 << 20
		var writer sync.WaitGroup
		writer.Go(func() { s.siteWriter.run(1, total) })
		d, by := s.delays(r, total)
		writer.Wait()
		if s.store.reads != 0 || by[FromTCP] < total/2 {
			t.Errorf("by source: %v, %+v", by, s.c.Stats())
		}
		// Idle, it is asked every 100 ms, and another one every eighth time.
		if percentile(d, 100) > 2*time.Second || percentile(d, 90) > 40*time.Millisecond {
			t.Errorf("p90 %v, max %v", percentile(d, 90), percentile(d, 100))
		}
		t.Logf("p90 %v max %v, %v", percentile(d, 90), percentile(d, 100), s.c.Stats().Retries)
	})
}

// TestFabricAllSlow: where every replica takes as long, a second one is asked only
// until that is known.
func TestFabricAllSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 32<<20, FromTCP, func(c *Config) { c.Prefetch = 128 << 10 })
		defer s.c.Close()
		s.mix(faults{slow: 1, delay: 40 * time.Millisecond}, "a", "b", "c")
		const total = 4 << 20
		s.append(total)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		s.delays(r, total)
		if st := s.c.Stats(); st.Hedges > 10 || s.store.reads != 0 || st.Reads["tcp"] < 60 {
			t.Errorf("%d hedges in %d reads, %d durable ones", st.Hedges, st.Reads["tcp"], s.store.reads)
		}
	})
}
