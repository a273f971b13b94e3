package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// NoOffset as an Append's offset means: at the end, wherever that is. Such an append must not be repeated blindly.
const NoOffset = math.MaxUint64

const (
	appendFixed   = 8
	appendedFixed = 16
)

// Append adds Data to a shard of the node's durable store.
type Append struct {
	Shard  []byte // canonical name, 1 to MaxShard bytes
	Offset uint64 // must equal the shard's length; NoOffset: at the end
	Data   []byte // 1 to MaxAppend bytes
}

// AppendTo appends a's payload up to Data, which travels as the tail of Client.Start.
func (a *Append) AppendTo(dst []byte) ([]byte, error) {
	if err := a.checkData(); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint64(dst, a.Offset)
	return appendStr(dst, "shard name", a.Shard, 1, MaxShard)
}

func (a *Append) checkData() error {
	if len(a.Data) < 1 || len(a.Data) > MaxAppend {
		return fmt.Errorf("append of %d B, needs 1 to %d: %w", len(a.Data), MaxAppend, ErrBadRequest)
	}
	if a.Offset != NoOffset && a.Offset > NoOffset-1-uint64(len(a.Data)) {
		return fmt.Errorf("append of %d B at %d wraps around: %w", len(a.Data), a.Offset, ErrBadRequest)
	}
	return nil
}

// ParseAppend reads an Append request; Shard and Data are parts of b.
func ParseAppend(b []byte) (Append, error) {
	if err := atLeast(b, "append", appendFixed, ErrBadRequest); err != nil {
		return Append{}, err
	}
	a := Append{Offset: binary.LittleEndian.Uint64(b)}
	var err error
	a.Shard, a.Data, err = takeStr(b[appendFixed:], "shard name", 1, MaxShard, ErrBadRequest)
	if err != nil {
		return Append{}, err
	}
	if err := a.checkData(); err != nil {
		return Append{}, err
	}
	return a, nil
}

// Appended is the reply to Append: the bytes are at [Pos, End), durable by the store's policy.
type Appended struct{ Pos, End uint64 }

// AppendTo appends a's payload to dst.
func (a Appended) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, a.Pos)
	return binary.LittleEndian.AppendUint64(dst, a.End)
}

// ParseAppended reads the reply to an Append.
func ParseAppended(b []byte) (Appended, error) {
	if err := exactly(b, "append reply", appendedFixed, ErrMalformed); err != nil {
		return Appended{}, err
	}
	a := Appended{Pos: binary.LittleEndian.Uint64(b), End: binary.LittleEndian.Uint64(b[8:])}
	if a.End < a.Pos {
		return Appended{}, fmt.Errorf("append reply of [%d, %d): %w", a.Pos, a.End, ErrMalformed)
	}
	return a, nil
}
