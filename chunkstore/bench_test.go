package chunkstore

import (
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// BenchmarkPut writes consecutive bytes of one shard, so that chunks fill, extents
// are claimed and, in time, evicted: all of a node's work for a byte.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{200, layout.ChunkSize} {
		b.Run(map[int]string{200: "delta=200B", layout.ChunkSize: "chunk=4096B"}[size], func(b *testing.B) {
			a := newArena(b, Config{Bytes: 64 << 20})
			full := content(testShard, 0, 0)
			p := layout.Put{Shard: testShard}
			crc, pos := layout.SeedCRC(testShard, 0), 0
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				n := min(size, layout.ChunkSize-pos)
				p.From, p.Data = pos, full[pos:pos+n]
				crc = layout.ExtendCRC(crc, p.Data)
				p.CRC = crc
				if err := a.Put(p); err != nil {
					b.Fatal(err)
				}
				if pos += n; pos == layout.ChunkSize {
					p.Chunk++
					crc, pos = layout.SeedCRC(testShard, p.Chunk), 0
				}
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	a := newArena(b, Config{})
	p := layout.Publication{Shard: layout.Shard{Stream: "logs", Number: 7}, Entry: layout.Entry{Incarnation: 1}}
	b.ReportAllocs()
	for b.Loop() {
		p.Entry.Length += 200
		p.Entry.HeartbeatMS++
		if err := a.Publish(p); err != nil {
			b.Fatal(err)
		}
	}
}
