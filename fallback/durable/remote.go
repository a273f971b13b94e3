package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Remote is the store of a node, reached over its protocol: same methods, same
// errors as a Dir. Any number of goroutines may use it. The connection stays the
// caller's. Without a deadline of ctx the client's timeout applies to each request.
type Remote struct{ c *wire.Client }

// NewRemote returns the store of the node that c is connected to.
func NewRemote(c *wire.Client) *Remote { return &Remote{c} }

// Stat describes a shard as it is now; see Dir.Stat.
func (r *Remote) Stat(ctx context.Context, shard string) (Info, error) {
	req, err := wire.AppendStat(nil, shard)
	if err != nil {
		return Info{}, err
	}
	b, err := r.c.Call(ctx, wire.OpStat, req, nil)
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", shard, err)
	}
	i, err := wire.ParseShardInfo(b)
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", shard, err)
	}
	return infoOf(i), nil
}

func infoOf(i wire.ShardInfo) Info {
	return Info{Incarnation: i.Incarnation, First: i.First, Length: i.Length, Sealed: i.Flags&wire.ShardSealed != 0}
}

// ReadAt fills p from pos on, with a request per wire.MaxRead bytes; see
// Dir.ReadAt. n bytes are good also when there is an error.
func (r *Remote) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (n int, err error) {
	req := wire.ReadDurable{Shard: []byte(shard)}
	var head []byte
	for {
		req.Pos = pos + uint64(n)
		req.Max = uint32(max(1, min(len(p)-n, wire.MaxRead)))
		if head, err = req.AppendTo(head[:0]); err != nil {
			return n, err
		}
		b, err := r.c.Call(ctx, wire.OpReadDurable, head, nil)
		if err != nil {
			return n, fmt.Errorf("read %s at %d: %w", shard, req.Pos, err)
		}
		if len(b) > int(req.Max) {
			return n, fmt.Errorf("read %s at %d: %d bytes for %d: %w", shard, req.Pos, len(b), req.Max, wire.ErrMalformed)
		}
		n += copy(p[n:], b)
		if n == len(p) || len(b) == 0 {
			return n, nil
		}
	}
}

// List returns up to limit shards behind after; see Dir.List.
func (r *Remote) List(ctx context.Context, after string, limit int) ([]Entry, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	req := wire.List{After: []byte(after), Limit: uint16(limit)}
	head, err := req.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	b, err := r.c.Call(ctx, wire.OpList, head, nil)
	if err != nil {
		return nil, fmt.Errorf("list behind %q: %w", after, err)
	}
	list, err := wire.ParseListReply(b)
	if err != nil {
		return nil, fmt.Errorf("list behind %q: %w", after, err)
	}
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = Entry{string(e.Shard), infoOf(e.ShardInfo)}
	}
	return out, nil
}

// Append adds p, 1 byte to MaxAppend, and returns where it lies. off, the
// durability on return and the errors are those of Log.Append. When no answer
// came, or the node ran out of time, the error matches ErrUnknownOutcome: p may
// have been appended. An append at an explicit offset may then be tried again;
// wire.ErrOffset means that it was there already, as long as there is no other
// writer.
func (r *Remote) Append(ctx context.Context, shard string, off uint64, p []byte) (pos, end uint64, err error) {
	if len(p) > MaxAppend {
		return 0, 0, tooLarge(shard, len(p))
	}
	req := wire.Append{Shard: []byte(shard), Offset: off, Data: p}
	head, err := req.AppendTo(nil)
	if err != nil {
		return 0, 0, err
	}
	if err := errors.Join(ctx.Err(), r.c.Err()); err != nil {
		return 0, 0, fmt.Errorf("append to %s: %w", shard, err)
	}
	b, err := r.c.Call(ctx, wire.OpAppend, head, p)
	var refused *wire.Error
	switch {
	case errors.As(err, &refused) && refused.Status != wire.StatusDeadline:
		return 0, 0, fmt.Errorf("append to %s: %w", shard, err)
	case err != nil:
		return 0, 0, &unknownOutcome{shard, off, len(p), err}
	}
	a, err := wire.ParseAppended(b)
	if err == nil && a.End-a.Pos != uint64(len(p)) {
		err = fmt.Errorf("%d bytes became [%d, %d): %w", len(p), a.Pos, a.End, wire.ErrMalformed)
	}
	if err != nil {
		return 0, 0, &unknownOutcome{shard, off, len(p), err}
	}
	return a.Pos, a.End, nil
}
