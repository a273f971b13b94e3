package producer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// Two of three replicas are too slow, for good, and connect all the same. They cost
// the writer a timeout now and then, not whenever they are back for a moment.
func TestSlowReplicasStallNowAndThen(t *testing.T) {
	for _, c := range []struct {
		name string
		slow func(wire.Op) bool
		most int // appends that wait, of a minute
	}{
		{"in all", func(wire.Op) bool { return true }, 4},
		{"in puts", func(op wire.Op) bool { return op == wire.OpPut }, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 3, nil)
				rc := s.cache(nil)
				a := s.open(rc)
				defer s.end(a, rc)
				s.add(a, 100)
				for i := 2; i <= 3; i++ {
					n := s.node(i)
					n.set(func() {
						n.mu.refuse = func(op wire.Op, _ []byte) error {
							if c.slow(op) {
								select {
								case <-time.After(600 * time.Millisecond):
								case <-n.ended:
								}
							}
							return nil
						}
					})
				}
				stalls, began := 0, time.Now()
				for time.Since(began) < time.Minute {
					if s.add(a, 100) > 100*time.Millisecond {
						stalls++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if stalls > c.most {
					t.Errorf("%d appends of a minute waited for nodes that are always slow, want at most %d", stalls, c.most)
				}
				t.Logf("report: %d stalls in a minute with two slow replicas", stalls)
			})
		})
	}
}

// A node gets another address while it is being connected to: the connection to the
// old one is not used, as another node may have that address now.
func TestNodeMovesWhileItIsDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		stranger := newFakeNode(t, "stranger", s.ttl)
		defer stranger.kill()
		defer close(stranger.ended)
		there := make(chan struct{})
		c := s.cache(func(cfg *ReplicaConfig) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, n cluster.Node) (*wire.Client, error) {
				if n.Addr == "n2:7440" {
					<-there
					return stranger.dial(ctx)
				}
				return dial(ctx, n)
			}
		})
		s.desc.Nodes[1].Addr = "elsewhere:7440"
		s.source.describe(t, s.desc)
		synctest.Wait()
		close(there)
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 100_000)
		time.Sleep(5 * time.Second)
		s.add(a, 100_000)
		time.Sleep(time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk has %d copies", n)
		}
		if n := stranger.arena().Stats().Puts; n != 0 {
			t.Errorf("%d puts went to who has the node's old address", n)
		}
	})
}

// Many nodes are away from the beginning, and connecting to them takes long: a batch
// over many extents waits for all of them at once, not for some of them each time.
func TestManyNodesAwayCostOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 24, nil)
		away := func(n cluster.Node) bool { return n.Name > "n11" || n.Name == "n1" } // 18 of 24
		c := s.cache(func(cfg *ReplicaConfig) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, n cluster.Node) (*wire.Client, error) {
				if away(n) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, n)
			}
		})
		defer s.end(nil, c)
		const chunks = 64 * layout.ChunksPerExtent
		puts := make([]layout.Put, chunks)
		data := pattern(0, layout.ChunkSize)
		for i := range puts {
			puts[i] = layout.Put{Shard: s.hash(), Chunk: uint64(i), Data: data, CRC: layout.ExtendCRC(layout.SeedCRC(s.hash(), uint64(i)), data)}
		}
		began := time.Now()
		c.Put(testShard, puts, make([]error, chunks))
		if d := time.Since(began); d < c.cfg.Timeout {
			t.Fatalf("the first put took %v", d)
		}
		began = time.Now()
		c.Put(testShard, puts, make([]error, chunks))
		if d := time.Since(began); d > c.cfg.Timeout/2 {
			t.Errorf("the second put took %v", d)
		}
	})
}

// A shard that the store cannot read holds up the repair of nothing but itself.
func TestRepairGoesPastAnUnreadableShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		bad := layout.Shard{Stream: "bad", Number: 1}
		var reads atomic.Int64
		c := s.cache(func(cfg *ReplicaConfig) { cfg.Store = partlyReadable{s, bad.String(), &reads} })
		hash := bad.Hash(s.log.Info().Incarnation)
		put := func(at uint64) {
			data := []byte("what nobody reads back")
			c.Put(bad, []layout.Put{{Shard: hash, Chunk: at, Data: data, CRC: layout.ExtendCRC(layout.SeedCRC(hash, at), data)}}, make([]error, 1))
		}
		s.node(2).kill()
		time.Sleep(time.Second)
		put(0) // the oldest gap
		a := s.open(c)
		defer s.end(a, c)
		s.add(a, 300_000)
		s.node(2).revive()
		time.Sleep(10 * time.Second)
		if n := s.copies(0, s.log.Info().Length); n != 3 {
			t.Errorf("a chunk of a shard that can be read has %d copies", n)
		}
		if n := reads.Load(); n == 0 || n > 200 {
			t.Errorf("%d attempts to read the other one in 10 s", n)
		}
		if n := stat(c, "n2").MissingBytes; n == 0 {
			t.Error("what could not be read is not missing any more")
		}
	})
}

// partlyReadable fails to read one shard.
type partlyReadable struct {
	*site
	bad   string
	reads *atomic.Int64
}

func (p partlyReadable) ReadAt(ctx context.Context, shard string, pos uint64, b []byte) (int, error) {
	if shard == p.bad {
		p.reads.Add(1)
		return 0, errors.New("input/output error")
	}
	return p.site.ReadAt(ctx, shard, pos, b)
}

// A node that takes long for each put, though not too long, holds up the repair of
// itself alone.
func TestRepairOfASlowNodeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		a := s.open(c)
		defer s.end(a, c)
		for range 3 {
			s.add(a, 1_000_000)
		}
		time.Sleep(time.Second)
		slow := s.node(2)
		slow.set(func() {
			slow.mu.refuse = func(op wire.Op, _ []byte) error {
				if op == wire.OpPut {
					select {
					case <-time.After(20 * time.Millisecond): // 320 ms an extent
					case <-slow.ended:
					}
				}
				return nil
			}
		})
		slow.restart()
		s.node(3).restart()
		whole := uint64(3_000_000)
		began := time.Now()
		for time.Since(began) < 20*time.Second {
			n := 0
			for chunk := uint64(0); chunk*layout.ChunkSize < whole; chunk++ {
				if s.holds(s.node(3), chunk) {
					n++
				}
			}
			if uint64(n)*layout.ChunkSize >= whole {
				break
			}
			time.Sleep(250 * time.Millisecond)
		}
		took := time.Since(began)
		if took > 5*time.Second {
			t.Errorf("repair of a node took %v beside a slow one", took)
		}
		if st := stat(c, "n2"); st.RepairedBytes == 0 || st.MissingBytes == 0 {
			t.Errorf("the slow one: %+v", st)
		}
		t.Logf("report: 3 MB repaired in %v beside a slow node", took)
	})
}
