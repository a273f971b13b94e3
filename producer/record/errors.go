package record

import (
	"errors"
	"fmt"
)

// Errors of framing.
var (
	// ErrFraming is returned when a framing has another name than those known.
	ErrFraming = errors.New("unknown framing")
	// ErrUnfit is returned when a record cannot be framed: a line with a line end
	// inside, an empty raw one.
	ErrUnfit = errors.New("record does not fit the framing")
)

// Errors of cutting, as an *Error.
var (
	// ErrCorrupt is returned when bytes are no record: a bad length, a CRC that does
	// not match.
	ErrCorrupt = errors.New("no record")
	// ErrTooLong is returned when a record is longer than the Cutter's limit; when
	// framing, longer than Max.
	ErrTooLong = errors.New("record is too long")
	// ErrGap is returned when bytes do not continue those before.
	ErrGap = errors.New("bytes do not continue the ones before")
	// ErrCut is returned by End when the last record is not whole.
	ErrCut = errors.New("record is cut off")
)

// Error says where the bytes end to be records.
type Error struct {
	Position uint64 // of the record that is not there
	Cause    error  // ErrCorrupt, ErrTooLong, ErrGap or ErrCut
	Detail   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v at position %d: %s", e.Cause, e.Position, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
