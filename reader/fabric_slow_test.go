package reader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
				s.mix(faults{slow: 1, delay: 200 * time.Millisecond}, "b")
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
				if p95 := percentile(d, 95); p95 > 10*time.Millisecond {
					t.Errorf("p95 of delivery %v", p95)
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
		s.mix(faults{deadline: 1}, "b")
		const half = 8 << 20
		var writer sync.WaitGroup
		writer.Go(func() {
			s.siteWriter.run(1, half)
			s.mix(faults{}, "b")
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
		if most := 2*s.c.cfg.HedgeDelay + 10*time.Millisecond; percentile(d, 100) > most || percentile(d, 95) > 10*time.Millisecond {
			t.Errorf("p95 %v, max %v, want at most %v", percentile(d, 95), percentile(d, 100), most)
		}
		if got := st.Peers[1].Reads - frozen.Peers[1].Reads; got == 0 {
			t.Errorf("the replica that went on is not used: %+v", st.Peers)
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
				s.deafen(true, "b")
				const total = 8 << 20
				var writer sync.WaitGroup
				writer.Go(func() { s.siteWriter.run(1, total) })
				d, _ := s.delays(r, total)
				writer.Wait()
				st := s.c.Stats()
				if st.Retries["stale"] == 0 || st.Retries["hole"]+st.Retries["short"] == 0 || s.store.reads != 0 {
					t.Errorf("%d durable reads, %+v", s.store.reads, st)
				}
				if percentile(d, 100) > 10*time.Millisecond {
					t.Errorf("delivered after %v", percentile(d, 100))
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
