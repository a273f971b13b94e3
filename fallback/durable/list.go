package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Entry is one shard of a List.
type Entry struct {
	Shard string // canonical name
	Info
}

// maxList bounds what one List returns.
const maxList = wire.MaxList

// List returns up to limit shards (at most wire.MaxList; 0 means that) whose names come
// behind after, in byte order of the names. Fewer than limit means that there are
// no more. Shards that cannot be read are left out, and logged.
func (d *Dir) List(ctx context.Context, after string, limit int) ([]Entry, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	streams, err := d.names(d.path, validStream)
	if err != nil {
		return nil, err
	}
	// "a.b/0000" comes before "a/0000", though "a" comes before "a.b".
	slices.SortFunc(streams, func(a, b string) int { return cmp.Compare(a+"/", b+"/") })
	var out []Entry
	for _, stream := range streams {
		if last := stream + "/:"; last <= after { // ':' comes behind every digit
			continue
		}
		numbers, err := d.names(filepath.Join(d.path, stream), canonicalNumber)
		if err != nil {
			return nil, err
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			shard := stream + "/" + n
			if shard <= after {
				continue
			}
			if err := ctx.Err(); err != nil {
				return out, fmt.Errorf("list %s: %w", d.path, err)
			}
			info, err := d.Stat(ctx, shard)
			switch {
			case err == nil:
				out = append(out, Entry{shard, info})
			case errors.Is(err, wire.ErrClosing):
				return nil, err
			case !errors.Is(err, wire.ErrUnknownShard): // removed meanwhile, or being made
				d.o.Logger.Warn("shard left out of a list", "shard", shard, "error", err)
			}
			if len(out) == limit {
				return out, nil
			}
		}
	}
	return out, nil
}

// names lists a directory, those entries that are ours. One that is not there
// is empty.
func (d *Dir) names(path string, ours func(string) bool) ([]string, error) {
	all, err := osFS{}.Names(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, readError("list", path, err)
	}
	return slices.DeleteFunc(all, func(s string) bool { return !ours(s) }), nil
}
