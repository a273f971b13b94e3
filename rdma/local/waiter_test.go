package local

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBits(t *testing.T) {
	for _, c := range []struct {
		off  uint64
		n    int
		want uint32
	}{
		{0, 8, 1}, {24, 8, 1}, {32, 8, 2}, {31, 2, 3}, {992, 32, 1 << 31}, {4096, 8, 2}, {8192, 32, 4}, {0, 1023, allBits}, {0, 1024, allBits}, {4096, 1 << 20, allBits},
	} {
		if got := bitsOf(c.off, c.n); got != c.want {
			t.Errorf("%d bytes at %d: %032b, want %032b", c.n, c.off, got, c.want)
		}
	}
}

// TestBitsMeet: what a node tells of a range has the bit of every word in it.
func TestBitsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := rapid.Uint64Range(0, 1<<40).Draw(t, "offset") &^ 7
		n := rapid.IntRange(1, 600).Draw(t, "words") * 8
		at := off + uint64(rapid.IntRange(0, n/8-1).Draw(t, "word"))*8
		if bitsOf(off, n)&bitsOf(at, 8) == 0 {
			t.Fatalf("%d bytes at %d do not wake who waits for the word at %d", n, off, at)
		}
	})
}
