package reader

import (
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/fallback/durable"
)

// From says where a Reader begins.
type From struct {
	kind fromKind
	n    uint64
}

type fromKind int

const (
	fromEarliest fromKind = iota
	fromLatest
	fromPosition
	fromLast
)

// Earliest begins at the first position that is kept. It is the zero From.
func Earliest() From { return From{} }

// Latest begins at the end: only bytes appended from now on are delivered.
func Latest() From { return From{kind: fromLatest} }

// At begins at a position, such as the one after the last byte that a consumer
// has dealt with.
func At(pos uint64) From { return From{fromPosition, pos} }

// Last begins n bytes before the end, or at the first position kept.
func Last(n uint64) From { return From{fromLast, n} }

// errEarliest is returned when the first kept position cannot be learnt.
var errEarliest = errors.New("first kept position unknown: the durable store is out of reach")

// resolve turns f into a position. known is false when only the cache answered,
// which does not know the first kept position.
func (f From) resolve(shard string, i durable.Info, known bool) (uint64, error) {
	switch f.kind {
	case fromEarliest:
		if !known {
			return 0, fmt.Errorf("%s: %w", shard, errEarliest)
		}
		return i.First, nil
	case fromLatest:
		return i.Length, nil
	case fromLast:
		return max(i.First, i.Length-min(f.n, i.Length)), nil
	}
	switch {
	case f.n < i.First:
		return 0, &GapError{Shard: shard, Want: f.n, First: i.First, Length: i.Length}
	case f.n > i.Length:
		return 0, fmt.Errorf("%s: %w: %d asked for, the end is %d", shard, ErrBeyond, f.n, i.Length)
	}
	return f.n, nil
}
