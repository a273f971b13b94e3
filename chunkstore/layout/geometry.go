package layout

import (
	"fmt"
	"math/bits"
)

// Geometry is the number of sets in each of an arena's two tables, from which
// every offset follows.
type Geometry struct {
	PageSets   uint32
	ExtentSets uint32
}

const (
	// maxSets keeps every offset far below 2^63: 2^24 sets of extents are 16 TiB.
	maxSets = 1 << 24
	// Length pages get 1/64 of an arena, at most this many sets: 524,288 shards.
	maxAutoPageSets = 256
)

// GeometryFor returns the largest geometry that fits size bytes: 1/64 of it for
// length pages, the rest for extents. What is left over at the end of size is
// unused: allocate Geometry.Size bytes. The smallest arena is about 1.1 MiB.
// Errors match ErrSize.
func GeometryFor(size uint64) (Geometry, error) {
	g := Geometry{PageSets: uint32(min(max(size/64/(Ways*PageSize), 1), maxAutoPageSets))}
	const perSet = Ways * (IdentitySize + DescriptorsSize + ExtentSize)
	if rest := g.offsets().extentIdents; size > rest {
		g.ExtentSets = uint32(min((size-rest)/perSet, maxSets))
	}
	for g.ExtentSets > 0 && g.Size() > size { // padding of the two arrays
		g.ExtentSets--
	}
	if g.ExtentSets == 0 {
		return Geometry{}, fmt.Errorf("%w: %d bytes; the smallest arena has %d", ErrSize, size, Geometry{1, 1}.Size())
	}
	return g, nil
}

type offsets struct {
	pageIdents, pageSlots, extentIdents, extentDescs, extentSlots, end uint64
}

func (g Geometry) offsets() (o offsets) {
	ps, es := uint64(g.PageSets), uint64(g.ExtentSets)
	o.pageIdents = HeaderSize
	o.pageSlots = pad(o.pageIdents + ps*SetSize)
	o.extentIdents = o.pageSlots + ps*Ways*PageSize
	o.extentDescs = pad(o.extentIdents + es*SetSize)
	o.extentSlots = pad(o.extentDescs + es*Ways*DescriptorsSize)
	o.end = o.extentSlots + es*Ways*ExtentSize
	return o
}

func pad(n uint64) uint64 { return (n + 4095) &^ 4095 }

// Size returns the bytes that the arena takes, a multiple of 4,096.
func (g Geometry) Size() uint64 { return g.offsets().end }

// Pages and Extents return the number of slots in each table.
func (g Geometry) Pages() uint32   { return g.PageSets * Ways }
func (g Geometry) Extents() uint32 { return g.ExtentSets * Ways }

// PageSet returns the arena offset of the 512 bytes of identities of a page set.
func (g Geometry) PageSet(set uint32) uint64 { return g.offsets().pageIdents + uint64(set)*SetSize }

// PageIdentity returns the arena offset of the identity of the page at an index.
func (g Geometry) PageIdentity(index uint32) uint64 {
	return g.offsets().pageIdents + uint64(index)*IdentitySize
}

// PageSlot returns the arena offset of the length page at an index.
func (g Geometry) PageSlot(index uint32) uint64 {
	return g.offsets().pageSlots + uint64(index)*PageSize
}

// ExtentSet returns the arena offset of the 512 bytes of identities of an extent set.
func (g Geometry) ExtentSet(set uint32) uint64 {
	return g.offsets().extentIdents + uint64(set)*SetSize
}

// ExtentIdentity returns the arena offset of the identity of the extent at an index.
func (g Geometry) ExtentIdentity(index uint32) uint64 {
	return g.offsets().extentIdents + uint64(index)*IdentitySize
}

// Descriptors returns the arena offset of the 16 descriptors of the extent at an index.
func (g Geometry) Descriptors(index uint32) uint64 {
	return g.offsets().extentDescs + uint64(index)*DescriptorsSize
}

// ExtentSlot returns the arena offset of the 65,536 bytes of the extent at an index.
func (g Geometry) ExtentSlot(index uint32) uint64 {
	return g.offsets().extentSlots + uint64(index)*ExtentSize
}

// PageSetsOf returns the two sets that may hold a length page. They differ
// unless the table has only one set.
func (g Geometry) PageSetsOf(stream Hash, page uint64) [2]uint32 {
	return twoSets(stream, page, g.PageSets)
}

// ExtentSetsOf returns the two sets that may hold an extent. They differ unless
// the table has only one set.
func (g Geometry) ExtentSetsOf(shard Hash, extent uint64) [2]uint32 {
	return twoSets(shard, extent, g.ExtentSets)
}

// twoSets draws two independent sets: each half of the hash, mixed with the
// number, is scaled to the range by its high product word (no modulo bias that
// matters below 2^24 sets).
func twoSets(h Hash, number uint64, sets uint32) [2]uint32 {
	a := mix(load64(h[0:]) + number*0x9e3779b97f4a7c15)
	b := mix(load64(h[8:]) ^ number*0xc2b2ae3d27d4eb4f)
	hi, _ := bits.Mul64(a, uint64(sets))
	lo, _ := bits.Mul64(b, uint64(sets))
	s := [2]uint32{uint32(hi), uint32(lo)}
	if s[0] == s[1] && sets > 1 {
		s[1] = (s[1] + 1) % sets
	}
	return s
}

// mix is a 64-bit finaliser (xor-shift, multiply): every input bit reaches every
// output bit, which the high product word above needs.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
