package rdma

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSlab deals blocks out and takes them back in any order: blocks that are out
// never overlap, are aligned to their size, and all memory comes back together.
func TestSlab(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(t, "MiB") << 20
		s := newSlab(size)
		type block struct{ off, order int }
		var out []block
		used := make([]bool, size/minBlock)
		mark := func(b block, to bool) {
			for u := b.off / minBlock; u < (b.off+blockSize(b.order))/minBlock; u++ {
				if used[u] == to {
					t.Fatalf("block at %d of order %d overlaps another", b.off, b.order)
				}
				used[u] = to
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(1, MaxBatchBytes).Draw(t, "bytes")
				if rapid.Bool().Draw(t, "small") {
					n = 1 + n%20000
				}
				order := orderFor(n)
				if blockSize(order) < n || order > 0 && blockSize(order-1) >= n {
					t.Fatalf("order %d for %d bytes", order, n)
				}
				off, ok := s.take(order)
				if !ok {
					return
				}
				b := block{off, order}
				if off%blockSize(order) != 0 || off+blockSize(order) > size {
					t.Fatalf("block of order %d at %d", order, off)
				}
				mark(b, true)
				out = append(out, b)
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				mark(out[i], false)
				s.put(out[i].off, out[i].order)
				out = append(out[:i], out[i+1:]...)
			},
		})
		for _, b := range out {
			s.put(b.off, b.order)
		}
		for range size / MaxBatchBytes {
			if _, ok := s.take(blockOrders - 1); !ok {
				t.Fatal("freed blocks do not join")
			}
		}
		if _, ok := s.take(0); ok {
			t.Fatal("more memory than there is")
		}
	})
}

// TestSlabIsFull: as long as only one size is asked for, all memory can be used.
func TestSlabIsFull(t *testing.T) {
	for order := range blockOrders {
		s := newSlab(2 << 20)
		n := 0
		for _, ok := s.take(order); ok; _, ok = s.take(order) {
			n++
		}
		if n*blockSize(order) != 2<<20 {
			t.Errorf("%d blocks of %d bytes", n, blockSize(order))
		}
	}
}
