package read

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// errMissing is returned when the node's memory does not hold what it should.
var errMissing = errors.New("not in the arena")

// places is where in the arena everything is that is read.
type places struct {
	words  []uint64 // length words of the shards
	chunks []place  // extents of the shards in turn
	deltas []delta
}

// place is a whole chunk.
type place struct {
	hash       layout.Hash
	chunk      uint64
	at         uint64 // of its data
	descs      uint64 // of its extent's descriptors
	generation uint32
}

// delta is the end of a partial chunk.
type delta struct {
	at   uint64
	crc  uint32 // of what is before it
	want uint32 // with it
}

// offsets are where the reads of a kind are.
func (p *places) offsets(k Kind) []uint64 {
	var offs []uint64
	switch k {
	case Word:
		return p.words
	case Delta:
		for _, d := range p.deltas {
			offs = append(offs, d.at)
		}
	default:
		for _, c := range p.chunks {
			offs = append(offs, c.at)
		}
	}
	return offs
}

// finder reads the tables of an arena.
type finder struct {
	m memory
	g layout.Geometry
}

// findPlaces finds all chunks of the node's shards.
func findPlaces(m memory, n *node) (*places, error) {
	f := finder{m: m}
	b, err := f.read(0, layout.HeaderSize)
	if err != nil {
		return nil, err
	}
	header, err := layout.ParseHeader(b)
	if err != nil {
		return nil, err
	}
	f.g = header.Geometry
	p := &places{}
	for _, s := range n.shards {
		if err := f.shard(p, s, n.bytes); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	for e := range n.bytes / layout.ExtentSize {
		for _, s := range n.shards {
			if err := f.extent(p, s, e); err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
		}
	}
	return p, nil
}

// read copies a range of the arena.
func (f finder) read(at uint64, n int) ([]byte, error) {
	b, err := f.m.newBatch(n)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	p := b.Add(at, n)
	if p == nil {
		return nil, fmt.Errorf("%w: %d bytes at %d", errMissing, n, at)
	}
	if err := asDoer(b).Do(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return append([]byte(nil), p...), nil
}

// find looks for a key in its two sets.
func (f finder) find(key layout.Hash, number uint64, sets [2]uint32, at func(uint32) uint64) (index, generation uint32, err error) {
	for _, set := range sets {
		b, err := f.read(at(set), layout.SetSize)
		if err != nil {
			return 0, 0, err
		}
		if way, generation, ok := layout.FindIdentity(b, key, number); ok {
			return set*layout.Ways + uint32(way), generation, nil
		}
	}
	return 0, 0, errMissing
}

// shard finds a shard's entry and its partial chunk.
func (f finder) shard(p *places, s shard, length uint64) error {
	stream, page := layout.StreamHash(s.Stream), s.Page()
	index, _, err := f.find(stream, page, f.g.PageSetsOf(stream, page), f.g.PageSet)
	if err != nil {
		return fmt.Errorf("length page: %w", err)
	}
	at := f.g.PageSlot(index) + uint64(s.EntryOffset())
	b, err := f.read(at, layout.EntrySize)
	if err != nil {
		return err
	}
	entry := layout.ParseEntry(b, 0)
	if !entry.Valid(s.hash) || entry.Length != length {
		return fmt.Errorf("%w: length %d, want %d", errMissing, entry.Length, length)
	}
	p.words = append(p.words, at)

	chunk := length / layout.ChunkSize
	extent := layout.Extent(length)
	index, _, err = f.find(s.hash, extent, f.g.ExtentSetsOf(s.hash, extent), f.g.ExtentSet)
	if err != nil {
		return fmt.Errorf("extent %d: %w", extent, err)
	}
	at = f.g.ExtentSlot(index) + chunk*layout.ChunkSize%layout.ExtentSize
	if b, err = f.read(at, prefixBytes); err != nil {
		return err
	}
	p.deltas = append(p.deltas, delta{at: at + prefixBytes, crc: layout.ExtendCRC(layout.SeedCRC(s.hash, chunk), b), want: entry.TailCRC})
	return nil
}

// extent finds the whole chunks of an extent.
func (f finder) extent(p *places, s shard, e uint64) error {
	index, generation, err := f.find(s.hash, e, f.g.ExtentSetsOf(s.hash, e), f.g.ExtentSet)
	if err != nil {
		return fmt.Errorf("extent %d: %w", e, err)
	}
	for i := range uint64(layout.ChunksPerExtent) {
		p.chunks = append(p.chunks, place{hash: s.hash, chunk: e*layout.ChunksPerExtent + i, at: f.g.ExtentSlot(index) + i*layout.ChunkSize,
			descs: f.g.Descriptors(index), generation: generation})
	}
	return nil
}
