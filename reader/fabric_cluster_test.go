package reader

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestFabricReplicasLost: one or two of the three replicas go away and come back
// empty while bytes flow. Nothing is read from the store, and delivery is as fast as
// before; over transports that read ahead, too, and in the middle of a backlog.
func TestFabricReplicasLost(t *testing.T) {
	for _, lost := range [][]string{{"b"}, {"a", "c"}} {
		for _, as := range []Source{FromSHM, FromTCP} {
			t.Run(fmt.Sprintf("%d over %v", len(lost), as), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { replicasLost(t, as, lost) })
			})
		}
	}
}

func replicasLost(t *testing.T, as Source, lost []string) {
	s := newSite(t, siteNodes("a", "b", "c"), 32<<20, as, func(c *Config) { c.Prefetch = 128 << 10 }) // many flights
	defer s.c.Close()
	const third = 3 << 20
	s.append(1000)
	s.publish(0)
	tailing, catching := openAt(t, s.c, Earliest()), openAt(t, s.c, Earliest())
	defer tailing.Close()
	defer catching.Close()
	var all sync.WaitGroup
	back := make(chan struct{})
	all.Go(func() {
		s.siteWriter.run(1, third)
		s.kill(lost...)
		s.siteWriter.run(2, 2*third)
		s.restart(0, lost...)
		close(back)
		s.siteWriter.run(3, 3*third)
	})
	all.Go(func() { // the others may never ask an empty one for what it lacks: this one does, of 96 extents
		<-back
		late := openAt(t, s.c, Earliest())
		defer late.Close()
		s.delays(late, 2*third)
	})
	var before, after []time.Duration
	all.Go(func() {
		before, _ = s.delays(tailing, third)
		after, _ = s.delays(tailing, 3*third)
	})
	all.Go(func() { // reads over the kill and the restart, always behind
		for pos := uint64(0); pos < 3*third && !t.Failed(); pos += third / 4 {
			s.delays(catching, pos)
			<-time.After(100 * time.Millisecond)
		}
		s.delays(catching, 3*third)
	})
	all.Wait()
	st := s.c.Stats()
	if s.store.reads != 0 {
		t.Errorf("%d durable reads; %+v", s.store.reads, st)
	}
	was, is := percentile(before, 99), percentile(after, 99)
	if is > 2*was+s.c.cfg.PollMin {
		t.Errorf("p99 of delivery %v, before the loss %v", is, was)
	}
	if st.Retries["hole"] == 0 || st.QuorumReads == 0 {
		t.Errorf("the replicas that came back empty were never met: %+v", st)
	}
	for _, p := range st.Peers {
		if p.Reads == 0 || p.State != peerUp {
			t.Errorf("%+v", p)
		}
	}
	t.Logf("p99 %v, then %v; retries %v, %d quorum reads, failures %v", was, is, st.Retries, st.QuorumReads, st.Failures)
}

// TestFabricAllLost: every node goes away and comes back empty, with other epochs
// and another geometry, while bytes flow. The store is used meanwhile, with few
// reads, and the cache again at once.
func TestFabricAllLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e"}
		s := newSite(t, siteNodes(names...), 16<<20, FromTCP)
		defer s.c.Close()
		s.append(1000)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		const total = 8 << 20
		var back time.Time
		var writer sync.WaitGroup
		writer.Go(func() {
			s.siteWriter.run(1, total/4)
			s.kill(names...)
			s.siteWriter.run(2, 3*total/4)
			<-time.After(3 * time.Second)
			s.restart(6<<20, names...)
			back = time.Now()
			s.siteWriter.run(3, total)
		})
		_, by := s.delays(r, total)
		writer.Wait()
		if by[FromTCP] == 0 || by[FromDurable] < total/4 {
			t.Errorf("by source: %v", by)
		}
		if most := total/4/blockMax + 20; s.store.reads > most {
			t.Errorf("%d durable reads, want at most %d", s.store.reads, most)
		}
		s.append(100)
		s.publish(0)
		b, err := r.Next(t.Context())
		if err != nil || b.Source != FromTCP || time.Since(back) > 10*time.Second {
			t.Errorf("%d bytes from %v, %v, %v after the nodes were back", len(b.Data), b.Source, err, time.Since(back))
		}
		t.Logf("by source %v, %d durable reads", by, s.store.reads)
	})
}

// TestFabricSiteLies lets every node lie in every way, two of them partial, over
// extents that are spread over all of them: no wrong byte, always the end, each lie
// counted.
func TestFabricSiteLies(t *testing.T) {
	all := faults{tear64: .03, tear1024: .03, tear4096: .03, stale: .03, swap: .03, flip: .03, zero: .03, deadline: .02, broken: .02, slow: .1, delay: 60 * time.Millisecond}
	for _, size := range []uint64{3 << 20, 7 << 20} {
		for _, as := range []Source{FromSHM, FromTCP} {
			t.Run(fmt.Sprintf("%dMiB over %v", size>>20, as), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { siteLies(t, size, as, all) })
			})
		}
	}
}

func siteLies(t *testing.T, size uint64, as Source, mix faults) {
	names := []string{"a", "b", "c", "d", "e", "p1", "p2"}
	s := newSite(t, siteNodes(names...), size, as)
	defer s.c.Close()
	s.append(1000)
	s.publish(0)
	s.keep()
	s.keeps = true
	s.mix(mix, names...)
	var readers sync.WaitGroup
	for i, from := range []From{Earliest(), Latest(), At(50)} {
		readers.Go(func() { readAll(t, s.c, from, time.Duration(i)*3*time.Millisecond) })
	}
	s.siteWriter.run(7, 6<<20)
	s.seal()
	readers.Wait()
	st := s.c.Stats()
	for kind := range map[string]bool{"tear64": true, "tear1024": true, "tear4096": true, "stale": true, "swap": true, "flip": true, "zero": true, "deadline": true, "broken": true, "slow": true} {
		n := 0
		for _, name := range names {
			n += s.node(name).count(kind)
		}
		if n == 0 {
			t.Errorf("%s was never injected", kind)
		}
	}
	for _, r := range []reason{reasonTorn, reasonDeadline, reasonTransport, reasonStale, reasonEntry} {
		if st.Retries[r.String()] == 0 {
			t.Errorf("nothing was counted under %v: %v", r, st.Retries)
		}
	}
	if st.DeliveredBy[as.String()] == 0 || st.Hedges == 0 || st.HedgeWins == 0 || st.QuorumReads == 0 {
		t.Errorf("%+v", st)
	}
	t.Logf("by source %v, retries %v, %d durable reads, %d hedges of which %d won, %d quorum reads, %d partial misses",
		st.DeliveredBy, st.Retries, s.store.reads, st.Hedges, st.HedgeWins, st.QuorumReads, st.PartialMisses)
}

// TestFabricColdExtent: what every replica has evicted is read from the store at
// once, although one replica cannot be asked.
func TestFabricColdExtent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c", "p1"), 4<<20, FromTCP)
		defer s.c.Close()
		s.append(8 << 20) // the arenas hold the last part only
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		<-time.After(time.Second)
		s.kill("c")
		start := time.Now()
		b, err := r.Next(t.Context())
		if err != nil || b.Source != FromDurable || wrongAt(b.Data, 0) >= 0 || time.Since(start) > 100*time.Millisecond {
			t.Fatalf("%d bytes from %v after %v, %v", len(b.Data), b.Source, time.Since(start), err)
		}
		if st := s.c.Stats(); st.QuorumReads == 0 || st.Retries["hole"] < 2 {
			t.Errorf("%+v", st)
		}
		_, by := s.delays(r, 8<<20)
		if by[FromTCP] < layout.ExtentSize {
			t.Errorf("the last part came from the store, too: %v", by)
		}
	})
}
