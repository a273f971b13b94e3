package tcp

import (
	"fmt"
	"math/bits"
	"sync"
)

// Batches come in sizes of powers of two, so that one that was released serves many later sizes.
const (
	minClass = 12 // 4 KiB
	maxClass = 26 // mostMaxBatch
)

var _ = [1]struct{}{}[1<<maxClass-mostMaxBatch]

func classOf(size int) int { return max(minClass, bits.Len(uint(size-1))) }

// slabs keeps released batches for reuse and bounds the memory of all.
type slabs struct {
	limit int // bytes

	mu struct {
		sync.Mutex
		held int // bytes of all batches, in use and idle
		idle [maxClass + 1][]*Batch
	}
}

func (s *slabs) take(size int) (*Batch, error) {
	class := classOf(size)
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle := s.mu.idle[class]; len(idle) > 0 {
		b := idle[len(idle)-1]
		s.mu.idle[class] = idle[:len(idle)-1]
		return b, nil
	}
	s.shrink(s.limit - 1<<class)
	if s.mu.held+1<<class > s.limit {
		return nil, fmt.Errorf("%d of %d B in use, %d more wanted: %w", s.mu.held, s.limit, 1<<class, ErrNoBuffers)
	}
	s.mu.held += 1 << class
	return &Batch{class: class, mem: make([]byte, 1<<class)}, nil
}

// shrink drops idle batches, large ones first, until no more than target bytes are held or nothing is idle; mu is held.
func (s *slabs) shrink(target int) {
	for class := maxClass; class >= minClass; class-- {
		for idle := s.mu.idle[class]; s.mu.held > target && len(idle) > 0; idle = s.mu.idle[class] {
			idle[len(idle)-1] = nil
			s.mu.idle[class] = idle[:len(idle)-1]
			s.mu.held -= 1 << class
		}
	}
}

func (s *slabs) put(b *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.idle[b.class] = append(s.mu.idle[b.class], b)
}
