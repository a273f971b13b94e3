package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// info asks the store about a shard, and the cache when the store is away.
func (c *Cluster) info(ctx context.Context, s layout.Shard) (i durable.Info, known bool, err error) {
	if c.ctx.Err() != nil {
		return i, false, ErrClosed
	}
	i, err = c.gate.store.Stat(ctx, s.String())
	if err == nil || errors.Is(err, wire.ErrUnknownShard) {
		return i, true, err
	}
	for _, via := range c.paths(time.Now()) {
		if e, cacheErr := c.entryOf(via, s); cacheErr == nil && e.Incarnation != 0 && e.Valid(s.Hash(e.Incarnation)) {
			return durable.Info{Incarnation: e.Incarnation, Length: e.Length, Sealed: e.Flags&layout.FlagSealed != 0}, false, nil
		}
	}
	return i, false, fmt.Errorf("%s: %w", s, err)
}

// entryOf reads one shard's entry from the cache.
func (c *Cluster) entryOf(via *path, s layout.Shard) (e layout.Entry, err error) {
	g := &page{key: layout.StreamHash(s.Stream), number: s.Page()}
	g.shards.Store(new([]*follow))
	if err := (&poller{c: c}).locate(via, []*page{g}); err != nil || !g.found {
		return e, err
	}
	b, err := via.newBatch(layout.EntrySize)
	if err != nil {
		return e, err
	}
	defer b.Release()
	p := b.Add(via.geometry.PageSlot(g.index)+uint64(s.EntryOffset()), layout.EntrySize)
	if p == nil {
		return e, errBatchRoom
	}
	if err := settle(b, time.Now().Add(c.cfg.ReadTimeout)); err != nil {
		return e, err
	}
	return layout.ParseEntry(p, 0), nil
}
