package layout

import "encoding/binary"

// Identity says which key a way holds.
type Identity struct {
	Key        Hash
	Number     uint64 // extent or page number, 48 bits
	Generation uint32 // see NextGeneration
}

// NumberMax is the largest extent number: 2^48 extents of 2^16 bytes are all of
// a 64-bit position.
const NumberMax = 1<<48 - 1

// tagMask cuts a generation to the 19 bits that a descriptor has room for.
const tagMask = 1<<19 - 1

// NextGeneration returns the generation after g, skipping those with a zero tag.
func NextGeneration(g uint32) uint32 {
	g++
	if g&tagMask == 0 {
		g++
	}
	return g
}

// Words returns the identity as its four words, in order. The last one is the
// one to store last; zero in its place empties the way.
func (id Identity) Words() [4]uint64 {
	return [4]uint64{load64(id.Key[0:]), load64(id.Key[8:]), id.Number, uint64(id.Generation) | uint64(id.check())<<32}
}

func (id Identity) check() uint32 {
	if c := extendHalf(extendWord(hashCRC(id.Key), id.Number), id.Generation); c != 0 {
		return c
	}
	return 1
}

// ParseIdentity reads a copied identity. ok is false for an empty way, for one
// that was read half written, and for fewer than IdentitySize bytes.
func ParseIdentity(b []byte) (id Identity, ok bool) {
	if len(b) < IdentitySize || load64(b[24:]) == 0 {
		return Identity{}, false
	}
	id = Identity{Key: Hash(b[:16]), Number: load64(b[16:]), Generation: binary.LittleEndian.Uint32(b[24:])}
	ok = binary.LittleEndian.Uint32(b[28:]) == id.check() && id.Generation&tagMask != 0 && id.Number <= NumberMax
	return id, ok
}

// FindIdentity looks for a key in the copied identities of one set (SetSize
// bytes; the ways that a shorter copy has) and returns its way and generation.
func FindIdentity(set []byte, key Hash, number uint64) (way int, generation uint32, ok bool) {
	for way = range min(Ways, len(set)/IdentitySize) {
		b := set[way*IdentitySize:][:IdentitySize]
		if Hash(b[:16]) != key || load64(b[16:]) != number {
			continue // cheap refusal first: the CRC is only for the likely hit
		}
		if id, ok := ParseIdentity(b); ok {
			return way, id.Generation, true
		}
	}
	return 0, 0, false
}
