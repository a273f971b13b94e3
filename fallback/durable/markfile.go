package durable

import (
	"os"
	"path/filepath"
)

// markFile writes the mark. One goroutine at a time.
type markFile struct {
	f    file
	path string
	last slot
	buf  [slotSize]byte
}

const markTemp = "length.tmp"

// createMark puts a mark with one slot in place, whole or not at all.
func createMark(fsys fsys, dir string, s slot) (*markFile, error) {
	s.seq = 1
	b := make([]byte, markSize)
	s.put(b[s.offset():])
	if err := replaceFile(fsys, dir, markName, markTemp, b); err != nil {
		return nil, err
	}
	return openMark(fsys, dir, s)
}

// openMark opens a mark whose newest slot is last.
func openMark(fsys fsys, dir string, last slot) (*markFile, error) {
	path := filepath.Join(dir, markName)
	f, err := fsys.Open(path, os.O_RDWR)
	if err != nil {
		return nil, osError("open", path, err)
	}
	return &markFile{f: f, path: path, last: last}, nil
}

// offset is where a slot goes: never over its predecessor.
func (s slot) offset() int64 { return int64(s.seq%2) * markStride }

// write puts s in the place of the older slot. When it fails, the next write goes
// to the same place, so that the newer one stays whole.
func (m *markFile) write(s slot) error {
	s.seq = m.last.seq + 1
	s.put(m.buf[:])
	if _, err := m.f.WriteAt(m.buf[:], s.offset()); err != nil {
		return osError("write", m.path, err)
	}
	m.last = s
	return nil
}

func (m *markFile) sync() error { return osError("flush", m.path, m.f.Datasync()) }
