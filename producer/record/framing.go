package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Framing is how records are told apart.
type Framing int

// The framings of the package comment.
const (
	Raw Framing = iota
	Lines
	Delimited
)

const (
	// Max is the longest record in bytes: framed, it is one record of an Appender.
	Max = 1<<20 - maxHead
	// maxHead is the longest head of a Delimited record: no length above 3 bytes is
	// accepted.
	maxHead   = maxLength + crcBytes
	maxLength = 3
	crcBytes  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// String returns raw, lines or delimited.
func (f Framing) String() string {
	switch f {
	case Raw:
		return "raw"
	case Lines:
		return "lines"
	case Delimited:
		return "delimited"
	}
	return fmt.Sprintf("framing %d", int(f))
}

// ParseFraming reads what String writes.
func ParseFraming(s string) (Framing, error) {
	for f := Raw; f <= Delimited; f++ {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%w: %.20q, want raw, lines or delimited", ErrFraming, s)
}

// Append adds a framed record to dst, to be appended to a shard as one record.
// Errors: ErrTooLong, ErrUnfit; dst is returned as it was then.
func (f Framing) Append(dst, rec []byte) ([]byte, error) {
	if len(rec) > Max {
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(rec), Max)
	}
	switch f {
	case Raw:
		if len(rec) == 0 {
			return dst, fmt.Errorf("%w: a raw record of no bytes", ErrUnfit)
		}
		return append(dst, rec...), nil
	case Lines:
		if i := bytes.IndexByte(rec, '\n'); i >= 0 {
			return dst, fmt.Errorf("%w: a line of %d bytes with a line end at %d", ErrUnfit, len(rec), i)
		}
		return append(append(dst, rec...), '\n'), nil
	case Delimited:
		at := len(dst)
		dst = binary.AppendUvarint(dst, uint64(len(rec)))
		dst = binary.LittleEndian.AppendUint32(dst, sum(dst[at:], rec))
		return append(dst, rec...), nil
	}
	return dst, fmt.Errorf("%w: %v", ErrFraming, f)
}

func sum(length, rec []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, rec)
}
