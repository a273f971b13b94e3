package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	readDurableOffMax = 8
	readDurableFixed  = 12
)

// ReadDurable asks for up to Max bytes of a shard from Pos on. The reply is the bytes themselves, possibly fewer; none when
// Pos is the length.
type ReadDurable struct {
	Shard []byte // canonical name, 1 to MaxShard bytes
	Pos   uint64
	Max   uint32 // 1 to MaxRead
}

// AppendTo appends r's payload to dst.
func (r *ReadDurable) AppendTo(dst []byte) ([]byte, error) {
	if err := r.checkMax(); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint64(dst, r.Pos)
	dst = binary.LittleEndian.AppendUint32(dst, r.Max)
	return appendStr(dst, "shard name", r.Shard, 1, MaxShard)
}

func (r *ReadDurable) checkMax() error {
	if r.Max < 1 || r.Max > MaxRead {
		return fmt.Errorf("durable read of %d B, needs 1 to %d: %w", r.Max, MaxRead, ErrBadRequest)
	}
	return nil
}

// ParseReadDurable reads a ReadDurable request; Shard is a part of b.
func ParseReadDurable(b []byte) (ReadDurable, error) {
	if err := atLeast(b, "durable read", readDurableFixed, ErrBadRequest); err != nil {
		return ReadDurable{}, err
	}
	r := ReadDurable{Pos: binary.LittleEndian.Uint64(b), Max: binary.LittleEndian.Uint32(b[readDurableOffMax:])}
	if err := r.checkMax(); err != nil {
		return ReadDurable{}, err
	}
	var err error
	r.Shard, err = lastStr(b[readDurableFixed:], "shard name", 1, MaxShard, ErrBadRequest)
	if err != nil {
		return ReadDurable{}, err
	}
	return r, nil
}
