package reader

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestFabricReadsAhead: a consumer that works for as long as a read takes is not held
// up by the reads, whether they are of one node or of many: places and data of what
// follows are on their way meanwhile, within the memory that a Reader may hold.
func TestFabricReadsAhead(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rtt, extents = 2 * time.Millisecond, 100
				s := newSite(t, siteNodes(names...), 32<<20, FromTCP)
				defer s.c.Close()
				s.append(extents * layout.ExtentSize)
				s.publish(0)
				s.mix(faults{slow: 1, delay: rtt}, names...)
				r := openAt(t, s.c, Earliest())
				defer r.Close()
				if _, err := r.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
				start, batches := time.Now(), 0
				for r.Position() < extents*layout.ExtentSize {
					if held := r.held(); held > s.c.cfg.Prefetch {
						t.Fatalf("%d bytes held", held)
					}
					<-time.After(rtt) // the consumer's work
					b, err := r.Next(t.Context())
					if err != nil || b.Source != FromTCP || wrongAt(b.Data, b.Position) >= 0 {
						t.Fatalf("%d bytes at %d from %v, %v", len(b.Data), b.Position, b.Source, err)
					}
					batches++
				}
				// The first ones were not ahead.
				if took, work := time.Since(start), time.Duration(batches)*rtt; took > work+8*rtt {
					t.Errorf("%d batches took %v, the work alone %v", batches, took, work)
				}
			})
		})
	}
}

// TestFabricHoleAhead: where a flight ahead finds a hole, nothing is fetched after it. It
// ended where it began, and what came after it began there too: a Reader once went in
// circles, without letting time pass.
func TestFabricHoleAhead(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const held, lost = 20, 3 // extents
				s := newSite(t, siteNodes(names...), 32<<20, FromTCP)
				defer s.c.Close()
				s.append(held * layout.ExtentSize)
				s.deafen(true, names...)
				s.append(lost * layout.ExtentSize)
				s.deafen(false, names...)
				s.append(held * layout.ExtentSize)
				s.publish(0)
				r := openAt(t, s.c, Earliest())
				defer r.Close()
				for r.Position() < (2*held+lost)*layout.ExtentSize {
					<-time.After(time.Millisecond) // the consumer's work
					b, err := r.Next(t.Context())
					if err != nil || wrongAt(b.Data, b.Position) >= 0 {
						t.Fatalf("%d bytes at %d from %v, %v", len(b.Data), b.Position, b.Source, err)
					}
					if n := s.c.Stats().QuorumReads; n > 20*lost {
						t.Fatalf("%d quorum reads at %d", n, b.Position)
					}
				}
				if st := s.c.Stats(); st.DeliveredBy["durable"] < lost*layout.ExtentSize {
					t.Errorf("%d bytes from the store, %d are nowhere else", st.DeliveredBy["durable"], lost*layout.ExtentSize)
				}
			})
		})
	}
}
