package durable

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rmatail/rmatail/fallback/wire"
)

// lockShard takes the shard's lock file.
func lockShard(fsys fsys, path, shard string) (io.Closer, error) {
	c, err := fsys.Lock(filepath.Join(path, lockName))
	var held heldError
	if errors.As(err, &held) {
		return nil, &wire.Error{Status: wire.StatusLocked, Message: fmt.Sprintf("%s is written by %s; stop it or append through it", shard, held.holder)}
	}
	if err != nil {
		return nil, osError("lock", filepath.Join(path, lockName), err)
	}
	return c, nil
}

// survey reads what decide needs to know.
func survey(fsys fsys, path string, boot uint64) (found, error) {
	f := found{path: path}
	metaPath := filepath.Join(path, metaName)
	b, err := readAll(fsys, metaPath, metaMax)
	if err == nil {
		f.hasMeta = true
		f.incarnation, err = parseMeta(b)
		if errors.Is(err, errMeta) {
			return f, &CorruptError{File: metaPath, Reason: "unreadable identity (remove it to have it made again from the mark)"}
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, readError("read", metaPath, err)
	}
	if err := f.surveyMark(fsys, boot); err != nil {
		return f, err
	}
	names, err := fsys.Names(path)
	if err != nil {
		return f, readError("list", path, err)
	}
	f.segs = parseSegments(names)
	for i := range f.segs {
		if err := sizeSegment(fsys, path, &f.segs[i]); err != nil {
			return f, err
		}
	}
	if f.markOK && f.mark.pending > 0 {
		f.pendingOK, err = checkPending(fsys, f)
	}
	return f, err
}

func (f *found) surveyMark(fsys fsys, boot uint64) error {
	p := filepath.Join(f.path, markName)
	m, err := fsys.Open(p, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return osError("open", p, err)
	}
	defer m.Close()
	b := make([]byte, markSize)
	n, err := m.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return readError("read", p, err)
	}
	f.markThere = true
	f.mark, f.markOK = parseMark(b[:n])
	f.markWhole = n == markSize
	f.sameBoot = boot != 0 && f.mark.boot == boot
	return nil
}

func sizeSegment(fsys fsys, path string, s *segment) error {
	p := filepath.Join(path, s.name)
	f, err := fsys.Open(p, os.O_RDONLY)
	if err != nil {
		return osError("open", p, err)
	}
	n, err := f.Size()
	s.size = uint64(n)
	return readError("stat", p, errors.Join(err, f.Close()))
}

// checkPending reports whether the mark's pending group is there, whole.
func checkPending(fsys fsys, f found) (bool, error) {
	from, n := f.mark.length, uint64(f.mark.pending)
	if len(f.segs) == 0 || f.segs[0].base > from || f.end() < from+n {
		return false, nil
	}
	b, err := readGroup(fsys, f.path, f.segs[locate(f.segs, from)], from, n)
	return err == nil && crc32.Checksum(b, castagnoli) == f.mark.pendingCRC, err
}

// readGroup reads [from, from+n) of a segment; nothing when it is not all there.
func readGroup(fsys fsys, path string, s segment, from, n uint64) ([]byte, error) {
	if s.end() < from+n {
		return nil, nil
	}
	p := filepath.Join(path, s.name)
	f, err := fsys.Open(p, os.O_RDONLY)
	if err != nil {
		return nil, osError("open", p, err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, int64(from-s.base)); err != nil && err != io.EOF {
		return nil, readError("read", p, err)
	}
	return b, nil
}

func newIncarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return max(1, binary.LittleEndian.Uint64(b[:]))
}

// apply carries out a plan: segments first, then the identity, the mark last, so
// that a crash on the way leads to the same plan again.
func apply(fsys fsys, f found, p plan, boot uint64, lazy bool) (*writer, error) {
	segs, err := cutSegments(fsys, f, p)
	if err != nil {
		return nil, err
	}
	for i, s := range segs {
		if s.end() <= p.flushFrom && i < len(segs)-1 {
			continue
		}
		if err := flushSegment(fsys, f.path, s, p.rewriteFrom, p.length); err != nil {
			return nil, err
		}
	}
	if err := fsys.SyncDir(f.path); err != nil {
		return nil, osError("flush directory", f.path, err)
	}
	inc := p.incarnation
	if p.newIncarnation {
		inc = newIncarnation()
	}
	if p.writeMeta {
		if err := replaceFile(fsys, f.path, metaName, metaTemp, encodeMeta(inc)); err != nil {
			return nil, err
		}
	}
	s := slot{incarnation: inc, boot: boot, length: p.length, synced: p.length}
	if lazy {
		s.flags |= flagLazy
	}
	if p.sealed {
		s.flags |= flagSealed
	}
	m, err := placeMark(fsys, f, s)
	if err != nil {
		return nil, err
	}
	w := &writer{fs: fsys, path: f.path, mark: m, segs: segs, length: p.length, synced: p.length, lazy: lazy, index: openIndex(fsys, f.path, segs)}
	if err := w.openActive(); err != nil {
		return nil, errors.Join(err, w.closeFiles())
	}
	return w, nil
}

// placeMark makes s the mark, flushed.
func placeMark(fsys fsys, f found, s slot) (*markFile, error) {
	if !f.markOK || !f.markWhole {
		return createMark(fsys, f.path, s)
	}
	m, err := openMark(fsys, f.path, f.mark)
	if err != nil {
		return nil, err
	}
	if err = m.write(s); err == nil {
		err = m.sync()
	}
	if err != nil {
		return nil, errors.Join(err, m.f.Close())
	}
	return m, nil
}

// cutSegments removes what lies above the plan's length.
func cutSegments(fsys fsys, f found, p plan) ([]segment, error) {
	segs := f.segs
	for n := len(segs); n > 0 && segs[n-1].base > p.length; n = len(segs) {
		path := filepath.Join(f.path, segs[n-1].name)
		if err := fsys.Remove(path); err != nil {
			return nil, osError("remove", path, err)
		}
		segs = segs[:n-1]
	}
	n := len(segs)
	if n == 0 || segs[n-1].end() <= p.length {
		return segs, nil
	}
	last := &segs[n-1]
	path := filepath.Join(f.path, last.name)
	s, err := fsys.Open(path, os.O_RDWR)
	if err != nil {
		return nil, osError("open", path, err)
	}
	last.size = p.length - last.base
	err = s.Truncate(int64(last.size))
	return segs, osError("truncate", path, errors.Join(err, s.Close()))
}

// flushSegment flushes a segment, after it has written what it holds of
// [from, to) once more.
func flushSegment(fsys fsys, dir string, s segment, from, to uint64) error {
	path := filepath.Join(dir, s.name)
	f, err := fsys.Open(path, os.O_RDWR)
	if err != nil {
		return osError("open", path, err)
	}
	if from = max(from, s.base); from < min(to, s.end()) {
		b := make([]byte, min(to, s.end())-from)
		if _, err = f.ReadAt(b, int64(from-s.base)); err == nil || err == io.EOF {
			_, err = f.WriteAt(b, int64(from-s.base))
		}
	}
	if err == nil {
		err = f.Datasync()
	}
	return osError("flush", path, errors.Join(err, f.Close()))
}
