package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/fallback/wire"
)

// view returns the view of a shard, by any spelling of its name.
func (d *Dir) view(shard string) (*view, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return nil, d.closedError()
	}
	if v := d.mu.views[shard]; v != nil {
		return v, nil
	}
	stream, number, err := splitShard(shard)
	if err != nil {
		return nil, err
	}
	shard = stream + "/" + number
	v := d.mu.views[shard]
	if v == nil {
		v = &view{fds: d.fds, boot: d.boot, shard: shard, path: shardPath(d.path, stream, number), names: d.o.names}
		d.mu.views[shard] = v
	}
	return v, nil
}

// look is view.look; unknown shards leave nothing behind.
func (d *Dir) look(ctx context.Context, shard string, need uint64) (*view, *listing, Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, Info{}, fmt.Errorf("read %s: %w", shard, err)
	}
	v, err := d.view(shard)
	if err != nil {
		return nil, nil, Info{}, err
	}
	l, info, err := v.look(need)
	if errors.Is(err, wire.ErrUnknownShard) {
		d.mu.Lock()
		if d.mu.views[v.shard] == v {
			delete(d.mu.views, v.shard)
		}
		d.mu.Unlock()
	}
	return v, l, info, err
}

// Stat describes a shard as it is now, for one pread and one stat: cheap enough
// to be polled. Length only grows while Incarnation stays. Errors:
// wire.ErrUnknownShard, wire.ErrBadRequest for a bad name, ErrCorrupt.
func (d *Dir) Stat(ctx context.Context, shard string) (Info, error) {
	_, _, info, err := d.look(ctx, shard, whole)
	return info, err
}

// ReadAt fills p with the bytes from pos on, over as many segments as it takes.
// n < len(p) without an error means that the shard is that short now: 0 at its
// end. Errors: wire.ErrBeyond (Arg0 is the length), wire.ErrOutOfRetention (Arg0
// is the first kept position), wire.ErrUnknownShard, wire.ErrBadRequest,
// ErrCorrupt; n bytes are good then too.
func (d *Dir) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (n int, err error) {
	const tries = 4 // listings that are overtaken by roll-over or retention
	for try := 1; ; try++ {
		v, l, info, err := d.look(ctx, shard, end(pos, len(p)-n))
		if err != nil {
			return n, err
		}
		switch {
		case pos > info.Length:
			return n, &wire.Error{Status: wire.StatusBeyond, Arg0: info.Length, Message: fmt.Sprintf("read %s at %d", v.shard, pos)}
		case pos < info.First:
			return n, &wire.Error{Status: wire.StatusOutOfRetention, Arg0: info.First, Arg1: info.Length, Message: fmt.Sprintf("read %s at %d", v.shard, pos)}
		}
		p = p[:n+int(min(uint64(len(p)-n), info.Length-pos))]
		m, err := v.readAt(l, info.Length, pos, p[n:])
		n, pos = n+m, pos+uint64(m)
		if err == nil || !errors.Is(err, errStale) {
			return n, err
		}
		if try == tries {
			return n, fmt.Errorf("read %s: %w", v.shard, err)
		}
		v.stale(l)
	}
}

// end adds without wrapping around.
func end(pos uint64, n int) uint64 {
	if e := pos + uint64(n); e >= pos {
		return e
	}
	return whole
}
