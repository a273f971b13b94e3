package chunkstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestNoWrongByteValidates lets consumers copy and validate without a pause while
// writers reuse every slot all the time: an arena of 16 ways for 48 extents,
// deltas, and writers that disagree. Whatever validates must be what some writer
// put under that name. Consumers also go by places that they found long ago.
func TestNoWrongByteValidates(t *testing.T) {
	t.Run("one set", func(t *testing.T) { noWrongByte(t, oneSet) })
	t.Run("two sets", func(t *testing.T) { noWrongByte(t, 2<<20+1<<18) })
}

func noWrongByte(t *testing.T, size uint64) {
	const extents, chunks, variants = 48, 2, 3
	h := layout.Shard{Stream: "c", Number: 1}.Hash(1)
	var truth [extents * chunks][variants][]byte
	chunkOf := func(i int) uint64 { return uint64(i/chunks)*16 + uint64(i%chunks)*7 }
	for i := range truth {
		for v := range variants {
			truth[i][v] = content(h, chunkOf(i), v)
		}
	}
	puts := 2000
	if testing.Short() || slow {
		puts = 1000
	}

	a := newArena(t, Config{Bytes: size, Evicted: PoisonEvicted})
	if a.Geometry().ExtentSets > 2 {
		t.Fatalf("%+v has room for all", a.Geometry())
	}
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	var valid, refused, lost atomic.Uint64
	for w := range 2 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range puts {
				i := rnd.IntN(len(truth))
				full := truth[i][max(0, rnd.IntN(8)-5)]
				to := 1 + rnd.IntN(layout.ChunkSize)
				cut := rnd.IntN(to + 1) // in two pieces
				if cut > 0 {
					if err := a.Put(put(h, chunkOf(i), full, 0, cut)); err != nil {
						t.Error(err)
						return
					}
				}
				if cut < to {
					a.Put(put(h, chunkOf(i), full, cut, to)) // ErrPrefix when the other writer was in between
				}
			}
		})
	}
	for r := range 2 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(r), 2))
			look, err := newConsumer(a.Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			places := map[uint64]place{}
			for !done.Load() {
				i := rnd.IntN(len(truth))
				chunk := chunkOf(i)
				p, ok := places[chunk/16]
				if !ok || rnd.IntN(4) == 0 {
					if p, ok = look.findExtent(h, chunk/16); !ok {
						lost.Add(1)
						continue
					}
					places[chunk/16] = p
				}
				got := look.chunkAt(p, h, chunk)
				if got == nil {
					refused.Add(1)
					continue
				}
				right := false
				for _, full := range truth[i] {
					right = right || bytes.Equal(got, full[:len(got)])
				}
				if !right {
					t.Errorf("chunk %d: %d wrong bytes validate", chunk, len(got))
					return
				}
				valid.Add(1)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	s := a.Stats()
	t.Logf("%d reads validated, %d refused, %d found no way; %d evictions, %d conflicts", valid.Load(), refused.Load(), lost.Load(), s.Extents.Capacity, s.Conflicts)
	if valid.Load() == 0 || refused.Load() == 0 || s.Extents.Capacity == 0 || s.Conflicts == 0 {
		t.Error("something never happened")
	}
}

// TestNoMixedEntryValidates is the same for length entries: their fields are
// functions of the length, and the page table is too small for the streams.
func TestNoMixedEntryValidates(t *testing.T) {
	const streams = 20
	shards := make([]layout.Shard, streams*2)
	for i := range shards {
		shards[i] = layout.Shard{Stream: fmt.Sprint("s", i/2), Number: uint32(i % 2)}
	}
	crcOf := func(length uint64) uint32 { return uint32(length * 0x9e3779b1) }
	rounds := 2000
	if testing.Short() {
		rounds = 1100
	}

	a := newArena(t, Config{})
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	var valid, refused atomic.Uint64
	for w := range 2 { // each owns half of the shards, and both write to each page
		writers.Go(func() {
			for length := uint64(1); length <= uint64(rounds); length++ {
				for i := w; i < len(shards); i += 2 {
					if i/2 >= 12 && length%64 != 0 {
						continue // so that the first streams keep their page for a while
					}
					e := layout.Entry{Length: length << 30, TailCRC: crcOf(length << 30), HeartbeatMS: length * 3, Incarnation: 1 + length/1000}
					if err := a.Publish(layout.Publication{Shard: shards[i], Entry: e}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for r := range 2 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(r), 3))
			look, err := newConsumer(a.Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			var places [streams * 2]place
			var known [streams * 2]bool
			var last [streams * 2]uint64
			for !done.Load() {
				i := rnd.IntN(len(shards))
				if !known[i] {
					if places[i], known[i] = look.findPage(shards[i]); !known[i] {
						refused.Add(1)
						continue
					}
				}
				e, _ := look.entryAt(places[i], shards[i], 1)
				if !e.Valid(shards[i].Hash(e.Incarnation)) {
					refused.Add(1)
					known[i] = false // look again, as the layout says
					continue
				}
				if e.TailCRC != crcOf(e.Length) || e.HeartbeatMS != e.Length>>30*3 || e.Incarnation != 1+e.Length>>30/1000 || e.Length < last[i] {
					t.Errorf("mixed entry validates: %+v after %d", e, last[i])
					return
				}
				last[i] = e.Length
				valid.Add(1)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	s := a.Stats()
	t.Logf("%d entries validated, %d refused; %d pages evicted, %d incarnations replaced", valid.Load(), refused.Load(), s.Pages.Capacity, s.Replaced)
	if valid.Load() == 0 || refused.Load() == 0 || s.Pages.Capacity == 0 || s.Replaced == 0 {
		t.Error("something never happened")
	}
}

// TestDescriptorFollowsData: while chunks only grow, a consumer that copies the
// descriptor first and the bytes then never meets a CRC that fails, as the node
// writes them in the other order. (A READ over a NIC has no order; this is about
// the node's stores, on one host.)
func TestDescriptorFollowsData(t *testing.T) {
	a := newArena(t, Config{})
	full := content(testShard, 0, 0)
	extents := uint64(80)
	if testing.Short() || slow {
		extents = 15
	}
	var current, looks atomic.Uint64 // the chunk that grows; how often the consumer has looked
	var readers sync.WaitGroup
	grown := 0
	readers.Go(func() {
		look, err := newConsumer(a.Bytes())
		if err != nil {
			t.Error(err)
			return
		}
		for chunk, last := uint64(0), 0; chunk < extents*16; {
			looks.Add(1)
			p, ok := look.findExtent(testShard, chunk/16)
			var got []byte
			if ok {
				got = look.chunkAt(p, testShard, chunk)
			}
			if len(got) > last {
				last = len(got)
				grown++
			}
			if now := current.Load(); now != chunk {
				chunk, last = now, 0
			} else if len(got) < last {
				t.Errorf("chunk %d: %d bytes validate after %d", chunk, len(got), last)
				last = 0
			}
		}
	})
	for chunk := range extents * 16 {
		current.Store(chunk)
		crc := layout.SeedCRC(testShard, chunk)
		for from := 0; from < layout.ChunkSize; from += 512 {
			for seen := looks.Load(); looks.Load() == seen; { // puts race with looks, one for one
				runtime.Gosched()
			}
			crc = layout.ExtendCRC(crc, full[from:from+512])
			if err := a.Put(layout.Put{Shard: testShard, Chunk: chunk, From: from, Data: full[from : from+512], CRC: crc}); err != nil {
				t.Fatal(err)
			}
		}
	}
	current.Store(extents * 16)
	readers.Wait()
	if t.Logf("%d lengths seen", grown); grown == 0 {
		t.Error("nothing seen")
	}
}
