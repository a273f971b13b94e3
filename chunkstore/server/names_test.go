package server

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

func TestNames(t *testing.T) {
	var n names
	for i := range 2*namesMost + 1 {
		for range 2 {
			if s, err := n.shard(fmt.Appendf(nil, "a/%d", i)); err != nil || s != (layout.Shard{Stream: "a", Number: uint32(i)}) {
				t.Fatal(s, err)
			}
		}
		if len(n.of) > namesMost {
			t.Fatalf("%d names are kept", len(n.of))
		}
	}
	if _, err := n.shard([]byte("a")); !errors.Is(err, wire.ErrBadRequest) {
		t.Error(err)
	}
}

// TestRealPutsAndPublishesDoNotAllocate: what a writer sends of a batch.
func TestRealPutsAndPublishesDoNotAllocate(t *testing.T) {
	s := serve(t, nil)
	nc := rawDial(t, s)
	greet(t, nc)
	const depth = 16
	var requests []byte
	data := bytes.Repeat([]byte{7}, layout.ChunkSize)
	for i := range uint32(depth) {
		shard := layout.Shard{Stream: "stream", Number: i}
		hash := shard.Hash(1)
		crc := layout.ExtendCRC(layout.SeedCRC(hash, 0), data)
		put, err := (&wire.Put{ShardHash: hash, CRC: crc, Data: data}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, frame(wire.Header{Op: wire.OpPut, ID: 1}, append(put, data...))...)
		publish, err := (&wire.Publish{Shard: []byte(shard.String()), Incarnation: 1, Length: layout.ChunkSize}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, frame(wire.Header{Op: wire.OpPublish, ID: 2}, publish)...)
	}
	replies := make([]byte, 2*depth*wire.HeaderLen)
	for range 100 {
		exchange(t, nc, requests, replies)
	}
	if per := testing.AllocsPerRun(200, func() { exchange(t, nc, requests, replies) }); per >= 1 { // see TestRealArenaReadsDoNotAllocate
		t.Errorf("%v allocations for %d puts and publications", per, depth)
	}
	for b := replies; len(b) > 0; b = b[wire.HeaderLen:] {
		if h, err := wire.ParseHeader(b[:wire.HeaderLen]); err != nil || h.Status != 0 {
			t.Fatalf("refused: %+v, %v", h, err)
		}
	}
}
