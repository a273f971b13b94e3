package durable

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Own takes the store for one node until Close: it makes the directory, and holds
// its lock file. It tells early, by name, what would otherwise fail append by
// append: a directory that cannot be written, or another node that serves it.
// Who appends to a shard is still decided by the shard's own lock, so that a
// process without a node may write others beside it.
//
// Errors: wire.ErrLocked (with the holder), wire.ErrReadOnly, wire.ErrFull.
func (d *Dir) Own() error {
	if d.o.ReadOnly {
		return &wire.Error{Status: wire.StatusReadOnly, Message: d.path + " is open for reading only"}
	}
	if err := mkdirs(d.o.fs, d.path); err != nil {
		return err
	}
	path := filepath.Join(d.path, lockName)
	lock, err := d.o.fs.Lock(path)
	var held heldError
	switch {
	case errors.As(err, &held):
		return &wire.Error{Status: wire.StatusLocked, Message: fmt.Sprintf("store %s is served by %s; stop that node, or give this one another directory", d.path, held.holder)}
	case err != nil:
		return osError("lock", path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed || d.mu.owned != nil {
		return errors.Join(d.closedError(), lock.Close())
	}
	d.mu.owned = lock
	return nil
}
