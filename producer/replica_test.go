package producer

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// In good health everything that was appended is on a quorum of its replicas when
// it is acknowledged, and on all of them soon.
func TestReplicasHoldWhatWasAppended(t *testing.T) {
	for _, local := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, 5, nil)
			s.node(1).local = local
			c := s.cache(nil)
			a := s.open(c)
			defer s.end(a, c)
			rng := rand.New(rand.NewPCG(1, 2))
			for range 120 {
				from := s.log.Info().Length
				s.add(a, 1+rng.IntN([]int{10, 300, 5000, 200_000}[rng.IntN(4)]))
				if n := s.copies(from, s.log.Info().Length); n < 2 {
					t.Fatalf("a chunk of what was acknowledged has %d copies", n)
				}
				if n := s.lengths(); n < 2 {
					t.Fatalf("its length is published on %d nodes", n)
				}
			}
			synctest.Wait()
			if n := s.copies(0, s.log.Info().Length); n != 3 {
				t.Errorf("a chunk has %d copies", n)
			}
			if n := s.lengths(); n != 3 {
				t.Errorf("the length is on %d nodes", n)
			}
			st := c.Stats()
			if st.DegradedPuts+st.DegradedPublishes+st.FailedPuts+st.FailedPublishes != 0 {
				t.Errorf("%+v", st)
			}
			for _, n := range st.Nodes {
				if n.Skipped+n.Failed+n.Suspensions+n.MissingBytes+n.RepairedBytes != 0 || n.QueueBytes != 0 || n.Puts == 0 {
					t.Errorf("%+v", n)
				}
			}
		})
	}
}

// The slow third of the replicas costs the writer nothing, and gets everything.
func TestSlowReplicaIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100)
		s.node(2).set(func() { s.node(2).mu.delay = 20 * time.Millisecond })
		for range 20 {
			if d := s.add(a, 3000); d > 0 {
				t.Fatalf("an append took %v", d)
			}
		}
		if st := stat(c, "n2"); st.QueueBytes == 0 {
			t.Errorf("nothing waits for the slow node: %+v", st)
		}
		time.Sleep(3 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies", n)
		}
	})
}

// Two of three replicas do not answer: the first append waits for the timeout,
// later ones not at all, and all are published where somebody lives. When the
// nodes go on, they get what they have missed.
func TestFrozenReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100)
		s.node(2).freeze()
		for range 100 { // one is no matter
			if d := s.add(a, 1000); d > 0 {
				t.Fatalf("an append took %v with one frozen node", d)
			}
		}
		s.node(3).freeze()
		if d := s.add(a, 1000); d == 0 || d > c.cfg.Timeout+50*time.Millisecond {
			t.Errorf("the first append took %v with two frozen nodes", d)
		}
		for range 1000 {
			if d := s.add(a, 1000); d > 50*time.Millisecond { // a write to a pipe that nobody reads takes up to 20 ms
				t.Fatalf("an append took %v with two suspended nodes", d)
			}
		}
		if n := s.lengths(); n != 1 {
			t.Errorf("the length is on %d nodes, want the one that lives", n)
		}
		st := c.Stats()
		if st.DegradedPuts == 0 || st.DegradedPublishes == 0 || st.FailedPuts != 0 {
			t.Errorf("%+v", st)
		}
		for _, name := range []string{"n2", "n3"} {
			if st := stat(c, name); st.Suspensions == 0 || st.Skipped == 0 || st.MissingBytes == 0 || st.State != "suspended" && st.State != "probing" || st.Reason == "" {
				t.Errorf("%+v", st)
			}
		}
		s.node(2).thaw()
		s.node(3).thaw()
		time.Sleep(10 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies after repair", n)
		}
		if n := s.lengths(); n != 3 {
			t.Errorf("the length is on %d nodes after repair", n)
		}
		for _, name := range []string{"n2", "n3"} {
			if st := stat(c, name); st.State != "live" || st.MissingBytes != 0 || st.RepairedBytes == 0 || st.ForgoneBytes != 0 {
				t.Errorf("%+v", st)
			}
		}
	})
}

// All nodes die while a producer appends; nothing fails. They come back empty, get
// what is young enough, and the length.
func TestAllDieAndComeBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 5, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 500_000)
		time.Sleep(2 * s.ttl)
		for _, n := range s.nodes {
			n.kill()
		}
		old := s.log.Info().Length
		for range 300 {
			if d := s.add(a, 3000); d > 0 {
				t.Fatalf("an append took %v with dead nodes", d)
			}
		}
		if st := c.Stats(); st.FailedPuts == 0 {
			t.Errorf("%+v", st)
		}
		for _, n := range s.nodes {
			n.restart()
		}
		time.Sleep(20 * time.Second)
		if n := s.copies(old, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies after repair", n)
		}
		if n := s.lengths(); n != 3 {
			t.Errorf("the length is on %d nodes after repair", n)
		}
		if n := s.copies(0, 100_000); n != 0 {
			t.Errorf("%d copies of what was older than the time to live", n)
		}
	})
}

// A node that was restarted empty, without anybody having noticed its absence,
// lacks what was put to it before.
func TestRestartedEmptyIsRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 4, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 400_000)
		time.Sleep(s.ttl / 2)
		young := s.log.Info().Length
		s.add(a, 400_000)
		time.Sleep(s.ttl/2 + s.ttl/10) // the first half is too old, the second is not
		s.node(3).restart()
		time.Sleep(5 * time.Second)
		if n := s.copies(young, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies after repair", n)
		}
		for chunk := range uint64(80) { // 20 chunks before the border are its step
			if s.holds(s.node(3), chunk) {
				t.Fatalf("chunk %d, which is too old, was repaired", chunk)
			}
		}
		if st := stat(c, "n3"); st.RepairedBytes == 0 || st.MissingBytes != 0 {
			t.Errorf("%+v", st)
		}
		if s.reads.Load() > 500_000 {
			t.Errorf("%d bytes were read for repair", s.reads.Load())
		}
	})
}

// A node that has evicted what a delta continues gets the chunk from its start.
func TestLackingPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		s.node(1).local = true
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 9000)
		synctest.Wait() // a put is done with its quorum: the other node is not to take it afterwards
		s.node(1).forget()
		s.node(2).forget()
		s.add(a, 100)
		synctest.Wait()
		if n := s.copies(8192, 9100); n != 3 {
			t.Errorf("the tail chunk has %d copies", n)
		}
		if st := stat(c, "n2"); st.Resends != 1 || st.Failed != 0 || st.Suspensions != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A node that is too slow for the stream has a bounded queue; what did not fit is
// repaired when it is well again.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(func(cfg *ReplicaConfig) { cfg.QueueBytes = 256 << 10 })
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100)
		slow := s.node(3)
		slow.set(func() { slow.mu.delay = time.Millisecond })
		most := 0
		for range 100 {
			s.add(a, 50_000)
			most = max(most, stat(c, "n3").QueueBytes)
		}
		st := stat(c, "n3")
		if most > 256<<10+windowBytes+8<<10 || most < 200<<10 {
			t.Errorf("%d bytes waited at most", most)
		}
		if st.Skipped == 0 || st.MissingBytes == 0 {
			t.Errorf("%+v", st)
		}
		slow.set(func() { slow.mu.delay = 0 })
		time.Sleep(20 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies after repair", n)
		}
	})
}

// Repair does not push the young out of an arena that is too small for the time
// to live: it goes only as far back as the arena reaches.
func TestRepairOfASmallArena(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		for range 300 { // 24 MB in half the time to live; the arenas have 8 MiB
			s.add(a, 80_000)
			time.Sleep(s.ttl / 600)
		}
		s.node(3).restart()
		time.Sleep(4 * time.Second)
		if n := s.copies(s.log.Info().Length-4<<20, s.log.Info().Length); n != 3 {
			t.Errorf("a young chunk has %d copies after repair", n)
		}
		if n := stat(c, "n3").RepairedBytes; n > 8<<20 {
			t.Errorf("%d bytes repaired into 8 MiB", n)
		}
		if n := s.node(3).arena().Stats().Extents.Capacity; n > 0 {
			t.Errorf("repair has pushed out %d extents", n)
		}
	})
}

// Partial replicas get what they can take, and nobody relies on them.
func TestPartialReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 4, func(d *cluster.Description) {
			d.Nodes[3].Partial, d.Nodes[3].Roles = true, cluster.Data
		})
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100_000)
		synctest.Wait()
		for chunk := uint64(0); chunk*layout.ChunkSize < s.log.Info().Length; chunk++ {
			if !s.holds(s.node(4), chunk) {
				t.Fatalf("the partial replica lacks chunk %d", chunk)
			}
		}
		s.node(4).kill()
		s.add(a, 100_000)
		synctest.Wait()
		st := c.Stats()
		if st.DegradedPuts != 0 || st.FailedPuts != 0 || stat(c, "n4").MissingBytes != 0 {
			t.Errorf("%+v", st)
		}
		// It is no replacement for a full one.
		s.node(1).kill()
		s.node(2).kill()
		s.node(3).kill()
		s.node(4).revive()
		time.Sleep(6 * time.Second)
		s.add(a, 10_000)
		if st := c.Stats(); st.FailedPuts == 0 {
			t.Errorf("the partial replica alone was enough: %+v", st)
		}
	})
}

// Nodes join and leave: the next batch goes by the new placement, and what has
// moved is put where it belongs now.
func TestViewChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 4, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 1_000_000)
		for i := 5; i <= 6; i++ {
			m := fakeMember(i)
			s.nodes[m.Name] = newFakeNode(t, m.Name, s.ttl)
			s.desc.Nodes = append(s.desc.Nodes, m)
		}
		s.desc.Nodes = s.desc.Nodes[1:] // n1 leaves
		gone := s.node(1).requests.Load()
		s.source.describe(t, s.desc)
		synctest.Wait()
		moved := s.reads.Load()
		from := s.log.Info().Length
		s.add(a, 500_000)
		if n := s.copies(from, s.log.Info().Length); n < 2 {
			t.Errorf("a chunk of the next batch has %d copies", n)
		}
		time.Sleep(5 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies after the move", n)
		}
		if n := s.lengths(); n != 3 {
			t.Errorf("the length is on %d nodes after the move", n)
		}
		if n := s.node(1).requests.Load() - gone; n != 0 || len(s.node(1).mu.conns) != 0 {
			t.Errorf("%d requests to a node that has left, %d connections", n, len(s.node(1).mu.conns))
		}
		// Three copies of 5 nodes, of which 2 are new: 1.2 of them move, and n1's.
		if moved = s.reads.Load(); moved > 2_000_000 || moved < 500_000 {
			t.Errorf("%d bytes were read to move 1 MB", moved)
		}
		if len(c.Stats().Nodes) != 5 {
			t.Errorf("%+v", c.Stats())
		}
	})
}

// A node that gets another address keeps its name, and what is known of it.
func TestNodeMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		var dialled []string
		c := s.cache(func(cfg *ReplicaConfig) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, n cluster.Node) (*wire.Client, error) {
				if n.Name == "n2" {
					dialled = append(dialled, n.Addr)
				}
				return dial(ctx, n)
			}
		})
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100)
		s.desc.Nodes[1].Addr = "elsewhere:7440"
		s.source.describe(t, s.desc)
		time.Sleep(time.Second)
		s.add(a, 100)
		synctest.Wait()
		if len(dialled) != 2 || dialled[1] != "elsewhere:7440" || s.copies(0, 200) != 3 {
			t.Errorf("dialled %q, %d copies", dialled, s.copies(0, 200))
		}
	})
}

func TestReplicaCacheClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		s.end(nil, c)
		errs := make([]error, 1)
		c.Put(testShard, []layout.Put{{Data: []byte("x")}}, errs)
		if !errors.Is(errs[0], ErrClosed) {
			t.Errorf("put: %v", errs[0])
		}
		if err := c.Publish(layout.Publication{Shard: testShard}); !errors.Is(err, ErrClosed) {
			t.Errorf("publish: %v", err)
		}
		if _, err := c.Acquire(testShard, Preempt); !errors.Is(err, ErrClosed) {
			t.Errorf("acquire: %v", err)
		}
	})
}

func TestReplicaConfig(t *testing.T) {
	source := cluster.Single("127.0.0.1:1")
	for _, cfg := range []ReplicaConfig{
		{}, {Source: source, Timeout: -1}, {Source: source, QueueBytes: -1}, {Source: source, LeaseTTL: -1},
		{Source: source, Owner: string(make([]byte, wire.MaxName+1))},
	} {
		if c, err := NewReplicaCache(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, %v", cfg, c, err)
		}
	}
}
