package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Retained is what a Retain removed.
type Retained struct {
	Segments int
	Bytes    uint64
}

// Retain removes the oldest segments of every shard that Options.RetainAge and
// RetainBytes no longer keep: whole ones, from the oldest on, never the active
// one. It does not matter who appends to the shard, or whether anybody does.
// Readers of what is gone get wire.ErrOutOfRetention with the first kept position;
// those inside a removed segment still finish the read under way. Call it now and
// then; without either option it does nothing. It goes on past a shard that it
// cannot clean, and returns the errors joined.
func (d *Dir) Retain(ctx context.Context) (Retained, error) {
	var sum Retained
	if d.o.RetainAge == 0 && d.o.RetainBytes == 0 {
		return sum, nil
	}
	if d.o.ReadOnly {
		return sum, &wire.Error{Status: wire.StatusReadOnly, Message: d.path + " is open for reading only"}
	}
	streams, err := d.names(d.path, validStream)
	if err != nil {
		return sum, err
	}
	var errs []error
	for _, stream := range streams {
		numbers, err := d.names(filepath.Join(d.path, stream), canonicalNumber)
		errs = append(errs, err)
		for _, n := range numbers {
			if err := ctx.Err(); err != nil {
				return sum, errors.Join(append(errs, fmt.Errorf("retention in %s: %w", d.path, err))...)
			}
			if err := d.retainShard(stream+"/"+n, &sum); err != nil {
				errs = append(errs, fmt.Errorf("retention of %s/%s: %w", stream, n, err))
			}
		}
	}
	return sum, errors.Join(errs...)
}

func (d *Dir) retainShard(shard string, sum *Retained) error {
	path := filepath.Join(d.path, filepath.FromSlash(shard))
	names, err := d.o.fs.Names(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return readError("list", path, err)
	}
	segs := parseSegments(names)
	if err := checkBases(path, segs); err != nil {
		return err
	}
	if len(segs) < 2 {
		return nil
	}
	// What the active segment holds beyond its base is not asked for: counting it
	// as empty keeps a little more.
	for i := range expired(segs, d.o, d.o.Clock()) {
		p := filepath.Join(path, segs[i].name)
		if err := d.o.fs.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return osError("remove", p, err)
		}
		// Each removal is flushed before the next one: a power failure must not undo
		// an earlier one alone, which would leave a gap.
		if err := d.o.fs.SyncDir(path); err != nil {
			return osError("flush directory", path, err)
		}
		n := segs[i+1].base - segs[i].base
		sum.Segments++
		sum.Bytes += n
		d.removed(shard, segs[i+1].base)
		d.o.Logger.Info("segment removed by retention", "shard", shard, "segment", segs[i].name, "bytes", n, "first", segs[i+1].base)
	}
	return nil
}

// expired returns how many of the oldest segments are to be removed. A segment's
// last byte is as old as its successor, or older. The last segment is never one.
func expired(segs []segment, o Options, now time.Time) int {
	n, last := 0, segs[len(segs)-1]
	for n < len(segs)-1 {
		next := segs[n+1]
		old := o.RetainAge > 0 && now.Sub(next.created()) > o.RetainAge
		over := o.RetainBytes > 0 && last.base-next.base >= uint64(o.RetainBytes)
		if !old && !over {
			break
		}
		n++
	}
	return n
}

// removed tells a log that is open here about its new first kept position.
func (d *Dir) removed(shard string, first uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.mu.logs {
		if l.shard == shard && l.first.Load() < first {
			l.first.Store(first)
		}
	}
}
