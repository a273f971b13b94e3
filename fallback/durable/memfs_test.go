package durable

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// memFS is a file system that knows what would survive a power failure, and that
// can stop at any step. It is harsher than real ones: an entry that SyncDir has
// not covered may be gone though its file was flushed, and of the writes that no
// Datasync has covered any sector may or may not be there.
type memFS struct {
	mu      sync.Mutex
	rng     *rand.Rand
	entries map[string]*memFile
	synced  map[string]*memFile // entries that SyncDir has covered
	dirOps  []dirOp             // entries changed since, in order
	steps   int
	crashAt int // the step that fails half-way; 0: none
	crashed bool
	fault   func(op, path string) error // asked before each step
	short   int                         // bytes that a faulted write writes first
}

type dirOp struct {
	path string
	file *memFile // nil: removed
}

type memFile struct {
	dir     bool
	now     []byte // what processes see
	flushed []byte // what Datasync has covered
	ops     []memOp
	locked  bool
	links   int
}

// memOp is a write, or with a nil p a truncation to off.
type memOp struct {
	off int
	p   []byte
}

var errCrash = errors.New("the process is gone")

func newMemFS(rng *rand.Rand) *memFS {
	root := &memFile{dir: true, links: 1}
	m := &memFS{rng: rng, entries: map[string]*memFile{"/": root}, synced: map[string]*memFile{"/": root}}
	return m
}

// step counts a change, and says whether it is the one at which everything
// stops. The caller holds mu.
func (m *memFS) step(op, path string) (last bool, err error) {
	if m.crashed {
		return false, errCrash
	}
	if m.fault != nil {
		if err := m.fault(op, path); err != nil {
			return false, &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	m.steps++
	if m.steps == m.crashAt {
		m.crashed = true
	}
	return m.crashed, nil
}

func (m *memFS) set(path string, f *memFile) {
	if f == nil {
		m.entries[path].links--
		delete(m.entries, path)
	} else {
		f.links++
		m.entries[path] = f
	}
	m.dirOps = append(m.dirOps, dirOp{path, f})
}

func pathErr(op, path string, errno syscall.Errno) error {
	return &fs.PathError{Op: op, Path: path, Err: errno}
}

func (m *memFS) Open(path string, flag int) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return nil, errCrash
	}
	f := m.entries[path]
	switch {
	case f != nil && flag&os.O_EXCL != 0:
		return nil, pathErr("open", path, syscall.EEXIST)
	case f == nil && flag&os.O_CREATE == 0:
		return nil, pathErr("open", path, syscall.ENOENT)
	case f == nil:
		if m.entries[filepath.Dir(path)] == nil {
			return nil, pathErr("open", path, syscall.ENOENT)
		}
		if _, err := m.step("create", path); err != nil {
			return nil, err
		}
		f = new(memFile)
		m.set(path, f)
	}
	h := &memHandle{m, f, path}
	if flag&os.O_TRUNC != 0 {
		h.truncate(0)
	}
	return h, nil
}

func (m *memFS) Mkdir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[path] != nil {
		return pathErr("mkdir", path, syscall.EEXIST)
	}
	if m.entries[filepath.Dir(path)] == nil {
		return pathErr("mkdir", path, syscall.ENOENT)
	}
	if _, err := m.step("mkdir", path); err != nil {
		return err
	}
	m.set(path, &memFile{dir: true})
	return nil
}

func (m *memFS) Names(path string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return nil, errCrash
	}
	var names []string
	for p := range m.entries {
		if filepath.Dir(p) == path && p != "/" {
			names = append(names, filepath.Base(p))
		}
	}
	return names, nil
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.step("rename", from); err != nil {
		return err
	}
	f := m.entries[from]
	if old := m.entries[to]; old != nil {
		old.links--
	}
	delete(m.entries, from)
	m.entries[to] = f
	m.dirOps = append(m.dirOps, dirOp{to, f}, dirOp{from, nil})
	return nil
}

func (m *memFS) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[path] == nil {
		return pathErr("remove", path, syscall.ENOENT)
	}
	if _, err := m.step("remove", path); err != nil {
		return err
	}
	m.set(path, nil)
	return nil
}

func (m *memFS) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.step("syncdir", path)
	if err != nil || last {
		return errors.Join(err, pick(last, errCrash))
	}
	m.dirOps = slices.DeleteFunc(m.dirOps, func(o dirOp) bool {
		if filepath.Dir(o.path) != path {
			return false
		}
		o.applyTo(m.synced)
		return true
	})
	return nil
}

func (o dirOp) applyTo(entries map[string]*memFile) {
	if o.file == nil {
		delete(entries, o.path)
	} else {
		entries[o.path] = o.file
	}
}

func pick(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

func (m *memFS) Lock(path string) (io.Closer, error) {
	h, err := m.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := h.(*memHandle).f
	if f.locked {
		return nil, heldError{"another test"}
	}
	f.locked = true
	return memLock{m, f}, nil
}

type memLock struct {
	m *memFS
	f *memFile
}

func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.f.locked = false
	return nil
}

func (m *memFS) down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashed
}

// afterKill is what the next process finds when this one was killed.
func (m *memFS) afterKill() *memFS {
	n := newMemFS(m.rng)
	moved := map[*memFile]*memFile{}
	move := func(f *memFile) *memFile {
		if f == nil {
			return nil
		}
		if moved[f] == nil {
			moved[f] = &memFile{dir: f.dir, now: slices.Clone(f.now), flushed: slices.Clone(f.flushed), ops: slices.Clone(f.ops), links: f.links}
		}
		return moved[f]
	}
	for p, f := range m.entries {
		n.entries[p] = move(f)
	}
	for p, f := range m.synced {
		n.synced[p] = move(f)
	}
	for _, o := range m.dirOps {
		n.dirOps = append(n.dirOps, dirOp{o.path, move(o.file)})
	}
	return n
}

// afterPowerFailure is one of the states that the next boot may find.
func (m *memFS) afterPowerFailure() *memFS {
	k := m.afterKill()
	for _, o := range k.dirOps { // per directory a journal keeps the order
		if m.rng.IntN(3) == 0 {
			break
		}
		o.applyTo(k.synced)
	}
	n := newMemFS(m.rng)
	for _, f := range k.synced {
		f.links = 0
	}
	for p, f := range k.synced {
		if p != "/" && !reachable(k.synced, p) {
			continue
		}
		if f.links == 0 { // its first name
			for _, o := range f.ops {
				f.flushed = o.survive(f.flushed, m.rng)
			}
			f.now, f.ops = slices.Clone(f.flushed), nil
		}
		f.links++
		n.entries[p], n.synced[p] = f, f
	}
	return n
}

func reachable(entries map[string]*memFile, p string) bool {
	for p != "/" {
		if p = filepath.Dir(p); entries[p] == nil {
			return false
		}
	}
	return true
}

const sector = 512

// survive applies any of the sectors of an unflushed write.
func (o memOp) survive(b []byte, rng *rand.Rand) []byte {
	if o.p == nil {
		if rng.IntN(2) == 0 {
			return resize(b, o.off)
		}
		return b
	}
	for at := 0; at < len(o.p); {
		n := min(len(o.p)-at, sector-(o.off+at)%sector)
		if rng.IntN(3) > 0 {
			b = writeTo(b, o.off+at, o.p[at:at+n])
		}
		at += n
	}
	return b
}

func resize(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n]
	}
	return append(b, make([]byte, n-len(b))...)
}

func writeTo(b []byte, off int, p []byte) []byte {
	b = resize(b, max(len(b), off+len(p)))
	copy(b[off:], p)
	return b
}

// failOn makes steps of one kind on paths with a suffix fail, from now on.
func (m *memFS) failOn(op, suffix string, errno syscall.Errno, short int) {
	m.hook(func(o, p string) error {
		if o == op && strings.HasSuffix(p, suffix) {
			return errno
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.short = short
}

// hook sets the fault function; nil heals everything.
func (m *memFS) hook(f func(op, path string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// content returns the bytes of a shard's segments, from its first position.
func (m *memFS) content(dir string) (first uint64, b []byte) {
	names, _ := m.Names(dir)
	segs := parseSegments(names)
	for _, s := range segs {
		b = append(b, m.entries[filepath.Join(dir, s.name)].now...)
	}
	if len(segs) > 0 {
		first = segs[0].base
	}
	return first, b
}

type memHandle struct {
	m    *memFS
	f    *memFile
	path string
}

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.m.crashed {
		return 0, errCrash
	}
	n := 0
	if off < int64(len(h.f.now)) {
		n = copy(p, h.f.now[off:])
	}
	return n, pick(n < len(p), io.EOF)
}

func (h *memHandle) write(p []byte, off int64) {
	if len(p) > 0 {
		h.f.now = writeTo(h.f.now, int(off), p)
		h.f.ops = append(h.f.ops, memOp{int(off), slices.Clone(p)})
	}
}

func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	last, err := h.m.step("write", h.path)
	switch {
	case err != nil && !h.m.crashed:
		n := min(h.m.short, len(p))
		h.write(p[:n], off)
		return n, err
	case err != nil:
		return 0, err
	case last:
		n := h.m.rng.IntN(len(p) + 1)
		if strings.HasSuffix(h.path, markName) { // one write(2) within a page: all or nothing
			n = len(p) * h.m.rng.IntN(2)
		}
		h.write(p[:n], off)
		return n, errCrash
	}
	h.write(p, off)
	return len(p), nil
}

func (h *memHandle) truncate(size int) {
	h.f.now = resize(h.f.now, size)
	h.f.ops = append(h.f.ops, memOp{off: size})
}

func (h *memHandle) Truncate(size int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if _, err := h.m.step("truncate", h.path); err != nil {
		return err
	}
	h.truncate(int(size))
	return nil
}

// Datasync that fails leaves the pages marked clean, as Linux does: what they hold
// is seen by everybody, and no later Datasync writes it.
func (h *memHandle) Datasync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	last, err := h.m.step("sync", h.path)
	switch {
	case last:
		return errCrash
	case err != nil && !h.m.crashed:
		h.f.ops = nil
		return err
	case err != nil:
		return err
	}
	for _, o := range h.f.ops {
		if o.p == nil {
			h.f.flushed = resize(h.f.flushed, o.off)
		} else {
			h.f.flushed = writeTo(h.f.flushed, o.off, o.p)
		}
	}
	h.f.ops = nil
	return nil
}

func (h *memHandle) Size() (int64, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return int64(len(h.f.now)), pick(h.m.crashed, errCrash)
}

func (h *memHandle) Linked() bool {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return h.f.links > 0
}

func (h *memHandle) Close() error { return nil }
