package rdma

import (
	"math/bits"
)

// slab hands out blocks of one memory region by the buddy method: sizes are
// powers of two from minBlock to MaxBatchBytes, a freed block joins its free
// neighbour of the same size. It only counts; it never touches the memory. Not
// safe for concurrent use.
type slab struct {
	free [blockOrders]int32 // first free block of the order, by index of its first unit; -1 none
	next []int32            // next and previous free block of the same order
	prev []int32
	at   []int8 // 1+order where a free block begins, else 0
}

const (
	minBlock    = 4096
	blockOrders = 9 // minBlock << 8 is MaxBatchBytes
)

// Does not compile when the constants drift apart.
const _ = uint(minBlock<<(blockOrders-1)-MaxBatchBytes) + uint(MaxBatchBytes-minBlock<<(blockOrders-1))

// newSlab covers size bytes, a multiple of MaxBatchBytes.
func newSlab(size int) *slab {
	units := size / minBlock
	s := &slab{next: make([]int32, units), prev: make([]int32, units), at: make([]int8, units)}
	for o := range s.free {
		s.free[o] = -1
	}
	const step = MaxBatchBytes / minBlock
	for u := units - step; u >= 0; u -= step {
		s.push(int32(u), blockOrders-1)
	}
	return s
}

// orderFor is the smallest order whose blocks hold n bytes.
func orderFor(n int) int {
	return bits.Len(uint((n+minBlock-1)/minBlock - 1))
}

func blockSize(order int) int { return minBlock << order }

// take returns the offset of a free block of the order, false when there is
// none.
func (s *slab) take(order int) (offset int, ok bool) {
	o := order
	for o < blockOrders && s.free[o] < 0 {
		o++
	}
	if o == blockOrders {
		return 0, false
	}
	u := s.free[o]
	s.remove(u, o)
	for o > order {
		o--
		s.push(u+1<<o, o)
	}
	return int(u) * minBlock, true
}

// put gives a block back.
func (s *slab) put(offset, order int) {
	u := int32(offset / minBlock)
	for order < blockOrders-1 {
		buddy := u ^ 1<<order
		if s.at[buddy] != int8(order+1) {
			break
		}
		s.remove(buddy, order)
		u &^= 1 << order
		order++
	}
	s.push(u, order)
}

func (s *slab) push(u int32, order int) {
	head := s.free[order]
	s.next[u], s.prev[u] = head, -1
	if head >= 0 {
		s.prev[head] = u
	}
	s.free[order] = u
	s.at[u] = int8(order + 1)
}

func (s *slab) remove(u int32, order int) {
	next, prev := s.next[u], s.prev[u]
	if prev >= 0 {
		s.next[prev] = next
	} else {
		s.free[order] = next
	}
	if next >= 0 {
		s.prev[next] = prev
	}
	s.at[u] = 0
}
