package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// view is what readers know of a shard. A look at the directory's mtime tells
// whether segments came or went, the index which ones, a look at the mark how far
// they may be read.
type view struct {
	fds   *fdCache
	boot  uint64
	shard string
	path  string
	names func(dir string) ([]string, error) // lists a directory

	mu struct {
		sync.Mutex
		list    *listing
		line    int   // of its last segment in the index; 0 also when unknown
		id      dirID // of the directory, when list was made or found to hold
		settled bool  // later changes show in the mtime
		info    Info  // of list; Length only grows as long as Incarnation stays
		buf     [markRead]byte
	}
}

// listing is the segments at one time. It does not change, and has open files of
// its own.
type listing struct{ segs []segment }

type dirID struct {
	dev, ino uint64
	mtime    unix.Timespec
}

// mtimeGrain is more than the step of a file system's clock: within it, two
// changes may leave the same mtime.
const mtimeGrain = 100 * time.Millisecond

// whole is the need of a caller who wants the length as it is now.
const whole = ^uint64(0)

// look returns the segments and the state of the shard. The mark is read when
// need is above the length known so far.
func (v *view) look(need uint64) (*listing, Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, err := statDir(v.path)
	if err != nil {
		v.forget()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, Info{}, unknownShard(v.shard, "")
		}
		return nil, Info{}, readError("stat", v.path, err)
	}
	old := v.mu.list
	if old == nil || v.mu.id != id || !v.mu.settled {
		if err := v.update(id); err != nil {
			return nil, Info{}, err
		}
	}
	if v.mu.list != old || need > v.mu.info.Length {
		if err := v.readMark(); err != nil {
			return nil, Info{}, err
		}
	}
	return v.mu.list, v.mu.info, nil
}

// update brings the listing up to date, by the index if that tells. The caller
// holds mu, as in all below but stale.
func (v *view) update(id dirID) error {
	if v.mu.list == nil || v.mu.id.dev != id.dev || v.mu.id.ino != id.ino {
		return v.relist(id)
	}
	segs, changed := v.extend(v.mu.list.segs)
	if segs == nil {
		return v.relist(id)
	}
	if changed || id != v.mu.id { // the mark may be another file, too
		v.drop()
		v.mu.list = &listing{segs}
	}
	v.now(id)
	return nil
}

// now notes that the listing is that of a directory with this id. The clocks
// compared are this host's and the file system's: a server's that runs ahead costs
// looks at the index, one that lags by more than the grain may hide a change until
// the next one.
func (v *view) now(id dirID) {
	v.mu.id, v.mu.settled = id, time.Since(time.Unix(id.mtime.Unix())) > mtimeGrain
}

// extend returns segments without those that retention has removed, and with those
// that the index has behind the last one. nil: the index does not tell.
func (v *view) extend(old []segment) (segs []segment, changed bool) {
	gone := 0
	for gone < len(old) && !v.there(old[gone]) {
		gone++
	}
	if gone == len(old) {
		return nil, false
	}
	index, err := os.Open(filepath.Join(v.path, indexName))
	if err != nil {
		return nil, false
	}
	defer index.Close()
	more, line, ok := successors(index, v.mu.line, old[len(old)-1].name)
	segs = slices.Concat(old[gone:], more)
	if !ok || checkBases(v.path, segs) != nil {
		return nil, false
	}
	v.mu.line = line
	return segs, gone+len(more) > 0
}

// there reports whether a segment's file has not been removed.
func (v *view) there(s segment) bool {
	_, err := os.Stat(filepath.Join(v.path, s.name))
	return err == nil
}

func statDir(path string) (dirID, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == nil {
			return dirID{uint64(st.Dev), uint64(st.Ino), st.Mtim}, nil
		}
		if err != unix.EINTR {
			return dirID{}, err
		}
	}
}

// relist reads the directory.
func (v *view) relist(id dirID) error {
	names, err := v.names(v.path)
	if err != nil {
		return readError("list", v.path, err)
	}
	segs := parseSegments(names)
	if err := checkBases(v.path, segs); err != nil {
		return err
	}
	if v.mu.list != nil && (v.mu.id.dev != id.dev || v.mu.id.ino != id.ino) {
		v.mu.info = Info{}
	}
	v.drop()
	v.mu.list, v.mu.line = &listing{segs}, 0
	v.now(id)
	return nil
}

// stale makes the next look list again, if l is still the latest.
func (v *view) stale(l *listing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.list == l {
		v.drop()
	}
}

// drop forgets the listing and its files.
func (v *view) drop() {
	if v.mu.list != nil {
		v.fds.forget(v.mu.list)
		v.mu.list = nil
	}
}

func (v *view) forget() {
	v.drop()
	v.mu.info = Info{}
}

// readMark updates info.
func (v *view) readMark() error {
	s, err := v.mark()
	if err != nil {
		return err
	}
	info := &v.mu.info
	if info.Incarnation != s.incarnation {
		*info = Info{Incarnation: s.incarnation}
	}
	info.Sealed = s.has(flagSealed)
	info.Length = max(info.Length, s.readable(v.boot))
	info.First = info.Length
	if segs := v.mu.list.segs; len(segs) > 0 {
		info.First = segs[0].base
		info.Length = max(info.Length, info.First)
	}
	return nil
}

// mark reads the newest slot. A read that runs into two writes at once finds no
// whole slot; it is then repeated.
func (v *view) mark() (slot, error) {
	path := func() string { return filepath.Join(v.path, markName) }
	f, err := v.fds.acquire(fdKey{v.mu.list, markKey}, path)
	if errors.Is(err, fs.ErrNotExist) {
		return slot{}, unknownShard(v.shard, " has no length mark yet; open it for append once")
	}
	if err != nil {
		return slot{}, readError("open", path(), err)
	}
	defer v.fds.release(f)
	for range 8 {
		n, err := f.ReadAt(v.mu.buf[:], 0)
		if err != nil && err != io.EOF {
			return slot{}, readError("read", path(), err)
		}
		if s, ok := parseMark(v.mu.buf[:n]); ok {
			return s, nil
		}
	}
	return slot{}, &CorruptError{File: path(), Reason: "no whole slot (open the shard for append to have it made again)"}
}

// errStale is returned within the package when the files are not as listed.
var errStale = errors.New("segments changed")

// readAt fills p from pos on, all of it below the length.
func (v *view) readAt(l *listing, length, pos uint64, p []byte) (int, error) {
	done := 0
	for i := locate(l.segs, pos); done < len(p); i++ {
		end := length
		if i+1 < len(l.segs) {
			end = l.segs[i+1].base
		}
		if end <= pos {
			continue // empty
		}
		n := int(min(uint64(len(p)-done), end-pos))
		m, err := v.readSegment(l, i, pos, p[done:done+n])
		done, pos = done+m, pos+uint64(m)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (v *view) readSegment(l *listing, i int, pos uint64, p []byte) (int, error) {
	s := l.segs[i]
	path := func() string { return filepath.Join(v.path, s.name) }
	f, err := v.fds.acquire(fdKey{l, i}, path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %s is gone", errStale, path())
	}
	if err != nil {
		return 0, readError("open", path(), err)
	}
	defer v.fds.release(f)
	n, err := f.ReadAt(p, int64(pos-s.base))
	if err == io.EOF {
		// Another segment may have been begun there after the listing.
		return n, errors.Join(errStale, &CorruptError{path(), "segment ends before its successor begins", pos + uint64(len(p)), pos + uint64(n)})
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		err = readError("read", path(), err)
	}
	return n, err
}
