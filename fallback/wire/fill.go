package wire

import "encoding/binary"

const (
	fillOffExtent = 8
	fillFixed     = 16

	filledFixed = 8
)

var _ = [1]struct{}{}[fillOffExtent+8-fillFixed]

// Fill asks a node to read an extent of a shard from the durable store into its arena, for everybody who misses it there. Only nodes
// with FeatureFill do.
type Fill struct {
	Incarnation uint64
	Extent      uint64 // its number; how long one is, is chunkstore/layout's business
	Shard       []byte // canonical name, 1 to MaxShard bytes
}

// AppendTo appends f's payload to dst.
func (f *Fill) AppendTo(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, f.Incarnation)
	dst = binary.LittleEndian.AppendUint64(dst, f.Extent)
	return appendStr(dst, "shard name", f.Shard, 1, MaxShard)
}

// ParseFill reads a Fill request; Shard is a part of p.
func ParseFill(p []byte) (Fill, error) {
	if err := atLeast(p, "fill", fillFixed, ErrBadRequest); err != nil {
		return Fill{}, err
	}
	f := Fill{Incarnation: binary.LittleEndian.Uint64(p), Extent: binary.LittleEndian.Uint64(p[fillOffExtent:])}
	var err error
	if f.Shard, err = lastStr(p[fillFixed:], "shard name", 1, MaxShard, ErrBadRequest); err != nil {
		return Fill{}, err
	}
	return f, nil
}

// Filled is the reply to a Fill: the arena had the extent's bytes up to position End when it was written. A moment later they may have
// been evicted again.
type Filled struct{ End uint64 }

// AppendTo appends f's payload to dst.
func (f Filled) AppendTo(dst []byte) []byte { return binary.LittleEndian.AppendUint64(dst, f.End) }

// ParseFilled reads the reply to a Fill.
func ParseFilled(p []byte) (Filled, error) {
	if err := exactly(p, "fill reply", filledFixed, ErrMalformed); err != nil {
		return Filled{}, err
	}
	return Filled{binary.LittleEndian.Uint64(p)}, nil
}
