package chunkstore

import (
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Puts and publishes do not allocate: neither deltas, nor whole chunks that push
// out others.
func TestAllocations(t *testing.T) {
	a := newArena(t, Config{})
	full := content(testShard, 0, 0)
	n := 0
	if got := testing.AllocsPerRun(1000, func() {
		p := layout.Put{Shard: testShard, Chunk: uint64(n) * 16, Data: full}
		p.CRC = layout.ExtendCRC(layout.SeedCRC(p.Shard, p.Chunk), full)
		n++
		if err := a.Put(p); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations a chunk", got)
	}

	crc := layout.SeedCRC(testShard, 1<<20)
	from := 0
	if got := testing.AllocsPerRun(1000, func() {
		crc = layout.ExtendCRC(crc, full[from:from+4])
		if err := a.Put(layout.Put{Shard: testShard, Chunk: 1 << 20, From: from, Data: full[from : from+4], CRC: crc}); err != nil {
			t.Fatal(err)
		}
		from += 4
	}); got != 0 {
		t.Errorf("%v allocations a delta", got)
	}

	p := layout.Publication{Shard: layout.Shard{Stream: "a-stream-with-some-name"}, Entry: layout.Entry{Incarnation: 1}}
	if got := testing.AllocsPerRun(1000, func() {
		p.Shard.Number += 64 // new pages too
		p.Entry.Length++
		if err := a.Publish(p); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations a publish", got)
	}
}
