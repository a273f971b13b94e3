package local

import (
	"fmt"
	"time"

	"github.com/rmatail/rmatail/internal/crccopy"
)

const (
	// MaxBatchBytes is the largest batch in bytes.
	MaxBatchBytes = 1 << 20
	// MaxReads is how many reads a batch has room for.
	MaxReads = 256
)

// state is where a batch is in its life.
type state uint8

const (
	planning state = iota
	waiting
	posted
	over
	released
)

// Batch is a set of reads that are posted together, and the memory they land in.
// One goroutine at a time; different batches of a Conn are independent. The
// slices that Add returns are filled when Wait has returned nil, and die at Reset
// or Release. There is no order inside or between the reads.
type Batch struct {
	c     *Conn
	class int
	mem   []byte // 8-byte aligned: at least 4 KiB of Go's allocator
	room  int    // of mem, as asked for
	used  int
	state state
	reads []read // at most MaxReads
	sums  []uint32
	when  when
}

// read is one copy: arena[off:off+n] to mem[at:at+n].
type read struct {
	off   uint64
	at, n int
	sums  []uint32 // of its first blocks
}

// NewBatch returns a batch with memory for size bytes, 1 to MaxBatchBytes; each
// read begins at a multiple of 8. It does not allocate when a released batch fits.
// Errors match ErrBatchSize, ErrNoBuffers, ErrLost or ErrClosed.
func (c *Conn) NewBatch(size int) (*Batch, error) {
	if size < 1 || size > MaxBatchBytes {
		return nil, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrBatchSize, size, MaxBatchBytes)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	b, err := c.pool.take(size)
	if err != nil {
		return nil, err
	}
	b.c, b.room, b.state = c, size, planning
	return b, nil
}

// Add plans a read of arena bytes [off, off+n) and returns the n bytes where they
// will land, at an 8-byte aligned address. It returns nil when the batch has no
// room for it, when n <= 0, when the range passes the end of the arena, or when
// the batch has been posted.
func (b *Batch) Add(off uint64, n int) []byte {
	at := (b.used + 7) &^ 7
	if b.state != planning || len(b.reads) == MaxReads || n <= 0 || at > b.room || n > b.room-at ||
		off > b.c.size || uint64(n) > b.c.size-off {
		return nil
	}
	b.reads = append(b.reads, read{off: off, at: at, n: n})
	b.used = at + n
	return b.mem[at : at+n : at+n]
}

// AddSums is Add that also returns where the sum of each block of the n bytes will be (see
// package crccopy), counted from the first byte; a last part of a block has none. They live
// as long.
func (b *Batch) AddSums(off uint64, n int) (data []byte, sums []uint32) {
	if data = b.Add(off, n); data == nil {
		return nil, nil
	}
	if b.sums == nil {
		b.sums = make([]uint32, MaxBatchBytes/crccopy.Block) // as many as there can be
	}
	used := 0
	for i := range b.reads {
		used += len(b.reads[i].sums)
	}
	sums = b.sums[used:][:n/crccopy.Block]
	b.reads[len(b.reads)-1].sums = sums
	return data, sums
}

// Post makes the planned reads ready for Wait, which is where they happen. Reads
// of mapped memory need no time to speak of: the deadline has no use here.
// Errors match ErrState, ErrLost or ErrClosed.
func (b *Batch) Post(time.Time) error {
	if b.state != planning || len(b.reads) == 0 {
		return fmt.Errorf("post of %d reads: %w", len(b.reads), ErrState)
	}
	if err := b.c.Err(); err != nil {
		return err
	}
	b.state = posted
	return nil
}

// Wait reads. nil: every slice is filled. After an error they hold garbage: Reset
// or Release. Errors match ErrState, ErrLost or ErrClosed. It does not allocate.
func (b *Batch) Wait() error {
	if b.state == waiting {
		_, err := b.await(b.when.until)
		return err
	}
	if b.state != posted {
		return fmt.Errorf("wait: %w", ErrState)
	}
	return b.copy()
}

// copy carries out the reads.
func (b *Batch) copy() error {
	b.state = over
	b.c.guard.RLock()
	defer b.c.guard.RUnlock()
	if err := b.c.Err(); err != nil { // then arena may be gone
		return err
	}
	for i := range b.reads {
		r := &b.reads[i]
		to, from := b.mem[r.at:r.at+r.n], b.c.arena[r.off:]
		for j := range r.sums {
			r.sums[j] = crccopy.Copy(to, from)
			to, from = to[crccopy.Block:], from[crccopy.Block:]
		}
		copy(to, from)
	}
	return b.c.Err() // what was copied while the node died is not delivered either
}

// Await is Wait, but for a batch that waits for a condition: until that holds, until
// its own time, or until the one given here, and then it may be called again. Mapped
// memory is never on its way.
func (b *Batch) Await(until time.Time) (settled bool, err error) {
	if b.state == waiting {
		return b.await(until)
	}
	return true, b.Wait()
}

// Reset forgets the planned reads and keeps the memory.
func (b *Batch) Reset() {
	if b.state != released {
		b.forget(planning)
	}
}

// Release gives the batch back to its Conn, for the next NewBatch. It must not be
// used afterwards.
func (b *Batch) Release() {
	if b.state != released {
		b.forget(released)
		b.c.pool.put(b)
	}
}

// forget ends the life of the slices that Add returned.
func (b *Batch) forget(next state) {
	if b.state == waiting {
		b.c.waiter.remove(b)
	}
	poison(b.mem[:b.used])
	b.when.words, b.when.bits = b.when.words[:0], 0
	b.reads, b.used, b.state = b.reads[:0], 0, next
}
