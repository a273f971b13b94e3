package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// resort asks the durable store for what a says, or a node that reads it for all,
// unless something is asked already, and takes the answer. ok is false when it brought no bytes.
func (r *Reader) resort(ctx context.Context, a action, v view) (b Batch, ok bool, err error) {
	if r.asked == nil {
		switch {
		case a.kind == doFill:
			r.ground()
			r.askFill(a)
		case a.kind == doDurable:
			r.ground()
			r.askBytes(a)
		case r.f.claimStat(v.now, v.blind): // one Reader of many asks
			r.ground()
			r.askLength()
		default:
			return b, false, nil
		}
	}
	q, err := r.answered(ctx)
	switch {
	case q == nil || err != nil:
		return b, false, err
	case q.kind == doStat:
		return b, false, r.final(q)
	case q.kind == doFill:
		r.filled(q)
		return b, false, nil
	case q.from != r.tail.pos: // memory was faster, or Seek came between
		return b, false, nil
	case len(q.data) > 0:
		if most := r.tail.burst(); r.tail.rate > 0 && uint64(len(q.data)) > max(most, blockMin) {
			q.data = q.data[:max(most, blockMin)] // the rest is kept for a while
		}
		r.prefix = r.prefix.extend(r.h, q.from, q.data)
		return r.delivered(q.data, FromDurable), true, nil
	case q.err != nil:
		r.c.count.failed(FromDurable, reasonTransport)
		r.trace.refused.Add(1)
		r.c.cfg.Logger.Debug("durable read failed", "shard", r.f.key.name, "position", q.from, "err", q.err)
	}
	r.tail.durableFailed(time.Now())
	return b, false, r.final(q)
}

// final turns the store's answer into the Reader's end if it is one: bytes out
// of retention, no such shard, or another one. Other trouble passes.
func (r *Reader) final(q *question) error {
	ours := q.err != nil || q.kind != doStat || r.f.info(q.info)
	switch {
	case !ours:
		r.err = fmt.Errorf("%s: %w", r.f.key.name, ErrRecreated)
	case errors.Is(q.err, wire.ErrOutOfRetention):
		switch {
		case q.infoErr != nil: // try again
		case !r.f.info(q.info):
			r.err = fmt.Errorf("%s: %w", r.f.key.name, ErrRecreated)
		case q.info.First > r.tail.pos:
			r.err = &GapError{Shard: r.f.key.name, Want: r.tail.pos, First: q.info.First, Length: q.info.Length}
		}
	case errors.Is(q.err, wire.ErrUnknownShard), errors.Is(q.err, ErrRecreated):
		r.err = q.err
	}
	return r.err
}
