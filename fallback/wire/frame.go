package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// HeaderLen is the size of a frame header in bytes.
const HeaderLen = 24

// Version is the protocol version that this package speaks.
const Version = 2

const (
	offLength = 0
	offOp     = 4
	offStatus = 5
	offFlags  = 6
	offID     = 8
	offBudget = 16
	offCRC    = 20
)

var _ = [1]struct{}{}[offCRC+4-HeaderLen]

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is a frame's first 24 bytes.
type Header struct {
	Length uint32 // payload bytes that follow
	Op     Op
	Status Status // StatusOK in requests
	ID     uint64 // request id, repeated in the reply
	// Budget is how long the caller will wait, counted from the request's arrival. Whole milliseconds on the wire, rounded
	// up; 0: the server's default.
	Budget time.Duration
}

// AppendHeader appends h's 24 bytes to dst.
func AppendHeader(dst []byte, h Header) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, h.Length)
	dst = append(dst, byte(h.Op), byte(h.Status), 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, h.ID)
	dst = binary.LittleEndian.AppendUint32(dst, budgetMillis(h.Budget))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[n:n+offCRC], castagnoli))
}

// ParseHeader reads a header from the first 24 bytes of b and checks its CRC, its flags and the length limit that holds
// for every frame. Any error means that the border of the next frame is unknown: the connection has to end.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, fmt.Errorf("frame header of %d B, needs %d: %w", len(b), HeaderLen, ErrShortFrame)
	}
	b = b[:HeaderLen]
	want := binary.LittleEndian.Uint32(b[offCRC:])
	if got := crc32.Checksum(b[:offCRC], castagnoli); got != want {
		return Header{}, fmt.Errorf("frame header says crc %08x, has %08x: %w", want, got, ErrHeaderCRC)
	}
	if f := binary.LittleEndian.Uint16(b[offFlags:]); f != 0 {
		return Header{}, fmt.Errorf("frame flags %#04x: %w", f, ErrHeaderFlags)
	}
	h := Header{
		Length: binary.LittleEndian.Uint32(b[offLength:]),
		Op:     Op(b[offOp]),
		Status: Status(b[offStatus]),
		ID:     binary.LittleEndian.Uint64(b[offID:]),
		Budget: time.Duration(binary.LittleEndian.Uint32(b[offBudget:])) * time.Millisecond,
	}
	if h.Length > MaxPayload {
		return Header{}, fmt.Errorf("%s payload of %d B, at most %d: %w", h.Op, h.Length, MaxPayload, ErrFrameTooLong)
	}
	return h, nil
}

// budgetMillis rounds up: a caller that waits 0.4 ms must not ask for "the server's default".
func budgetMillis(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	if d > math.MaxUint32*time.Millisecond-time.Millisecond {
		return math.MaxUint32
	}
	return uint32((d + time.Millisecond - 1) / time.Millisecond)
}
