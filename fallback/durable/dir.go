package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Dir is a store in a directory. Any number of goroutines, and of processes, may
// use it; one at a time appends to a shard.
type Dir struct {
	path string
	o    Options
	boot uint64
	fds  *fdCache

	mu struct {
		sync.Mutex
		logs   map[*Log]struct{}
		views  map[string]*view // by canonical name
		owned  io.Closer        // the store's lock, see Own; nil: not owned
		closed bool
	}
}

// Open opens a store. The directory is made by the first Log; with
// Options.ReadOnly it must exist.
func Open(dir string, o Options) (*Dir, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store directory: %w", err)
	}
	fi, err := os.Stat(dir)
	switch {
	case err == nil && !fi.IsDir():
		return nil, fmt.Errorf("store %s is not a directory", dir)
	case errors.Is(err, fs.ErrNotExist) && !o.ReadOnly:
	case err != nil:
		return nil, readError("open store", dir, err)
	}
	d := &Dir{path: dir, o: o, boot: bootHash(), fds: newFDCache(o.OpenFiles)}
	d.mu.logs = make(map[*Log]struct{})
	d.mu.views = make(map[string]*view)
	return d, nil
}

// Log opens a shard for append, and creates it if need be. What a crash left is
// recovered first. The log is the caller's to close; Dir.Close closes it too.
//
// Errors: wire.ErrLocked (with the holder), wire.ErrBadRequest for a bad name,
// wire.ErrReadOnly, wire.ErrFull, ErrCorrupt, ErrVersion.
func (d *Dir) Log(shard string) (*Log, error) {
	stream, number, err := splitShard(shard)
	if err != nil {
		return nil, err
	}
	if d.o.ReadOnly {
		return nil, &wire.Error{Status: wire.StatusReadOnly, Message: d.path + " is open for reading only"}
	}
	shard = stream + "/" + number
	path := shardPath(d.path, stream, number)
	if err := makeShard(d.o.fs, d.path, path); err != nil {
		return nil, err
	}
	lock, err := lockShard(d.o.fs, path, shard)
	if err != nil {
		return nil, err
	}
	w, err := d.recover(path, shard)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l := newLog(shard, &d.o, w, lock, d.forget)
	d.mu.Lock()
	closed := d.mu.closed
	if !closed {
		d.mu.logs[l] = struct{}{}
	}
	d.mu.Unlock()
	if closed {
		return nil, errors.Join(d.closedError(), l.Close())
	}
	return l, nil
}

func (d *Dir) recover(path, shard string) (*writer, error) {
	f, err := survey(d.o.fs, path, d.boot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", shard, err)
	}
	p, err := decide(f)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", shard, err)
	}
	w, err := apply(d.o.fs, f, p, d.boot, d.o.Policy != Always)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", shard, err)
	}
	for _, n := range p.notes {
		d.o.Logger.Warn("shard recovered", "shard", shard, "what", n, "length", p.length, "cut", f.end()-p.length)
	}
	return w, nil
}

func (d *Dir) forget(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.logs, l)
}

func (d *Dir) closedError() error {
	return fmt.Errorf("%w: store %s is closed", wire.ErrClosing, d.path)
}

// Close closes the logs that are still open, then the files kept for reading.
// Reads under way go on, and close theirs. Closing twice is fine.
func (d *Dir) Close() error {
	d.mu.Lock()
	d.mu.closed = true
	logs := make([]*Log, 0, len(d.mu.logs))
	for l := range d.mu.logs {
		logs = append(logs, l)
	}
	d.mu.Unlock()
	var err error
	for _, l := range logs {
		err = errors.Join(err, l.Close())
	}
	d.fds.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.owned != nil {
		err = errors.Join(err, d.mu.owned.Close())
		d.mu.owned = nil
	}
	return err
}
