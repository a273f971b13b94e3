package chaos

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// fill writes the content that shard and position determine.
func fill(p []byte, shard layout.Shard, pos uint64) {
	seed := (uint64(shard.Number) + 1) * 0x9e3779b97f4a7c15
	for i := 0; i < len(p); {
		at := pos + uint64(i)
		x := at/8 ^ seed
		x = (x ^ x>>31) * 0xd6e8feb86659fd93
		x ^= x >> 32
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], x*0x9e3779b97f4a7c15)
		i += copy(p[i:], w[at%8:])
	}
}

// wrongAt returns where data, which begins at pos, is wrong; -1 if nowhere. want
// is room that is reused.
func wrongAt(data []byte, shard layout.Shard, pos uint64, want *[]byte) int {
	if cap(*want) < len(data) {
		*want = make([]byte, len(data))
	}
	w := (*want)[:len(data)]
	if fill(w, shard, pos); bytes.Equal(w, data) {
		return -1
	}
	for i := range data {
		if data[i] != w[i] {
			return i
		}
	}
	return -1
}

// TestContent: every position has its own bytes, wherever a read begins, and
// shards differ.
func TestContent(t *testing.T) {
	a, b := layout.Shard{Stream: "s", Number: 1}, layout.Shard{Stream: "s", Number: 2}
	whole := make([]byte, 10_000)
	fill(whole, a, 0)
	var room []byte
	for from := range 100 {
		if i := wrongAt(whole[from:], a, uint64(from), &room); i >= 0 {
			t.Fatalf("from %d: wrong at %d", from, i)
		}
	}
	if wrongAt(whole, b, 0, &room) != 0 || wrongAt(whole[8:], a, 0, &room) != 0 {
		t.Fatal("other positions, or another shard, have the same bytes")
	}
	whole[5000] ^= 1
	if i := wrongAt(whole, a, 0, &room); i != 5000 {
		t.Fatalf("a wrong byte at 5000 is found at %d", i)
	}
}
