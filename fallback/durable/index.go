package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	indexName = "segments"
	indexTemp = "segments.tmp"
	indexLine = segmentLen + 1 + 8 + 1 // bytes
)

// appendIndex adds the line of a segment.
func appendIndex(b []byte, name string) []byte {
	return fmt.Appendf(b, "%s %08x\n", name, crc32.Checksum([]byte(name), castagnoli))
}

// parseIndex reads a line that appendIndex wrote.
func parseIndex(line []byte) (segment, bool) {
	if len(line) != indexLine {
		return segment{}, false
	}
	s, ok := parseSegment(string(line[:segmentLen]))
	return s, ok && string(line) == string(appendIndex(nil, s.name))
}

// successors returns the segments whose lines follow that of last, and the line of
// the last one (of last, when there are none). at is where last is expected; it is
// looked for from the beginning when it is not there. ok is false when an index
// does not tell: last is not in it, or a line is not whole.
func successors(index io.ReaderAt, at int, last string) (segs []segment, line int, ok bool) {
	line = -1
	var buf [32 * indexLine]byte
	for from := max(at, 0); ; from += len(buf) / indexLine {
		n, err := index.ReadAt(buf[:], int64(from*indexLine))
		if err != nil && err != io.EOF {
			return nil, 0, false
		}
		for i := range n / indexLine {
			s, whole := parseIndex(buf[i*indexLine:][:indexLine])
			switch {
			case line >= 0 && !whole:
				return nil, 0, false
			case line >= 0:
				segs, line = append(segs, s), from+i
			case whole && s.name == last:
				line = from + i
			case at > 0:
				return successors(index, 0, last)
			}
		}
		if n < len(buf) && line < 0 && at > 0 {
			return successors(index, 0, last)
		}
		if n < len(buf) {
			return segs, line, line >= 0 && n%indexLine == 0
		}
	}
}

// indexFile writes the index. It is an aid to readers, who list the directory when
// it does not tell: whatever fails here is left to the next roll-over. One
// goroutine at a time.
type indexFile struct {
	fs    fsys
	dir   string
	f     file // nil: not there, or not as it should be
	lines int
}

// openIndex opens the index of a shard that has segs, and makes it anew unless it
// ends with them.
func openIndex(fsys fsys, dir string, segs []segment) *indexFile {
	x := &indexFile{fs: fsys, dir: dir}
	err := x.open(os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) && len(segs) == 0 {
		return x // made with the first segment
	}
	if err != nil || !x.endsWith(segs) {
		x.replace(segs)
	}
	return x
}

func (x *indexFile) path() string { return filepath.Join(x.dir, indexName) }

func (x *indexFile) open(flag int) (err error) {
	if x.f, err = x.fs.Open(x.path(), flag); err != nil {
		x.f = nil
	}
	return err
}

// endsWith reports whether the last lines are those of segs, and counts all.
func (x *indexFile) endsWith(segs []segment) bool {
	want := encodeIndex(segs)
	size, err := x.f.Size()
	off := size - int64(len(want))
	if err != nil || int(size)%indexLine != 0 || off < 0 || len(segs) == 0 && size > 0 {
		return false
	}
	have := make([]byte, len(want))
	n, err := x.f.ReadAt(have, off)
	x.lines = int(size) / indexLine
	return n == len(have) && (err == nil || err == io.EOF) && bytes.Equal(have, want)
}

func encodeIndex(segs []segment) (b []byte) {
	for _, s := range segs {
		b = appendIndex(b, s.name)
	}
	return b
}

// replace makes the index one of segs alone.
func (x *indexFile) replace(segs []segment) {
	x.close()
	if replaceFile(x.fs, x.dir, indexName, indexTemp, encodeIndex(segs)) == nil && x.open(os.O_RDWR) == nil {
		x.lines = len(segs)
	}
}

// announce writes the line of the segment that is made next, before it is there:
// who sees its file in the directory finds its line, too. Twice for the same
// segment overwrites: the first one did not come to be.
func (x *indexFile) announce(segs []segment, name string) {
	if x.f == nil && len(segs) == 0 && x.open(os.O_RDWR|os.O_CREATE) == nil && !x.endsWith(nil) {
		x.close()
	}
	// Lines of removed segments are dropped now and then.
	if x.f == nil || x.lines > 2*len(segs)+64 {
		x.replace(segs)
	}
	if x.f == nil {
		return
	}
	if _, err := x.f.WriteAt(appendIndex(nil, name), int64(x.lines*indexLine)); err != nil {
		x.close() // it may have a part of the line: made anew by the next roll-over
	}
}

// made counts the line that was announced last.
func (x *indexFile) made() { x.lines++ }

func (x *indexFile) close() {
	if x.f != nil {
		_ = x.f.Close() // only hints
		x.f = nil
	}
}
