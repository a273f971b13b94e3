package producer

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// arenaCache puts into a real arena, in the protocol's words.
type arenaCache struct{ *chunkstore.Arena }

func (c arenaCache) Put(_ layout.Shard, puts []layout.Put, errs []error) {
	for i, p := range puts {
		errs[i] = c.put(p)
	}
}

func (c arenaCache) put(p layout.Put) error {
	err := c.Arena.Put(p)
	if errors.Is(err, chunkstore.ErrPrefix) {
		if whole, ok := p.FromStart(); ok {
			err = c.Arena.Put(whole)
		}
	}
	return err
}

func newArena(t testing.TB, bytes uint64) arenaCache {
	t.Helper()
	a, err := chunkstore.New(chunkstore.Config{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return arenaCache{a}
}

// entryOf finds a shard's entry as a consumer would: by layout alone.
func entryOf(t testing.TB, mem []byte, shard layout.Shard) layout.Entry {
	t.Helper()
	h, err := layout.ParseHeader(mem)
	if err != nil {
		t.Fatal(err)
	}
	stream := layout.StreamHash(shard.Stream)
	for _, set := range h.Geometry.PageSetsOf(stream, shard.Page()) {
		if way, _, ok := layout.FindIdentity(mem[h.Geometry.PageSet(set):][:layout.SetSize], stream, shard.Page()); ok {
			slot := h.Geometry.PageSlot(set*layout.Ways + uint32(way))
			return layout.ParseEntry(mem[slot:][:layout.PageSize], shard.EntryOffset())
		}
	}
	return layout.Entry{}
}

// chunkOf finds a chunk's verified bytes by layout alone; nil if it is not there.
func chunkOf(t testing.TB, mem []byte, hash layout.Hash, chunk uint64) []byte {
	t.Helper()
	h, err := layout.ParseHeader(mem)
	if err != nil {
		t.Fatal(err)
	}
	g, extent := h.Geometry, chunk/layout.ChunksPerExtent
	for _, set := range g.ExtentSetsOf(hash, extent) {
		way, generation, ok := layout.FindIdentity(mem[g.ExtentSet(set):][:layout.SetSize], hash, extent)
		if !ok {
			continue
		}
		index, i := set*layout.Ways+uint32(way), int(chunk%layout.ChunksPerExtent)
		d := layout.ParseDescriptor(mem[g.Descriptors(index):][:layout.DescriptorsSize], i)
		if !d.Of(generation) {
			return nil
		}
		data := mem[g.ExtentSlot(index)+uint64(i)*layout.ChunkSize:][:d.Valid()]
		if layout.ExtendCRC(layout.SeedCRC(hash, chunk), data) != d.CRC() {
			t.Errorf("chunk %d does not check", chunk)
		}
		return data
	}
	return nil
}

// Random batches through a real log and a real arena: after each append the
// arena holds, by an independent reading, exactly what was appended.
func TestRandomBatches(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	dir, err := durable.Open(t.TempDir(), durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	arena := newArena(t, 8<<20)
	hash, total := layout.Hash{}, uint64(0)
	open := func() *Appender {
		log, err := dir.Log(testShard.String())
		if err != nil {
			t.Fatal(err)
		}
		hash = testShard.Hash(log.Info().Incarnation)
		a, err := Open(t.Context(), Config{
			Shard: testShard, Log: log, Cache: arena,
			ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
				return dir.ReadAt(ctx, testShard.String(), pos, p)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := open()
	defer func() { a.Close(context.Background()) }()
	for i := range 1500 {
		n := 1 + rng.IntN([]int{10, 300, 5000, 20000}[rng.IntN(4)])
		if pos, err := appendOne(t.Context(), a, pattern(total, n)); err != nil || pos != total {
			t.Fatalf("seed %d: position %d, want %d: %v", seed, pos, total, err)
		}
		from := total
		total += uint64(n)
		mem := arena.Bytes()
		e := entryOf(t, mem, testShard)
		if !e.Valid(hash) || e.Length != total {
			t.Fatalf("seed %d: published %d, want %d", seed, e.Length, total)
		}
		for c := layout.Chunk(from); c <= layout.Chunk(total-1); c++ {
			start := c * layout.ChunkSize
			want := pattern(start, int(min(layout.ChunkSize, total-start)))
			if !bytes.Equal(chunkOf(t, mem, hash, c), want) {
				t.Fatalf("seed %d: chunk %d after %d bytes is wrong", seed, c, total)
			}
		}
		if tail, valid := layout.Tail(total); layout.ExtendCRC(layout.SeedCRC(hash, tail), chunkOf(t, mem, hash, tail)[:valid]) != e.TailCRC {
			t.Fatalf("seed %d: tail CRC at %d is wrong", seed, total)
		}
		if i%300 == 299 { // again, on top of what is there
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			a = open()
		}
	}
	t.Logf("%d bytes in 1500 batches", total)
}

// nullLog costs nothing, so that what is measured is the Appender.
type nullLog struct{ info durable.Info }

func (l *nullLog) Append(_ context.Context, off uint64, p []byte) (uint64, error) {
	l.info.Length = off + uint64(len(p))
	return l.info.Length, nil
}
func (l *nullLog) Info() durable.Info          { return l.info }
func (l *nullLog) Flush(context.Context) error { return nil }
func (l *nullLog) Seal() error                 { return nil }
func (l *nullLog) Close() error                { return nil }

func newBenchAppender(t testing.TB) *Appender {
	a, err := Open(t.Context(), Config{Shard: testShard, Log: &nullLog{info: durable.Info{Incarnation: 1}}, Cache: newArena(t, 8<<20)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

// A batch costs two allocations, whatever it holds: what its Acks point to. What
// sealing an entry costs, here and in the arena, is layout's.
func TestAppendHardlyAllocates(t *testing.T) {
	a := newBenchAppender(t)
	record := pattern(0, 100)
	const records = 6400
	n := testing.AllocsPerRun(20, func() {
		var k Ack
		for range records {
			var err error
			if k, err = a.Append(context.Background(), record); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := k.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	batches := float64(a.Stats().Batches) / 21
	if n > 3*batches+10 {
		t.Errorf("%v allocations for %d records in %v batches", n, records, batches)
	}
	t.Logf("%v allocations a record, %v records a batch", n/records, records/batches)
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 4096, 65536} {
		b.Run(strconv.Itoa(size)+"B", func(b *testing.B) {
			a := newBenchAppender(b)
			record := pattern(0, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := appendOne(context.Background(), a, record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
