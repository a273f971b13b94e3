package reader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestFabricPartialReplicas: two partial replicas hold the last eighth. Readers of
// the tail are served by them as by the others; those that catch up are not, and
// that is no error, nor does it lead to the store.
func TestFabricPartialReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c", "p1", "p2"), 32<<20, FromTCP, func(c *Config) { c.Prefetch = 128 << 10 })
		defer s.c.Close()
		const total = 12 << 20
		s.siteWriter.run(1, total)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		s.delays(r, total-5<<20) // further than a partial one holds
		st := s.c.Stats()
		if st.PartialMisses == 0 || st.Retries["hole"] != 0 || st.QuorumReads != 0 || s.store.reads != 0 {
			t.Errorf("%d durable reads, %+v", s.store.reads, st)
		}
		for i, p := range st.Peers {
			if partial := i > 2; partial != (p.Reads == 0) {
				t.Errorf("catching up: %+v", p)
			}
		}
		// Flights of one extent or so: a partial one is tried now and then, not each time.
		if reads := st.Reads["tcp"]; st.PartialMisses > reads/4 {
			t.Errorf("%d misses of partial replicas in %d reads", st.PartialMisses, reads)
		}
		s.delays(r, total)
		var writer sync.WaitGroup
		writer.Go(func() { s.siteWriter.run(3, 3*total/2) })
		s.delays(r, 3*total/2)
		writer.Wait()
		for _, p := range s.c.Stats().Peers {
			if p.Reads < 10 { // it stays with one for an extent
				t.Errorf("tailing: %+v", p)
			}
		}
		if s.store.reads != 0 {
			t.Errorf("%d durable reads", s.store.reads)
		}
	})
}

// TestFabricOnlyPartialLeft: the full replicas are lost. The partial ones serve what
// they have, the store the rest.
func TestFabricOnlyPartialLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := siteNodes("a", "b", "c", "p1", "p2")
		for i := range d.Nodes { // else there are no lengths either
			d.Nodes[i].Roles |= 2
		}
		s := newSite(t, d, 32<<20, FromTCP)
		defer s.c.Close()
		const total = 4 << 20
		s.append(total)
		s.publish(0)
		r := openAt(t, s.c, Earliest())
		defer r.Close()
		s.kill("a", "b", "c")
		start := time.Now()
		_, by := s.delays(r, total)
		if by[FromTCP] < 4*layout.ExtentSize || by[FromDurable] < 2<<20 {
			t.Errorf("by source: %v", by)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
