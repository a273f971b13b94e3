package server

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// scriptStore is a durable store that takes 10 ms to read, of bytes that a position
// determines.
type scriptStore struct {
	length, incarnation uint64
	reads               atomic.Int64
	most, at            atomic.Int64 // at once
	fail                error
}

func contentAt(p []byte, pos uint64) {
	for i := range p {
		p[i] = byte((pos + uint64(i)) * 7 >> 3)
	}
}

func (s *scriptStore) Stat(context.Context, string) (durable.Info, error) {
	return durable.Info{Incarnation: s.incarnation, Length: s.length}, nil
}

func (s *scriptStore) ReadAt(ctx context.Context, _ string, pos uint64, p []byte) (int, error) {
	s.reads.Add(1)
	s.most.Store(max(s.most.Load(), s.at.Add(1)))
	defer s.at.Add(-1)
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if s.fail != nil {
		return 0, s.fail
	}
	n := int(min(uint64(len(p)), s.length-min(pos, s.length)))
	contentAt(p[:n], pos)
	return n, nil
}

// held returns how many leading bytes of an extent an arena has, all of them right.
func held(t *testing.T, a *chunkstore.Arena, h layout.Hash, extent uint64) (n int) {
	t.Helper()
	mem, g := a.Bytes(), a.Geometry()
	for _, set := range g.ExtentSetsOf(h, extent) {
		way, generation, ok := layout.FindIdentity(mem[g.ExtentSet(set):][:layout.SetSize], h, extent)
		if !ok {
			continue
		}
		index := set*layout.Ways + uint32(way)
		for chunk := range layout.ChunksPerExtent {
			d := layout.ParseDescriptor(mem[g.Descriptors(index):][:layout.DescriptorsSize], chunk)
			if !d.Of(generation) {
				return n
			}
			got := mem[g.ExtentSlot(index)+uint64(chunk)*layout.ChunkSize:][:d.Valid()]
			want := make([]byte, len(got))
			contentAt(want, extent*layout.ExtentSize+uint64(n))
			number := extent*layout.ChunksPerExtent + uint64(chunk)
			if !bytes.Equal(got, want) || layout.ExtendCRC(layout.SeedCRC(h, number), got) != d.CRC() {
				t.Fatalf("chunk %d of extent %d is wrong", chunk, extent)
			}
			n += len(got)
		}
	}
	return n
}

func testFiller(t *testing.T, s *scriptStore, rate int64) (*filler, *chunkstore.Arena) {
	a, err := chunkstore.New(chunkstore.Config{Bytes: 4 << 20, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return newFiller(oneArena{arenaNode{a}}, s, rate, time.Now), a
}

func fillOf(extent uint64) fillKey { return fillKey{shardA, 1, extent} }

// TestFillOnceForAll: many ask for an extent at once, and others a little later; the
// store is read once. Who leads gives up in the middle: another one reads.
func TestFillOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptStore{length: 3*layout.ExtentSize + 5000, incarnation: 1}
		f, a := testFiller(t, s, 1<<30)
		leader, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := f.fill(leader, fillOf(2)); !errors.Is(err, context.Canceled) {
				t.Errorf("leader: %v", err)
			}
		})
		synctest.Wait()
		for range 30 {
			all.Go(func() {
				if end, err := f.fill(t.Context(), fillOf(2)); err != nil || end != 3*layout.ExtentSize {
					t.Errorf("follower: %d, %v", end, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if end, err := f.fill(t.Context(), fillOf(2)); err != nil || end != 3*layout.ExtentSize || s.reads.Load() != 2 {
			t.Errorf("a little later: %d, %v, %d reads; want the leader's and one more", end, err, s.reads.Load())
		}
		h := shardA.Hash(1)
		if n := held(t, a, h, 2); n != layout.ExtentSize {
			t.Errorf("the arena has %d bytes of the extent", n)
		}
		if end, err := f.fill(t.Context(), fillOf(3)); err != nil || end != s.length || held(t, a, h, 3) != 5000 {
			t.Errorf("the last extent: %d, %v, %d bytes", end, err, held(t, a, h, 3))
		}
		<-time.After(2 * fillKept)
		s.length += 3000 // more was appended
		if end, err := f.fill(t.Context(), fillOf(3)); err != nil || end != s.length || held(t, a, h, 3) != 8000 {
			t.Errorf("the last extent again: %d, %v, %d bytes", end, err, held(t, a, h, 3))
		}
		if f.fills.Load() != 3 || f.bytes.Load() != layout.ExtentSize+5000+8000 || len(f.mu.flights) != 0 {
			t.Errorf("%d fills of %d bytes, %d under way", f.fills.Load(), f.bytes.Load(), len(f.mu.flights))
		}
	})
}

// TestFillLimits: no more extents are read at once than may be, and no more bytes a
// second; what is known of those that are done is bounded.
func TestFillLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptStore{length: 1 << 40, incarnation: 1}
		const rate = 8 << 20
		f, _ := testFiller(t, s, rate)
		var done, busy atomic.Int64
		var all sync.WaitGroup
		start := time.Now()
		for extent := range uint64(600) {
			all.Go(func() {
				<-time.After(time.Duration(extent) * 5 * time.Millisecond)
				switch _, err := f.fill(t.Context(), fillOf(extent)); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, wire.ErrBusy):
					busy.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		most := int64((time.Since(start)+fillBurst).Seconds()*rate/layout.ExtentSize) + 1
		if done.Load() > most || done.Load() < most/2 || busy.Load() == 0 {
			t.Errorf("%d fills, %d refused; want at most %d", done.Load(), busy.Load(), most)
		}
		if s.most.Load() > fillsAtOnce {
			t.Errorf("%d reads at once", s.most.Load())
		}
		if len(f.mu.recent) > fillsKept {
			t.Errorf("%d are kept", len(f.mu.recent))
		}
	})
}

// TestFillRefuses what is not the shard's, and what fails it does not remember.
func TestFillRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptStore{length: 1 << 20, incarnation: 2}
		f, a := testFiller(t, s, 1<<30)
		if _, err := f.fill(t.Context(), fillOf(0)); !errors.Is(err, wire.ErrUnknownShard) {
			t.Errorf("of another incarnation: %v", err)
		}
		if n := held(t, a, shardA.Hash(1), 0); n != 0 {
			t.Errorf("%d bytes of another incarnation are held", n)
		}
		s.incarnation, s.fail = 1, wire.ErrOutOfRetention
		if _, err := f.fill(t.Context(), fillOf(0)); !errors.Is(err, wire.ErrOutOfRetention) {
			t.Errorf("out of retention: %v", err)
		}
		s.fail = nil
		if end, err := f.fill(t.Context(), fillOf(0)); err != nil || end != layout.ExtentSize {
			t.Errorf("after that: %d, %v", end, err)
		}
		if f.mu.nextAt.Sub(time.Now()) > time.Millisecond {
			t.Errorf("what was not read counts: the rate is used up for %v", f.mu.nextAt.Sub(time.Now()))
		}
	})
}

// fillVia asks a node over the wire.
func fillVia(t *testing.T, c *wire.Client, f wire.Fill) (uint64, error) {
	t.Helper()
	head, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Call(t.Context(), wire.OpFill, head, nil)
	if err != nil {
		return 0, err
	}
	r, err := wire.ParseFilled(b)
	if err != nil {
		t.Fatal(err)
	}
	return r.End, nil
}

// TestRealFill: a cache alone fills from the node with the store, or from the directory
// that all hosts share, but only extents of its own; a node without the setting says
// that it does not.
func TestRealFill(t *testing.T) {
	dir := t.TempDir()
	store := serve(t, func(c *Config) { c.Dir = dir })
	if _, err := fillVia(t, dial(t, store), wire.Fill{Incarnation: 1, Shard: []byte(shardA.String())}); !errors.Is(err, wire.ErrBadRequest) {
		t.Fatalf("without the setting: %v", err)
	}
	if dial(t, store).Hello().Features&wire.FeatureFill != 0 {
		t.Fatal("without the setting it says that it fills")
	}
	const extents = 32 // which of them are whose depends on the incarnation
	remote := durable.NewRemote(dial(t, store))
	for pos := uint64(0); pos < extents*layout.ExtentSize; pos += wire.MaxAppend {
		data := make([]byte, wire.MaxAppend)
		contentAt(data, pos)
		if _, _, err := remote.Append(t.Context(), shardA.String(), pos, data); err != nil {
			t.Fatal(err)
		}
	}
	info, err := remote.Stat(t.Context(), shardA.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]cluster.Store{"node": {Node: "store"}, "directory": {Dir: dir}} {
		both := cluster.Data | cluster.Metadata
		source, err := cluster.NewFixed(cluster.Description{Full: 1, Store: at, Nodes: []cluster.Node{
			{Name: "store", Addr: store.Addr().String(), Roles: both, Weight: 1}, {Name: "cache", Addr: "127.0.0.1:1", Roles: both, Weight: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, func(c *Config) {
			c.Dir, c.Cluster, c.Node, c.ReadThrough = "", source, "cache", 1<<30
		})
		c := dial(t, s)
		if c.Hello().Features&wire.FeatureFill == 0 {
			t.Fatalf("%s: it does not say that it fills", name)
		}
		view, _ := source.View()
		h := shardA.Hash(info.Incarnation)
		filled := 0
		for extent := range uint64(extents) {
			var set cluster.Replicas
			view.Extent(h, extent, &set)
			mine := slices.Contains(set.Full(), 1)
			end, err := fillVia(t, c, wire.Fill{Incarnation: info.Incarnation, Extent: extent, Shard: []byte(shardA.String())})
			if mine && (err != nil || end != (extent+1)*layout.ExtentSize || held(t, s.main().arena, h, extent) != layout.ExtentSize) ||
				!mine && !errors.Is(err, wire.ErrBadRequest) {
				t.Errorf("%s: extent %d, mine %v: %d, %v, %d bytes held", name, extent, mine, end, err, held(t, s.main().arena, h, extent))
			}
			if mine {
				filled++
			}
		}
		if st := s.Stats(); st.Fills != uint64(filled) || st.FillBytes != uint64(filled)*layout.ExtentSize || filled == 0 {
			t.Errorf("%s: %d fills of %d bytes, want %d", name, st.Fills, st.FillBytes, filled)
		}
		if _, err := fillVia(t, c, wire.Fill{Incarnation: 1, Extent: 1 << 60, Shard: []byte(shardA.String())}); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("%s: an extent past all positions: %v", name, err)
		}
	}
}

// oneArena is an arena as the cache of every stream.
type oneArena struct{ arenaNode }

// Put implements producer.LocalNode.
func (a oneArena) Put(_ layout.Shard, p layout.Put) error { return a.arenaNode.Put(p) }
