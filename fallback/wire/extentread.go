package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	extentReadOffExtent = 16
	extentReadOffFrom   = 24
	extentReadOffN      = 28
	extentReadLen       = 32
)

var _ = [1]struct{}{}[extentReadOffN+4-extentReadLen]

// ExtentRead asks for bytes [From, From+N) of an extent of a shard, wherever the node has it: for one whose place the client has not looked
// up. N 0: no such read. Only nodes with FeatureExtents do.
type ExtentRead struct {
	ShardHash [16]byte
	Extent    uint64 // its number; how long one is, is chunkstore/layout's business
	From, N   uint32
}

func (e *ExtentRead) appendTo(dst []byte) []byte {
	if e.N == 0 {
		return dst
	}
	dst = append(dst, e.ShardHash[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, e.Extent)
	dst = binary.LittleEndian.AppendUint32(dst, e.From)
	return binary.LittleEndian.AppendUint32(dst, e.N)
}

// check holds e's own limits and that of the total up to and with it.
func (e *ExtentRead) check(total int) error {
	switch {
	case e.From > math.MaxUint32-e.N:
		return fmt.Errorf("read of %d B of an extent at %d wraps around: %w", e.N, e.From, ErrBadRequest)
	case uint64(total)+uint64(e.N) > MaxRead:
		return fmt.Errorf("reads of %d B together, at most %d: %w", uint64(total)+uint64(e.N), MaxRead, ErrBadRequest)
	}
	return nil
}

// takeExtentRead reads what is left of a request's payload: an ExtentRead of at least a byte, or nothing.
func takeExtentRead(p []byte, total int) (e ExtentRead, err error) {
	if len(p) == 0 {
		return e, nil
	}
	if err := exactly(p, "read of an extent", extentReadLen, ErrBadRequest); err != nil {
		return e, err
	}
	e = ExtentRead{ShardHash: [16]byte(p), Extent: binary.LittleEndian.Uint64(p[extentReadOffExtent:]),
		From: binary.LittleEndian.Uint32(p[extentReadOffFrom:]), N: binary.LittleEndian.Uint32(p[extentReadOffN:])}
	if e.N == 0 {
		return e, fmt.Errorf("read of 0 B of an extent: %w", ErrBadRequest)
	}
	return e, e.check(total)
}
