package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
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
var errEarliest = errors.New("first kept position unknown; begin with Latest or Last, or set Config.Dir (--dir)")

// resolve turns f into a position. away is why the store has not answered but the
// cache, which does not know the first kept position; nil: it has.
func (f From) resolve(shard string, i durable.Info, away error) (uint64, error) {
	switch f.kind {
	case fromEarliest:
		if away != nil {
			return 0, fmt.Errorf("%s: %w: %w", shard, errEarliest, away)
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
func (c *Cluster) begin(s layout.Shard, from From, i durable.Info, away error) (uint64, error) {
	pos, err := from.resolve(s.String(), i, away)
	if !errors.Is(err, ErrBeyond) {
		return pos, err
	}
	if e := c.lookUp(s, i.Incarnation); e.Length > i.Length {
		i.Length = e.Length
		return from.resolve(s.String(), i, away)
	}
	return pos, err
}

const (
	// A node that sheds load is asked again after rests that grow by doubling from the
	// first to the last, drawn from all of that: Readers are opened many at once.
	busyRestMin = 5 * time.Millisecond
	busyRestMax = 250 * time.Millisecond
)

// info asks the store about a shard, and the cache when the store is away: away says
// why. A store that sheds load is asked again until ctx ends, or for durableTimeout if
// that does not, when the cache does not know enough to begin from.
func (c *Cluster) info(ctx context.Context, s layout.Shard, from From) (i durable.Info, away, err error) {
	began := time.Now()
	if _, ends := ctx.Deadline(); !ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, durableTimeout)
		defer cancel()
	}
	rest := rdma.Backoff{Min: busyRestMin, Max: busyRestMax}
	var shed error
	for {
		if c.ctx.Err() != nil {
			return i, nil, ErrClosed
		}
		i, err = c.gate.store.Stat(ctx, s.String())
		if err == nil || errors.Is(err, wire.ErrUnknownShard) {
			return i, nil, err
		}
		busy := errors.Is(err, wire.ErrBusy)
		if shed != nil && !busy { // ctx has ended, most likely, but that is not the cause
			err = fmt.Errorf("%w, after %s: %w", shed, time.Since(began).Round(time.Millisecond), err)
		}
		if !busy || from.kind != fromEarliest {
			if e := c.lookUp(s, 0); e.Incarnation != 0 {
				return durable.Info{Incarnation: e.Incarnation, Length: e.Length, Sealed: e.Flags&layout.FlagSealed != 0}, err, nil
			}
		}
		if !busy || !c.rests(ctx, rest.Next(nil)) {
			return i, nil, fmt.Errorf("%s: %w", s, err)
		}
		shed = err
	}
}

// rests waits for d; false: ctx ends sooner, or the Cluster does.
func (c *Cluster) rests(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.stop:
	}
	return false
}
