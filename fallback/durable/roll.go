package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// prepare sees to it that there is an active segment with room for an append of n
// bytes. rolled tells whether it is a new one.
func (w *writer) prepare(n int, o *Options) (rolled bool, err error) {
	if !w.mark.f.Linked() {
		return false, fatal{fmt.Errorf("%s was removed while the shard was open", w.mark.path)}
	}
	if w.active == nil || !w.active.Linked() {
		return true, w.roll(o) // removed by hand: retention reached the active segment
	}
	seg := w.segs[len(w.segs)-1]
	switch {
	case seg.size == 0:
		return false, nil
	case seg.size+uint64(n) > uint64(o.SegmentBytes), o.Clock().Sub(w.born) >= o.SegmentAge:
		return true, w.roll(o)
	}
	return false, nil
}

// room returns how many bytes the active segment takes before it rolls over.
func (w *writer) room(o *Options) int64 {
	return o.SegmentBytes - int64(w.segs[len(w.segs)-1].size)
}

// roll makes a new active segment, its name flushed before it gets any content.
func (w *writer) roll(o *Options) error {
	// Only the active segment may hold unflushed bytes, whatever the policy: else a
	// power failure could leave a gap in the middle.
	if w.active != nil && w.active.Linked() {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if err := w.dropRemoved(); err != nil {
		return err
	}
	// Names must sort by position, also when the clock stepped back.
	born := o.Clock()
	if n := len(w.segs); n > 0 {
		if prev := w.segs[n-1].created(); born.Before(prev) {
			born = prev
		}
	}
	name, f, err := w.create(born)
	if err != nil {
		return err
	}
	if w.active != nil {
		// Everything that matters was flushed, or will be through a new descriptor.
		_ = w.active.Close()
	}
	w.active = f
	w.segs = append(w.segs, segment{name: name, base: w.length})
	w.born = w.segs[len(w.segs)-1].created()
	w.index.made()
	return nil
}

// create makes the file of a segment that begins at the length.
func (w *writer) create(born time.Time) (string, file, error) {
	for ; ; born = born.Add(time.Nanosecond) {
		name := segmentName(born, w.length)
		path := filepath.Join(w.path, name)
		w.index.announce(w.segs, name)
		f, err := w.fs.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", nil, osError("create", path, err)
		}
		if err := w.fs.SyncDir(w.path); err != nil {
			return "", nil, fatal{errors.Join(osError("flush directory", w.path, err), f.Close())}
		}
		return name, f, nil
	}
}

// dropRemoved forgets segments that retention has removed.
func (w *writer) dropRemoved() error {
	names, err := w.fs.Names(w.path)
	if err != nil {
		return readError("list", w.path, err)
	}
	there := make(map[string]bool, len(names))
	for _, n := range names {
		there[n] = true
	}
	w.segs = slices.DeleteFunc(w.segs, func(s segment) bool { return !there[s.name] })
	return nil
}

// first returns the first kept position.
func (w *writer) first() uint64 {
	if len(w.segs) == 0 {
		return w.length
	}
	return w.segs[0].base
}
