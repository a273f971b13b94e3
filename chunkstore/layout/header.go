package layout

import (
	"encoding/binary"
	"fmt"
)

const magic = "RMATAIL\x01"

// Header is an arena's self-description.
type Header struct {
	Geometry Geometry
	// Epoch is random and drawn at each start of a node: another epoch at the
	// same address is another arena. Never zero.
	Epoch uint64
}

// Encode writes the header into the first HeaderSize bytes of b.
func (h Header) Encode(b []byte) {
	b = b[:HeaderSize]
	clear(b)
	copy(b, magic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], Version)
	le.PutUint32(b[12:], ChunkSize)
	le.PutUint32(b[16:], ChunksPerExtent)
	le.PutUint32(b[20:], Ways)
	le.PutUint32(b[24:], h.Geometry.PageSets)
	le.PutUint32(b[28:], h.Geometry.ExtentSets)
	le.PutUint64(b[32:], h.Epoch)
	le.PutUint64(b[40:], h.Geometry.Size())
	le.PutUint32(b[4092:], Checksum(b[:4092]))
}

// ParseHeader reads a header from untrusted bytes. Errors match ErrForeign,
// ErrVersion or ErrCorrupt.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize || string(b[:8]) != magic {
		return Header{}, fmt.Errorf("%w: no magic in the first %d bytes", ErrForeign, min(len(b), 8))
	}
	le := binary.LittleEndian
	if v := le.Uint32(b[8:]); v != Version {
		return Header{}, fmt.Errorf("%w: layout version %d, this build reads %d; run the same release on both ends", ErrVersion, v, Version)
	}
	if got, want := Checksum(b[:4092]), le.Uint32(b[4092:]); got != want {
		return Header{}, fmt.Errorf("%w: CRC %08x, stored %08x", ErrCorrupt, got, want)
	}
	if c, e, w := le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:]); c != ChunkSize || e != ChunksPerExtent || w != Ways {
		return Header{}, fmt.Errorf("%w: chunk %d B, %d chunks an extent, %d ways; this build reads %d, %d, %d", ErrVersion, c, e, w, ChunkSize, ChunksPerExtent, Ways)
	}
	h := Header{Geometry: Geometry{le.Uint32(b[24:]), le.Uint32(b[28:])}, Epoch: le.Uint64(b[32:])}
	g := h.Geometry
	if g.PageSets == 0 || g.ExtentSets == 0 || g.PageSets > maxSets || g.ExtentSets > maxSets || h.Epoch == 0 {
		return Header{}, fmt.Errorf("%w: %d page sets, %d extent sets, epoch %x", ErrCorrupt, g.PageSets, g.ExtentSets, h.Epoch)
	}
	if size := le.Uint64(b[40:]); size != g.Size() {
		return Header{}, fmt.Errorf("%w: %d bytes stated, %d by its geometry", ErrCorrupt, size, g.Size())
	}
	return h, nil
}
