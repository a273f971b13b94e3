package local

import (
	"fmt"
	"math/bits"
	"sync"
)

// pool keeps released batches, in classes of 4 KiB to 1 MiB, and bounds the
// memory of all: those in use and those that wait.
type pool struct {
	limit int
	mu    struct {
		sync.Mutex
		bytes int // of all batches
		idle  [maxClass + 1][]*Batch
	}
}

const (
	minClass = 12 // 1<<12 bytes
	maxClass = 20
)

func (p *pool) take(size int) (*Batch, error) {
	class := max(minClass, bits.Len(uint(size-1)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := p.mu.idle[class]; len(idle) > 0 {
		b := idle[len(idle)-1]
		p.mu.idle[class] = idle[:len(idle)-1]
		return b, nil
	}
	for other := range p.mu.idle { // make room of batches that nobody wants now
		for p.mu.bytes+1<<class > p.limit && len(p.mu.idle[other]) > 0 {
			idle := p.mu.idle[other]
			idle[len(idle)-1] = nil
			p.mu.idle[other] = idle[:len(idle)-1]
			p.mu.bytes -= 1 << other
		}
	}
	if p.mu.bytes+1<<class > p.limit {
		return nil, fmt.Errorf("%w: %d of %d bytes are in use, a batch of %d takes %d", ErrNoBuffers, p.mu.bytes, p.limit, size, 1<<class)
	}
	p.mu.bytes += 1 << class
	return &Batch{class: class, mem: make([]byte, 1<<class)}, nil
}

func (p *pool) put(b *Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.idle[b.class] = append(p.mu.idle[b.class], b)
}
