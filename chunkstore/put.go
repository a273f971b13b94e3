package chunkstore

import (
	"bytes"
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Put takes a piece of a chunk, as the package comment says. The data is copied.
// Errors match ErrPrefix (send the chunk from its start), ErrBadPut or ErrClosed.
// It does not allocate unless it returns an error.
func (a *Arena) Put(p layout.Put) error {
	if err := checkPut(p); err != nil {
		a.counters.bad.Add(1)
		return err
	}
	k := key{p.Shard, p.Chunk / layout.ChunksPerExtent}
	s := sets(a.header.Geometry.ExtentSetsOf(k.hash, k.number))
	now := a.age(a.cfg.Clock())

	r := &a.extents
	r.lock(s)
	defer r.unlock(s)
	if a.closed.Load() {
		return ErrClosed
	}
	index, ok := r.find(s, k)
	if !ok {
		if p.From > 0 {
			return a.prefixMiss(p, 0)
		}
		index = a.claim(r, s, k, now)
	}
	if err := a.write(index, p); err != nil {
		return err
	}
	r.ways[index].modified = now
	a.counters.puts.Add(1)
	if p.From > 0 {
		a.counters.deltas.Add(1)
	}
	return nil
}

func checkPut(p layout.Put) error {
	switch {
	case p.From < 0 || len(p.Data) == 0 || len(p.Data) > layout.ChunkSize || p.From > layout.ChunkSize-len(p.Data):
		return fmt.Errorf("%w: %d bytes from %d of a chunk of %d", ErrBadPut, len(p.Data), p.From, layout.ChunkSize)
	case p.Chunk/layout.ChunksPerExtent > layout.NumberMax:
		return fmt.Errorf("%w: chunk %d is past the last position", ErrBadPut, p.Chunk)
	case p.From == 0:
		if crc := layout.ExtendCRC(layout.SeedCRC(p.Shard, p.Chunk), p.Data); crc != p.CRC {
			return fmt.Errorf("%w: CRC %08x, its %d bytes have %08x", ErrBadPut, p.CRC, len(p.Data), crc)
		}
	}
	return nil
}

// write brings a checked put into the extent at an index.
func (a *Arena) write(index uint32, p layout.Put) error {
	g := a.header.Geometry
	i := p.Chunk % layout.ChunksPerExtent
	slot := a.mem[g.ExtentSlot(index)+i*layout.ChunkSize:][:layout.ChunkSize]
	generation := a.extents.ways[index].generation
	have := 0
	// What consumers see is also the node's only record of a chunk: the consumers'
	// mappings cannot write it.
	held := layout.Descriptor(layout.LoadWord(a.mem, g.Descriptors(index)+i*layout.DescriptorSize))
	if held.Of(generation) {
		have = held.Valid()
	}

	end := p.From + len(p.Data)
	switch {
	case p.From > have:
		return a.prefixMiss(p, have)
	case end <= have:
		same := bytes.Equal(slot[p.From:end], p.Data)
		if same && p.From > 0 { // from 0 the CRC has been checked against the data
			same = layout.ExtendCRC(layout.SeedCRC(p.Shard, p.Chunk), slot[:end]) == p.CRC
		}
		if same {
			a.counters.duplicates.Add(1)
			return nil
		}
	case bytes.Equal(slot[p.From:have], p.Data[:have-p.From]):
		fresh := p.Data[have-p.From:]
		if have == 0 || layout.ExtendCRC(held.CRC(), fresh) == p.CRC {
			a.extend(index, p, have, fresh)
			return nil
		}
	}

	a.counters.conflicts.Add(1)
	if p.From > 0 {
		return fmt.Errorf("%w: shard %x chunk %d has other bytes in [0, %d)", ErrPrefix, p.Shard, p.Chunk, end)
	}
	a.hide(&a.extents, index)
	w := &a.extents.ways[index]
	w.generation = layout.NextGeneration(w.generation)
	a.identify(&a.extents, index)
	a.extend(index, p, 0, p.Data)
	return nil
}

// extend copies bytes behind the valid prefix of a chunk, then makes them count.
func (a *Arena) extend(index uint32, p layout.Put, have int, fresh []byte) {
	g := a.header.Geometry
	i := p.Chunk % layout.ChunksPerExtent
	copy(a.mem[g.ExtentSlot(index)+i*layout.ChunkSize+uint64(have):], fresh)
	layout.StoreWord(a.mem, g.Descriptors(index)+i*layout.DescriptorSize,
		uint64(layout.NewDescriptor(p.CRC, have+len(fresh), a.extents.ways[index].generation)))
}

func (a *Arena) prefixMiss(p layout.Put, have int) error {
	a.counters.prefixMisses.Add(1)
	return fmt.Errorf("%w: shard %x chunk %d from %d, the node has %d bytes", ErrPrefix, p.Shard, p.Chunk, p.From, have)
}
