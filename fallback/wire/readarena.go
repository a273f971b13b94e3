package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	readArenaFixed = 2
	readArenaEntry = 12
	entryOffN      = 8
)

var _ = [1]struct{}{}[entryOffN+4-readArenaEntry]

// ArenaRead asks for arena bytes [Off, Off+N).
type ArenaRead struct {
	Off uint64
	N   uint32
}

// AppendReadArena appends the payload of a ReadArena request to dst: 1 to MaxReads reads of at least a byte each, MaxRead
// bytes together.
func AppendReadArena(dst []byte, reads []ArenaRead) ([]byte, error) {
	if err := checkReads(reads); err != nil {
		return dst, err
	}
	return appendReads(binary.LittleEndian.AppendUint16(dst, uint16(len(reads))), reads), nil
}

func checkReads(reads []ArenaRead) error {
	if len(reads) < 1 || len(reads) > MaxReads {
		return fmt.Errorf("%d reads, needs 1 to %d: %w", len(reads), MaxReads, ErrBadRequest)
	}
	total := uint64(0)
	for _, r := range reads {
		total += uint64(r.N)
		if err := r.check(total); err != nil {
			return err
		}
	}
	return nil
}

func appendReads(dst []byte, reads []ArenaRead) []byte {
	for _, r := range reads {
		dst = binary.LittleEndian.AppendUint64(dst, r.Off)
		dst = binary.LittleEndian.AppendUint32(dst, r.N)
	}
	return dst
}

// check holds r's own limits and that of the total up to and with it.
func (r ArenaRead) check(total uint64) error {
	if r.N == 0 {
		return fmt.Errorf("read of 0 B at %d: %w", r.Off, ErrBadRequest)
	}
	if r.Off > math.MaxUint64-uint64(r.N) {
		return fmt.Errorf("read of %d B at %d wraps around: %w", r.N, r.Off, ErrBadRequest)
	}
	if total > MaxRead {
		return fmt.Errorf("reads of %d B together, at most %d: %w", total, MaxRead, ErrBadRequest)
	}
	return nil
}

// ArenaReads is a parsed ReadArena request: a view of its payload, dead when the payload is.
type ArenaReads struct {
	p     []byte // entries only
	total int
}

// ParseReadArena checks a ReadArena request. The limits that need the arena's size are the server's to check.
func ParseReadArena(p []byte) (ArenaReads, error) {
	if err := atLeast(p, "read request", readArenaFixed, ErrBadRequest); err != nil {
		return ArenaReads{}, err
	}
	return parseReads(p[readArenaFixed:], int(binary.LittleEndian.Uint16(p)))
}

// parseReads checks a list of n reads, which p must be.
func parseReads(p []byte, n int) (ArenaReads, error) {
	if n < 1 || n > MaxReads {
		return ArenaReads{}, fmt.Errorf("%d reads, needs 1 to %d: %w", n, MaxReads, ErrBadRequest)
	}
	if err := exactly(p, "read list", n*readArenaEntry, ErrBadRequest); err != nil {
		return ArenaReads{}, err
	}
	rs := ArenaReads{p: p}
	total := uint64(0)
	for i := range n {
		r := rs.At(i)
		total += uint64(r.N)
		if err := r.check(total); err != nil {
			return ArenaReads{}, err
		}
	}
	rs.total = int(total)
	return rs, nil
}

// Len is the number of reads.
func (rs ArenaReads) Len() int { return len(rs.p) / readArenaEntry }

// Total is the sum of all N: the length of the reply's payload.
func (rs ArenaReads) Total() int { return rs.total }

// At is read i of Len.
func (rs ArenaReads) At(i int) ArenaRead {
	e := rs.p[i*readArenaEntry:][:readArenaEntry]
	return ArenaRead{Off: binary.LittleEndian.Uint64(e), N: binary.LittleEndian.Uint32(e[entryOffN:])}
}
