package read

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// copyFloor copies out of a mapping, and computes CRC32C where ours verifies. The
// destination is one chunk, which stays in the nearest cache: nothing that
// delivers more than a chunk at a time can be faster.
type copyFloor struct {
	mem    []byte // stands for the arena
	to     [layout.ChunkSize]byte
	n      int // bytes of a read
	stride int
	count  int // of places
	batch  int
	k      int
	crc    uint32
	proves bool
}

func newCopyFloor(mem []byte, l cell, count int) *copyFloor {
	f := &copyFloor{mem: mem, n: l.kind.bytes(), stride: layout.ChunkSize, count: count, batch: max(l.batch, 1), proves: l.kind.verified()}
	if l.kind == Backlog {
		f.batch = layout.ChunksPerExtent
	}
	return f
}

func (f *copyFloor) step(time.Time) (int, error) {
	for range f.batch {
		at := f.k * f.stride
		copy(f.to[:f.n], f.mem[at:at+f.n])
		if f.proves {
			f.crc = layout.ExtendCRC(f.crc, f.to[:f.n])
		}
		if f.k++; f.k == f.count {
			f.k = 0
		}
	}
	return f.batch, nil
}

func (f *copyFloor) rewind(time.Time) error { return nil }
func (f *copyFloor) drain() error           { return nil }
