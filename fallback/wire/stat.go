package wire

import (
	"encoding/binary"
	"fmt"
)

// AppendStat appends the payload of a Stat request to dst.
func AppendStat[S ~string | ~[]byte](dst []byte, shard S) ([]byte, error) {
	return appendStr(dst, "shard name", shard, 1, MaxShard)
}

// ParseStat reads a Stat request; the name is a part of b.
func ParseStat(b []byte) (shard []byte, err error) {
	return lastStr(b, "shard name", 1, MaxShard, ErrBadRequest)
}

const (
	infoOffFirst  = 8
	infoOffLength = 16
	infoOffFlags  = 24
	infoFixed     = 26
)

var _ = [1]struct{}{}[infoOffFlags+2-infoFixed]

// ShardInfo is a shard in the durable store: the reply to Stat, and a part of List's.
type ShardInfo struct {
	Incarnation uint64
	First       uint64 // first kept position
	Length      uint64
	Flags       ShardFlags
}

// AppendTo appends i's payload to dst.
func (i ShardInfo) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, i.Incarnation)
	dst = binary.LittleEndian.AppendUint64(dst, i.First)
	dst = binary.LittleEndian.AppendUint64(dst, i.Length)
	return binary.LittleEndian.AppendUint16(dst, uint16(i.Flags))
}

// ParseShardInfo reads the reply to a Stat.
func ParseShardInfo(b []byte) (ShardInfo, error) {
	if err := exactly(b, "shard info", infoFixed, ErrMalformed); err != nil {
		return ShardInfo{}, err
	}
	i := ShardInfo{
		Incarnation: binary.LittleEndian.Uint64(b),
		First:       binary.LittleEndian.Uint64(b[infoOffFirst:]),
		Length:      binary.LittleEndian.Uint64(b[infoOffLength:]),
		Flags:       ShardFlags(binary.LittleEndian.Uint16(b[infoOffFlags:])),
	}
	if i.First > i.Length {
		return ShardInfo{}, fmt.Errorf("shard info with first %d, length %d: %w", i.First, i.Length, ErrMalformed)
	}
	if err := i.Flags.check(ErrMalformed); err != nil {
		return ShardInfo{}, err
	}
	return i, nil
}
