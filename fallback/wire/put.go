package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	putOffChunk    = 16
	putOffCRC      = 24
	putOffFrom     = 28
	putOffReserved = 30
	putFixed       = 32
)

var _ = [1]struct{}{}[putOffReserved+2-putFixed]

// Put carries bytes [From, From+len(Data)) of one chunk.
type Put struct {
	ShardHash [16]byte
	Chunk     uint64
	CRC       uint32 // CRC32C, seeded with the identity, of the chunk's prefix [0, From+len(Data))
	From      uint16
	Data      []byte // 1 to MaxPutData bytes; From+len(Data) <= MaxPutData
}

// AppendTo appends p's payload up to Data, which travels as the tail of Client.Start.
func (p *Put) AppendTo(dst []byte) ([]byte, error) {
	if err := p.check(); err != nil {
		return dst, err
	}
	dst = append(dst, p.ShardHash[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, p.Chunk)
	dst = binary.LittleEndian.AppendUint32(dst, p.CRC)
	dst = binary.LittleEndian.AppendUint16(dst, p.From)
	return append(dst, 0, 0), nil
}

func (p *Put) check() error {
	if n := len(p.Data); n < 1 || int(p.From)+n > MaxPutData {
		return fmt.Errorf("put of %d B from %d of a chunk, needs 1 to %d B and an end of at most %d: %w", n, p.From, MaxPutData, MaxPutData, ErrBadRequest)
	}
	return nil
}

// ParsePut reads a Put request; Data is a part of b.
func ParsePut(b []byte) (Put, error) {
	if err := atLeast(b, "put", putFixed, ErrBadRequest); err != nil {
		return Put{}, err
	}
	if r := binary.LittleEndian.Uint16(b[putOffReserved:]); r != 0 {
		return Put{}, fmt.Errorf("put with reserved bits %#04x: %w", r, ErrBadRequest)
	}
	p := Put{
		ShardHash: [16]byte(b[:16]),
		Chunk:     binary.LittleEndian.Uint64(b[putOffChunk:]),
		CRC:       binary.LittleEndian.Uint32(b[putOffCRC:]),
		From:      binary.LittleEndian.Uint16(b[putOffFrom:]),
		Data:      b[putFixed:],
	}
	if err := p.check(); err != nil {
		return Put{}, err
	}
	return p, nil
}
