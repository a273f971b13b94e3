package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// pollRequest is what a consumer sends over TCP: a descriptor block and chunks.
func pollRequest(t testing.TB, chunks int) (request []byte, reply int) {
	t.Helper()
	reads := []wire.ArenaRead{{Off: 4096, N: layout.DescriptorsSize}}
	for i := range chunks {
		reads = append(reads, wire.ArenaRead{Off: uint64(i+2) * layout.ChunkSize, N: layout.ChunkSize})
	}
	p, err := wire.AppendReadArena(nil, reads)
	if err != nil {
		t.Fatal(err)
	}
	return frame(wire.Header{Op: wire.OpReadArena, ID: 7}, p), wire.HeaderLen + layout.DescriptorsSize + chunks*layout.ChunkSize
}

// exchange sends pipelined requests and reads all replies, without allocating.
func exchange(t testing.TB, nc net.Conn, requests, replies []byte) {
	if _, err := nc.Write(requests); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, replies); err != nil {
		t.Fatal(err)
	}
}

func TestRealArenaReadsDoNotAllocate(t *testing.T) {
	s := serve(t, nil)
	nc := rawDial(t, s)
	greet(t, nc)
	request, n := pollRequest(t, 4)
	const depth = 16
	requests, replies := bytes.Repeat(request, depth), make([]byte, n*depth)
	for range 100 { // buffers grow to what they need
		exchange(t, nc, requests, replies)
	}
	per := testing.AllocsPerRun(200, func() { exchange(t, nc, requests, replies) })
	if per >= 1 { // the eviction ticker and the like may take one now and then
		t.Errorf("%v allocations for %d pipelined reads", per, depth)
	}
	mem := s.main().arena.Bytes()
	if !bytes.Equal(replies[n-layout.ChunkSize:n], mem[5*layout.ChunkSize:6*layout.ChunkSize]) {
		t.Error("wrong bytes")
	}
}

// Pipelined reads are answered by few writes, each of them bounded.
func TestRealRepliesGather(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.FlushBytes = 64 << 10 })
	for _, tc := range []struct {
		chunks, depth int
		least, most   uint64 // writes
	}{
		{1, 7, 1, 4},     // one segment may arrive in pieces
		{1, 200, 12, 60}, // 64 KiB are 16 replies
		{32, 7, 4, 7},    // two replies exceed the bound
	} {
		nc := rawDial(t, s)
		greet(t, nc)
		before := s.Stats().Writes
		request, n := pollRequest(t, tc.chunks)
		exchange(t, nc, bytes.Repeat(request, tc.depth), make([]byte, n*tc.depth))
		if got := s.Stats().Writes - before; got < tc.least || got > tc.most {
			t.Errorf("%d reads of %d chunks in %d writes, want %d to %d", tc.depth, tc.chunks, got, tc.least, tc.most)
		}
	}
}

func BenchmarkReadArena(b *testing.B) {
	for _, chunks := range []int{1, 16} {
		for _, depth := range []int{1, 16} {
			b.Run(fmt.Sprintf("chunks=%d/depth=%d", chunks, depth), func(b *testing.B) {
				s := serve(b, nil)
				nc := rawDial(b, s)
				greet(b, nc)
				request, n := pollRequest(b, chunks)
				requests, replies := bytes.Repeat(request, depth), make([]byte, n*depth)
				b.SetBytes(int64(len(replies)))
				b.ReportAllocs()
				for b.Loop() {
					exchange(b, nc, requests, replies)
				}
				b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "reads/s")
			})
		}
	}
}

func BenchmarkAppendThroughNode(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := serve(b, nil)
			store := durable.NewRemote(dial(b, s))
			record := pattern(0, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := store.Append(b.Context(), shardA.String(), wire.NoOffset, record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
