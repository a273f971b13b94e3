package crccopy

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	src, dst := make([]byte, Block+64), make([]byte, Block+64)
	for i := range 200 {
		for j := range src {
			src[j] = byte(r.Uint32())
		}
		if i == 0 {
			clear(src)
		}
		clear(dst)
		from, to := r.IntN(64), r.IntN(63)
		dst[to+Block] = 77
		crc := r.Uint32()
		got := Join(crc, Copy(dst[to:], src[from:]))
		if want := crc32.Update(crc, castagnoli, src[from:][:Block]); got != want {
			t.Fatalf("CRC %#x of a block at %d, want %#x", got, from, want)
		}
		if !bytes.Equal(dst[to:][:Block], src[from:][:Block]) || dst[to+Block] != 77 {
			t.Fatalf("a block at %d was not copied to %d, or more than that", from, to)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte("rmatail"), uint32(7))
	f.Fuzz(func(t *testing.T, b []byte, crc uint32) {
		var src, dst [Block]byte
		for i := range src {
			if len(b) > 0 {
				src[i] = b[i%len(b)] + byte(i/len(b))
			}
		}
		if got, want := Join(crc, Copy(dst[:], src[:])), crc32.Update(crc, castagnoli, src[:]); got != want || dst != src {
			t.Fatalf("CRC %#x, want %#x", got, want)
		}
	})
}

// BenchmarkCopy copies from more memory than a cache holds, next to the two steps
// that it replaces.
func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 64<<20), make([]byte, 64<<10)
	for i := range src { // zero pages would all be one
		src[i] = byte(i >> 12)
	}
	at := func(i int) ([]byte, []byte) {
		return dst[i%16*Block:][:Block], src[i%(64<<8)*Block:][:Block]
	}
	b.Run("copy, then CRC", func(b *testing.B) {
		b.SetBytes(Block)
		for i := range b.N {
			d, s := at(i)
			copy(d, s)
			crc32.Update(7, castagnoli, d)
		}
	})
	b.Run("Copy", func(b *testing.B) {
		b.SetBytes(Block)
		for i := range b.N {
			d, s := at(i)
			Join(7, Copy(d, s))
		}
	})
}
