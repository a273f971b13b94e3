package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// MaxStream is the longest stream name in bytes.
const MaxStream = 128

// Shard names an ordered byte sequence: one shard of a stream. Its text form is
// stream/NNNN, the number zero-padded to four digits.
type Shard struct {
	Stream string
	Number uint32
}

// Hash is the 128-bit key of a shard or of a stream's length pages.
type Hash [16]byte

// ParseShard reads "stream/N" or "stream/NNNN". A stream name is 1 to 128 bytes
// of letters, digits, '.', '_' and '-', and begins with a letter or digit.
// Errors match ErrName.
func ParseShard(s string) (Shard, error) {
	stream, number, ok := strings.Cut(s, "/")
	if !ok {
		return Shard{}, fmt.Errorf("%w: %.160q has no '/': want STREAM/NUMBER, such as logs/0000", ErrName, s)
	}
	if err := checkStream(stream); err != nil {
		return Shard{}, err
	}
	if number == "" || len(number) > 10 || strings.Trim(number, "0123456789") != "" {
		return Shard{}, fmt.Errorf("%w: shard number %.20q is not a decimal number", ErrName, number)
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return Shard{}, fmt.Errorf("%w: shard number %s is above %d", ErrName, number, uint32(1<<32-1))
	}
	return Shard{Stream: stream, Number: uint32(n)}, nil
}

func checkStream(s string) error {
	if s == "" || len(s) > MaxStream {
		return fmt.Errorf("%w: stream name of %d bytes, want 1 to %d", ErrName, len(s), MaxStream)
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("%w: stream %q has %q at byte %d; use letters, digits, '.', '_' and '-', a letter or digit first", ErrName, s, c, i)
		}
	}
	return nil
}

// String returns the canonical name, stream/NNNN.
func (s Shard) String() string { return fmt.Sprintf("%s/%04d", s.Stream, s.Number) }

// Page returns the number of the length page that holds the shard's entry.
func (s Shard) Page() uint64 { return uint64(s.Number) / EntriesPerPage }

// EntryOffset returns where in its length page the shard's entry begins.
func (s Shard) EntryOffset() int { return int(s.Number%EntriesPerPage) * EntrySize }

// Hash returns the key of the shard's extents under an incarnation: a shard that
// was deleted and made again under its old name has another hash.
func (s Shard) Hash(incarnation uint64) Hash {
	var b [16 + MaxStream + 12]byte
	p := append(b[:0], "rmatail shard 1\x00"...)
	p = append(p, s.Stream...)
	p = binary.LittleEndian.AppendUint32(p, s.Number)
	p = binary.LittleEndian.AppendUint64(p, incarnation)
	sum := sha256.Sum256(p)
	return Hash(sum[:16])
}

// StreamHash returns the key of a stream's length pages.
func StreamHash(stream string) Hash {
	var b [16 + MaxStream]byte
	p := append(b[:0], "rmatail pages 1\x00"...)
	p = append(p, stream...)
	sum := sha256.Sum256(p)
	return Hash(sum[:16])
}
