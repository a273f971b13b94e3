package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// durableTimeout bounds one question to the durable store.
const durableTimeout = 5 * time.Second

// bounded is ctx, until durableTimeout or Close.
func (r *Reader) bounded(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, durableTimeout)
	stop := context.AfterFunc(r.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// readDurable fetches from the durable store. ok is false when it had nothing.
func (r *Reader) readDurable(ctx context.Context, a action) (b Batch, ok bool, err error) {
	r.cur.release()
	r.ahead.release()
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	data, err := r.c.gate.read(bounded, r.f.key, a.from, a.to)
	if len(data) > 0 {
		r.prefix = r.prefix.extend(r.h, a.from, data)
		return r.delivered(data, FromDurable), true, nil
	}
	if ctx.Err() != nil {
		return b, false, ctx.Err()
	}
	if err != nil {
		r.c.count.failed(FromDurable, reasonTransport)
		r.c.cfg.Logger.Debug("durable read failed", "shard", r.f.key.name, "position", a.from, "err", err)
	}
	r.tail.durableFailed(time.Now())
	return b, false, r.final(bounded, err)
}

// stat asks the store how long the shard is, if no other Reader just did.
func (r *Reader) stat(ctx context.Context, v view) error {
	if !r.f.claimStat(v.now, v.blind) {
		return nil
	}
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	i, err := r.c.gate.store.Stat(bounded, r.f.key.name)
	ours := err != nil || r.f.info(i)
	r.f.asked(time.Now())
	if !ours {
		err = fmt.Errorf("%s: %w", r.f.key.name, ErrRecreated)
	}
	return r.final(bounded, err)
}

// final turns the store's answer into the Reader's end if it is one: bytes out
// of retention, no such shard, or another one. Other trouble passes.
func (r *Reader) final(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, wire.ErrOutOfRetention):
		i, statErr := r.c.gate.store.Stat(ctx, r.f.key.name)
		switch {
		case statErr != nil:
			return nil // try again
		case !r.f.info(i):
			r.err = fmt.Errorf("%s: %w", r.f.key.name, ErrRecreated)
		case i.First > r.tail.pos:
			r.err = &GapError{Shard: r.f.key.name, Want: r.tail.pos, First: i.First, Length: i.Length}
		}
	case errors.Is(err, wire.ErrUnknownShard), errors.Is(err, ErrRecreated):
		r.err = err
	}
	return r.err
}
