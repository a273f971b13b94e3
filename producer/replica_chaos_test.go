package producer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// TestReplicaFaults runs a producer against nodes that die, freeze, slow down,
// forget, restart empty, refuse, join and leave, at random: no append fails or
// waits for longer than the cache may take, no node ever has a wrong byte or
// promises one that is not durable, and once all are well again the replicas hold
// all that is young, and the length.
func TestReplicaFaults(t *testing.T) {
	var faults, bytes atomic.Uint64
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := replicaFaults(t, seed)
				faults.Add(f)
				bytes.Add(b)
			})
		})
	}
	t.Logf("report: replicas: %d faults in %d bytes appended, 0 wrong bytes, 0 failed appends", faults.Load(), bytes.Load())
}

func replicaFaults(t *testing.T, seed uint64) (faults, appended uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := newSite(t, 4+rng.IntN(3), nil)
	s.node(1).local = rng.IntN(2) == 0
	c := s.cache(func(cfg *ReplicaConfig) { cfg.QueueBytes = 1 << 20 })
	a := s.open(c)
	defer s.end(a, c)
	next := len(s.desc.Nodes) + 1
	forgetful := map[string]bool{} // nodes that nobody knows to have lost what they had
	fault := func() {
		faults++
		n := s.nodes[s.desc.Nodes[rng.IntN(len(s.desc.Nodes))].Name]
		if n.local {
			return
		}
		switch rng.IntN(10) {
		case 0:
			n.kill()
		case 1, 2:
			n.restart()
			delete(forgetful, n.name)
		case 3:
			n.freeze()
		case 4:
			n.forget()
			forgetful[n.name] = true
		case 5:
			d := time.Duration(rng.IntN(40)) * time.Millisecond
			n.set(func() { n.mu.delay = d })
		case 6:
			r := rand.New(rand.NewPCG(seed, rng.Uint64()))
			n.set(func() {
				n.mu.refuse = func(wire.Op, []byte) error {
					if r.IntN(10) == 0 {
						return &wire.Error{Status: wire.StatusBusy}
					}
					return nil
				}
			})
		case 7:
			n.cut()
		case 8:
			m := fakeMember(next)
			next++
			s.nodes[m.Name] = newFakeNode(t, m.Name, s.ttl)
			s.desc.Nodes = append(slices.Clone(s.desc.Nodes), m)
			s.source.describe(t, s.desc)
		case 9:
			if i := 1 + rng.IntN(len(s.desc.Nodes)-1); len(s.desc.Nodes) > 3 {
				s.desc.Nodes = slices.Delete(slices.Clone(s.desc.Nodes), i, i+1)
				s.source.describe(t, s.desc)
			}
		}
	}
	heal := func() {
		for _, n := range s.nodes {
			n.thaw()
			n.set(func() { n.mu.dead, n.mu.delay, n.mu.refuse = false, 0, nil })
		}
	}
	for range 150 {
		switch rng.IntN(6) {
		case 0:
			fault()
		case 1:
			if rng.IntN(3) == 0 {
				heal()
			}
		case 2:
			time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		}
		// A put and a publication, behind those of a heartbeat, and the writes to nodes
		// that do not read.
		if d := s.add(a, 1+rng.IntN([]int{100, 3000, 40_000}[rng.IntN(3)])); d > 5*c.cfg.Timeout {
			t.Errorf("an append took %v", d)
		}
		s.look()
	}
	heal()
	time.Sleep(15 * time.Second)
	s.look()
	for chunk := uint64(0); chunk*layout.ChunkSize < s.log.Info().Length; chunk++ {
		for _, n := range s.full(chunk) {
			if !s.holds(n, chunk) && !forgetful[n.name] {
				t.Fatalf("node %s lacks chunk %d of %d at the end: %+v", n.name, chunk, layout.Chunk(s.log.Info().Length), stat(c, n.name))
			}
		}
	}
	if n := s.lengths(); n != len(s.pages()) {
		t.Errorf("the length is on %d nodes at the end", n)
	}
	return faults, s.log.Info().Length
}

// look checks every node: what validates is right, and what is published is
// durable.
func (s *site) look() {
	s.t.Helper()
	length := s.log.Info().Length
	for _, n := range s.nodes {
		if got := s.published(n); got > length {
			s.t.Fatalf("node %s has published %d, durable are %d", n.name, got, length)
		}
		for chunk := max(layout.Chunk(length), 20) - 20; chunk*layout.ChunkSize < length; chunk++ {
			s.holds(n, chunk) // fails on a wrong byte
		}
	}
}

// TestOpenAmongRuins: an Appender is opened within its bound whatever the nodes do.
func TestOpenAmongRuins(t *testing.T) {
	for name, ruin := range map[string]func(*fakeNode){
		"dead": (*fakeNode).kill, "frozen": (*fakeNode).freeze,
		"slow": func(n *fakeNode) { n.set(func() { n.mu.delay = time.Hour }) },
		"mute": func(n *fakeNode) { n.set(func() { n.mu.refuse = func(wire.Op, []byte) error { return wire.ErrBusy } }) },
		"bad": func(n *fakeNode) {
			n.set(func() { n.mu.refuse = func(wire.Op, []byte) error { return wire.ErrBadRequest } })
		},
		"full": func(n *fakeNode) {
			n.set(func() { n.mu.refuse = func(wire.Op, []byte) error { return wire.ErrInternal } })
		},
		"going": func(n *fakeNode) {
			n.set(func() { n.mu.refuse = func(wire.Op, []byte) error { return wire.ErrClosing } })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 3, nil)
				for _, n := range s.nodes {
					ruin(n)
				}
				c := s.cache(nil)
				began := time.Now()
				a := s.open(c)
				defer s.end(a, c)
				if d := time.Since(began); d > 3*c.cfg.Timeout {
					t.Errorf("open took %v", d)
				}
				began = time.Now()
				for range 100 {
					s.add(a, 1000)
				}
				if d := time.Since(began); d > 3*c.cfg.Timeout {
					t.Errorf("100 appends took %v", d)
				}
				for _, n := range s.nodes {
					n.thaw()
					n.restart()
					n.set(func() { n.mu.delay, n.mu.refuse = 0, nil })
				}
				time.Sleep(12 * time.Second)
				if n := s.lengths(); n != 3 {
					t.Errorf("the length is on %d nodes when all are well again", n)
				}
			})
		})
	}
}

// A shard that was deleted and made again has other bytes at the same positions:
// repair puts none of them under the old one's identity.
func TestRepairOfAShardMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		a := s.open(c)
		s.add(a, 100_000)
		old := s.hash()
		s.node(3).kill()
		mustClose(t, a)
		again := newFakeLog(new(trace))
		again.mu.info.Incarnation = 43
		again.grow(make([]byte, 200_000))
		s.log = again
		s.node(3).restart()
		time.Sleep(10 * time.Second)
		for chunk := range uint64(10) {
			if got := chunkOf(t, s.node(3).arena().Bytes(), old, chunk); got != nil {
				t.Fatalf("chunk %d of the deleted shard was repaired with %d bytes of another", chunk, len(got))
			}
		}
		if n := stat(c, "n3").ForgoneBytes; n == 0 {
			t.Error("nothing was given up")
		}
		s.end(nil, c)
	})
}

// Repair keeps to its rate.
func TestRepairRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(func(cfg *ReplicaConfig) { cfg.RepairBytesPerSecond = 100_000 })
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 1_000_000)
		s.add(a, 1_000_000)
		s.node(2).restart()
		time.Sleep(5 * time.Second)
		burst := int64(4 * layout.ExtentSize)
		if n := s.reads.Load(); n > 500_000+burst+layout.ExtentSize || n < 300_000 {
			t.Errorf("%d bytes were repaired in 5 s", n)
		}
		if n := stat(c, "n2").MissingBytes; n == 0 {
			t.Error("nothing is missing any more")
		}
	})
}

// A store that fails holds repair up, and nothing else.
func TestRepairWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		var broken atomic.Bool
		broken.Store(true)
		c := s.cache(func(cfg *ReplicaConfig) { cfg.Store = brokenStore{s, &broken} })
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 300_000)
		s.node(2).restart()
		time.Sleep(5 * time.Second)
		if d := s.add(a, 100); d > 0 || stat(c, "n2").RepairedBytes != 0 {
			t.Errorf("an append took %v, %d bytes repaired without a store", d, stat(c, "n2").RepairedBytes)
		}
		broken.Store(false)
		time.Sleep(5 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies", n)
		}
	})
}

type brokenStore struct {
	*site
	broken *atomic.Bool
}

func (b brokenStore) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.New("input/output error")
	}
	return b.site.ReadAt(ctx, shard, pos, p)
}
