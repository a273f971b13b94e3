package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/fallback/wire"
)

// direct appends to a durable directory, one batch at a time: there is no way
// that several could be on.
type direct struct {
	*dirAppender
	shard string
	done  func(b *batch, pos uint64)
	at    uint64
	fixed bool
}

// find learns the length.
func (d *direct) find(ctx context.Context) error {
	i, err := d.dir.Stat(ctx, d.shard)
	if err != nil && !errors.Is(err, wire.ErrUnknownShard) {
		return err
	}
	d.at = i.Length
	return nil
}

func (d *direct) start(from uint64, fixed bool) { d.at, d.fixed = from, fixed }

func (d *direct) send(b *batch) error {
	pos, end, err := d.append(context.Background(), b.data)
	if err != nil {
		return err
	}
	if d.fixed && pos != d.at {
		return fmt.Errorf("%w: at %d, want %d", errForeign, d.at, pos)
	}
	d.at = end
	d.done(b, pos)
	return nil
}

func (d *direct) flush() error    { return nil }
func (d *direct) length() uint64  { return d.at }
func (d *direct) retries() uint64 { return 0 }

func (d *direct) readAt(ctx context.Context, pos uint64, p []byte) (int, error) {
	return d.dir.ReadAt(ctx, d.shard, pos, p)
}
