package durable

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"
)

// writer has the files of a shard that is open for append. One goroutine owns it;
// flushing the mark is left to a second one, so that the two flushes of a group
// go on side by side.
type writer struct {
	fs     fsys
	path   string
	mark   *markFile
	segs   []segment // with sizes; the last one is active
	active file      // nil before the first append
	born   time.Time // of the active segment
	length uint64    // readable; the end of segs
	synced uint64    // flushed
	lazy   bool
	index  *indexFile
	failed error

	flushes uint64 // of segments, so far

	markSync chan struct{}
	markDone chan error
}

// fatal marks an error after which the log is not to be trusted.
type fatal struct{ error }

func (e fatal) Unwrap() error { return e.error }

// start begins the second goroutine; closeFiles ends it.
func (w *writer) start() {
	w.markSync, w.markDone = make(chan struct{}), make(chan error)
	go func() {
		defer close(w.markDone)
		for range w.markSync {
			w.markDone <- w.mark.sync()
		}
	}()
}

func (w *writer) openActive() error {
	n := len(w.segs)
	if n == 0 {
		return nil
	}
	path := filepath.Join(w.path, w.segs[n-1].name)
	f, err := w.fs.Open(path, os.O_RDWR)
	if err != nil {
		return osError("open", path, err)
	}
	w.active, w.born = f, w.segs[n-1].created()
	return nil
}

// commit adds one group to the active segment and makes it readable. When it
// fails, the group is taken back; when that fails too, or a flush did, the error
// is fatal.
func (w *writer) commit(p []byte) error {
	seg := &w.segs[len(w.segs)-1]
	next := w.mark.last
	if !w.lazy {
		next.pending, next.pendingCRC = uint32(len(p)), crc32.Checksum(p, castagnoli)
		if err := w.mark.write(next); err != nil {
			return err
		}
		w.markSync <- struct{}{}
	}
	n, werr := w.active.WriteAt(p, int64(seg.size))
	if werr == nil && n < len(p) {
		werr = fmt.Errorf("%d of %d bytes written", n, len(p))
	}
	var ferr error
	if !w.lazy {
		if werr == nil {
			w.flushes++
			ferr = w.active.Datasync()
		}
		ferr = errors.Join(ferr, <-w.markDone)
	}
	if werr != nil || ferr != nil {
		return w.takeBack(seg, werr, ferr)
	}
	return w.publish(len(p))
}

// takeBack undoes a write that failed. A failed flush cannot be undone.
func (w *writer) takeBack(seg *segment, werr, ferr error) error {
	path := filepath.Join(w.path, seg.name)
	if ferr != nil {
		return fatal{osError("flush", path, errors.Join(ferr, werr))}
	}
	// Flushed, as the next append may go to another segment: what is left of this
	// one must not come back and overlap with it.
	if err := cmp.Or(w.active.Truncate(int64(seg.size)), w.active.Datasync()); err != nil {
		return fatal{osError("take back an append to", path, errors.Join(werr, err))}
	}
	// Nor may a later append that begins with the same bytes be cut down to this
	// one after a crash. A mark that cannot be written leaves it at that risk.
	s := w.mark.last
	s.pending, s.pendingCRC = 0, 0
	if s != w.mark.last && w.mark.write(s) == nil {
		if err := w.mark.sync(); err != nil {
			return fatal{err}
		}
	}
	return osError("write", path, werr)
}

// publish moves the mark over n more bytes.
func (w *writer) publish(n int) error {
	s := w.mark.last
	s.length, s.pending, s.pendingCRC = w.length+uint64(n), 0, 0
	s.synced = s.length
	if w.lazy {
		s.synced = w.synced
	}
	if err := w.mark.write(s); err != nil {
		return fatal{err}
	}
	w.segs[len(w.segs)-1].size += uint64(n)
	w.length, w.synced = s.length, s.synced
	return nil
}

// flush makes everything readable durable. What is not yet lies in the active
// segment.
func (w *writer) flush() error {
	if w.synced == w.length {
		return nil
	}
	w.flushes++
	if err := w.active.Datasync(); err != nil {
		return fatal{osError("flush", filepath.Join(w.path, w.segs[len(w.segs)-1].name), err)}
	}
	s := w.mark.last
	s.synced = w.length
	if err := w.mark.write(s); err != nil {
		return fatal{err}
	}
	w.synced = s.synced
	return nil
}

// settle flushes everything and leaves a mark, flushed too, that says so.
func (w *writer) settle(seal uint16) error {
	if err := w.flush(); err != nil {
		return err
	}
	s := w.mark.last
	s.flags = s.flags&^flagLazy | seal
	err := w.mark.write(s)
	if err == nil {
		err = w.mark.sync()
	}
	if err != nil {
		return fatal{err}
	}
	return nil
}

// fail leaves word for the next one to open the shard, if the mark still can be
// written.
func (w *writer) fail(err error) {
	w.failed = err
	s := w.mark.last
	s.flags |= flagFailed
	s.pending, s.pendingCRC = 0, 0
	_ = w.mark.write(s)
}

func (w *writer) closeFiles() error {
	var err error
	if w.markSync != nil {
		close(w.markSync)
		for range w.markDone {
		}
	}
	if w.active != nil {
		err = w.active.Close()
	}
	w.index.close()
	return errors.Join(err, w.mark.f.Close())
}
