package wire

import (
	"encoding/binary"
	"fmt"
)

// ShardFlags are the flags of a shard in Publish, Stat and List.
type ShardFlags uint16

// ShardSealed: no more bytes will come.
const ShardSealed ShardFlags = 1 << 0

const shardFlagsKnown = ShardSealed

func (f ShardFlags) check(bad error) error {
	if f&^shardFlagsKnown != 0 {
		return fmt.Errorf("unknown shard flags %#04x: %w", uint16(f), bad)
	}
	return nil
}

const (
	publishOffLength    = 8
	publishOffHeartbeat = 16
	publishOffSequence  = 24
	publishOffNonce     = 32
	publishOffCRC       = 40
	publishOffFlags     = 44
	publishFixed        = 46
)

var _ = [1]struct{}{}[publishOffFlags+2-publishFixed]

// Publish makes [0, Length) of a shard readable.
type Publish struct {
	Shard       []byte // canonical name, 1 to MaxShard bytes
	Incarnation uint64
	Length      uint64
	TailCRC     uint32 // of the published prefix of the tail chunk
	Flags       ShardFlags
	HeartbeatMS uint64 // producer's wall clock, milliseconds since 1970
	Ballot      Ballot // the writer's; zero: it has no lease
}

// AppendTo appends p's payload to dst.
func (p *Publish) AppendTo(dst []byte) ([]byte, error) {
	if err := p.Ballot.check(ErrBadRequest); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint64(dst, p.Incarnation)
	dst = binary.LittleEndian.AppendUint64(dst, p.Length)
	dst = binary.LittleEndian.AppendUint64(dst, p.HeartbeatMS)
	dst = binary.LittleEndian.AppendUint64(dst, p.Ballot.Sequence)
	dst = binary.LittleEndian.AppendUint64(dst, p.Ballot.Nonce)
	dst = binary.LittleEndian.AppendUint32(dst, p.TailCRC)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(p.Flags))
	return appendStr(dst, "shard name", p.Shard, 1, MaxShard)
}

// ParsePublish reads a Publish request; Shard is a part of b.
func ParsePublish(b []byte) (Publish, error) {
	if err := atLeast(b, "publish", publishFixed, ErrBadRequest); err != nil {
		return Publish{}, err
	}
	p := Publish{
		Incarnation: binary.LittleEndian.Uint64(b),
		Length:      binary.LittleEndian.Uint64(b[publishOffLength:]),
		HeartbeatMS: binary.LittleEndian.Uint64(b[publishOffHeartbeat:]),
		Ballot:      Ballot{binary.LittleEndian.Uint64(b[publishOffSequence:]), binary.LittleEndian.Uint64(b[publishOffNonce:])},
		TailCRC:     binary.LittleEndian.Uint32(b[publishOffCRC:]),
		Flags:       ShardFlags(binary.LittleEndian.Uint16(b[publishOffFlags:])),
	}
	if err := p.Ballot.check(ErrBadRequest); err != nil {
		return Publish{}, err
	}
	if err := p.Flags.check(ErrBadRequest); err != nil {
		return Publish{}, err
	}
	var err error
	p.Shard, err = lastStr(b[publishFixed:], "shard name", 1, MaxShard, ErrBadRequest)
	if err != nil {
		return Publish{}, err
	}
	return p, nil
}
