package local

import (
	"fmt"
	"sync"
	"time"
)

const (
	// MaxReads is the most reads of one batch.
	MaxReads = 256
	// MaxBatch is the most bytes of one batch.
	MaxBatch = 1 << 20
	// slabBytes bounds the memory of all batches of a Conn that are in use.
	slabBytes = 1 << 30
)

// Batch is a set of reads that are copied together. One goroutine at a time.
type Batch struct {
	c     *Conn
	slab  []byte
	used  int
	reads []read
	state batchState
}

type read struct {
	off uint64
	to  []byte
}

type batchState uint8

const (
	planning batchState = iota
	posted
	settled
)

// slabs recycles batches: those of one Conn have few different sizes.
type slabs struct {
	mu   sync.Mutex
	free []*Batch
	out  int // bytes of batches in use
}

// freeKept bounds the batches that wait for their next use.
const freeKept = 64

// NewBatch returns a batch with size bytes of memory for what is read, at most
// MaxBatch. ErrNoBuffers when batches in use hold 1 GiB.
func (c *Conn) NewBatch(size int) (*Batch, error) {
	if size <= 0 || size > MaxBatch {
		return nil, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrBatch, size, MaxBatch)
	}
	c.slabs.mu.Lock()
	defer c.slabs.mu.Unlock()
	if c.slabs.out+size > slabBytes {
		return nil, ErrNoBuffers
	}
	for i := len(c.slabs.free) - 1; i >= 0; i-- {
		// Not much larger than asked for: a small reader must not hold a large slab.
		if b := c.slabs.free[i]; len(b.slab) >= size && len(b.slab) <= 2*size+4096 {
			last := len(c.slabs.free) - 1
			c.slabs.free[i] = c.slabs.free[last]
			c.slabs.free = c.slabs.free[:last]
			c.slabs.out += len(b.slab)
			return b, nil
		}
	}
	c.slabs.out += size
	return &Batch{c: c, slab: make([]byte, size)}, nil
}

// Add plans a read of n arena bytes from off on, and returns where they will be.
// nil: the batch has no room, n is not positive, or the arena ends before.
func (b *Batch) Add(off uint64, n int) []byte {
	size := b.c.Size()
	if b.state != planning || n <= 0 || n > len(b.slab)-b.used || len(b.reads) == MaxReads || off > size || uint64(n) > size-off {
		return nil
	}
	to := b.slab[b.used : b.used+n : b.used+n]
	b.used = min((b.used+n+7)&^7, len(b.slab))
	b.reads = append(b.reads, read{off, to})
	return to
}

// Post begins the reads, which are done by Wait. The deadline is not needed: a
// copy does not wait for anybody.
func (b *Batch) Post(time.Time) error {
	if b.state != planning || len(b.reads) == 0 {
		return ErrBatch
	}
	if err := b.c.Err(); err != nil {
		return err
	}
	b.state = posted
	return nil
}

// Wait copies. An error means that nothing of the batch may be used.
func (b *Batch) Wait() error {
	if b.state != posted {
		return ErrBatch
	}
	b.state = settled
	c := b.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.mem == nil {
		return ErrClosed
	}
	for i := range b.reads {
		r := &b.reads[i]
		copy(r.to, c.mem[r.off:])
	}
	// Asked after the copy: what was read before the node's end was live memory.
	return c.Err()
}

// Reset forgets the reads; their slices die.
func (b *Batch) Reset() {
	b.reads, b.used, b.state = b.reads[:0], 0, planning
}

// Release gives the batch back; its slices die, and it must not be used again.
func (b *Batch) Release() {
	b.Reset()
	s := &b.c.slabs
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out -= len(b.slab)
	if len(s.free) < freeKept {
		s.free = append(s.free, b)
	}
}
