package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
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
var errEarliest = errors.New("first kept position unknown, as the durable store is out of reach; begin with Latest or Last, or set Config.Dir (--dir)")

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

// begin resolves from. A store that this host sees late (a network file system, or
// the bytes that a writer on another host has not flushed) may be behind what the
// cache has published and a consumer has dealt with: that is not beyond the end.
func (c *Cluster) begin(s layout.Shard, from From, i durable.Info, known bool) (uint64, error) {
	pos, err := from.resolve(s.String(), i, known)
	if !errors.Is(err, ErrBeyond) {
		return pos, err
	}
	if e := c.lookUp(s, i.Incarnation); e.Length > i.Length {
		i.Length = e.Length
		return from.resolve(s.String(), i, known)
	}
	return pos, err
}

// info asks the store about a shard, and the cache when the store is away.
func (c *Cluster) info(ctx context.Context, s layout.Shard) (i durable.Info, known bool, err error) {
	if c.ctx.Err() != nil {
		return i, false, ErrClosed
	}
	i, err = c.gate.store.Stat(ctx, s.String())
	if err == nil || errors.Is(err, wire.ErrUnknownShard) {
		return i, true, err
	}
	if e := c.lookUp(s, 0); e.Incarnation != 0 {
		return durable.Info{Incarnation: e.Incarnation, Length: e.Length, Sealed: e.Flags&layout.FlagSealed != 0}, false, nil
	}
	return i, false, fmt.Errorf("%s: %w", s, err)
}
