package chunkstore

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// consumer looks keys up as a reader does: it knows the arena's bytes and package
// layout, nothing of the node. Every look-up copies first and then validates.
type consumer struct {
	mem []byte
	g   layout.Geometry
	set [layout.SetSize]byte
	buf [layout.ChunkSize]byte
}

func newConsumer(mem []byte) (*consumer, error) {
	h, err := layout.ParseHeader(append([]byte{}, mem[:layout.HeaderSize]...))
	if err != nil {
		return nil, err
	}
	if h.Geometry.Size() > uint64(len(mem)) {
		return nil, fmt.Errorf("arena of %d bytes in %d", h.Geometry.Size(), len(mem))
	}
	return &consumer{mem: mem, g: h.Geometry}, nil
}

// place is what a consumer may remember of a key.
type place struct {
	index, generation uint32
}

func (c *consumer) findExtent(h layout.Hash, extent uint64) (place, bool) {
	for _, set := range c.g.ExtentSetsOf(h, extent) {
		copy(c.set[:], c.mem[c.g.ExtentSet(set):])
		if way, g, ok := layout.FindIdentity(c.set[:], h, extent); ok {
			return place{set*layout.Ways + uint32(way), g}, true
		}
	}
	return place{}, false
}

// chunkAt returns a chunk's valid bytes, nil if nothing validates there. They die
// at the next call.
func (c *consumer) chunkAt(p place, h layout.Hash, chunk uint64) []byte {
	i := chunk % layout.ChunksPerExtent
	d := layout.Descriptor(layout.LoadWord(c.mem, c.g.Descriptors(p.index)+i*layout.DescriptorSize))
	if !d.Of(p.generation) {
		return nil
	}
	data := c.buf[:d.Valid()]
	copy(data, c.mem[c.g.ExtentSlot(p.index)+i*layout.ChunkSize:])
	if layout.ExtendCRC(layout.SeedCRC(h, chunk), data) != d.CRC() {
		return nil
	}
	return data
}

func (c *consumer) chunk(h layout.Hash, chunk uint64) []byte {
	p, ok := c.findExtent(h, chunk/layout.ChunksPerExtent)
	if !ok {
		return nil
	}
	return c.chunkAt(p, h, chunk)
}

func (c *consumer) findPage(s layout.Shard) (place, bool) {
	key := layout.StreamHash(s.Stream)
	for _, set := range c.g.PageSetsOf(key, s.Page()) {
		copy(c.set[:], c.mem[c.g.PageSet(set):])
		if way, g, ok := layout.FindIdentity(c.set[:], key, s.Page()); ok {
			return place{set*layout.Ways + uint32(way), g}, true
		}
	}
	return place{}, false
}

func (c *consumer) entryAt(p place, s layout.Shard, incarnation uint64) (layout.Entry, bool) {
	copy(c.buf[:], c.mem[c.g.PageSlot(p.index):])
	e := layout.ParseEntry(c.buf[:], s.EntryOffset())
	return e, e.Incarnation == incarnation && e.Valid(s.Hash(incarnation))
}

func (c *consumer) entry(s layout.Shard, incarnation uint64) (layout.Entry, bool) {
	p, ok := c.findPage(s)
	if !ok {
		return layout.Entry{}, false
	}
	return c.entryAt(p, s, incarnation)
}
