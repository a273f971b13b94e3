package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestIndexGolden(t *testing.T) {
	const want = "20261130T150203.123456789Z-00000000000268435456.log e55e8000\n"
	name := segmentName(time.Date(2026, 11, 30, 15, 2, 3, 123456789, time.UTC), 268435456)
	if got := string(appendIndex(nil, name)); got != want || len(got) != indexLine {
		t.Errorf("%q", got)
	}
	if s, ok := parseIndex([]byte(want)); !ok || s.name != name || s.base != 268435456 {
		t.Errorf("%+v, %v", s, ok)
	}
	for i := range want {
		b := []byte(want)
		b[i] ^= 1
		if s, ok := parseIndex(b); ok {
			t.Errorf("%q is taken for %+v", b, s)
		}
	}
}

// names are those of n segments of 10 bytes each.
func segmentsFor(n int) (segs []segment) {
	for i := range n {
		name := segmentName(time.Unix(int64(i), 0), uint64(10*i))
		s, _ := parseSegment(name)
		segs = append(segs, s)
	}
	return segs
}

// Wherever a reader stands, and wherever it believes its line to be, it gets all that
// follows, or learns that the index does not tell.
func TestSuccessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segs := segmentsFor(rapid.IntRange(0, 100).Draw(t, "segments"))
		b := encodeIndex(segs)
		have := rapid.IntRange(0, 110).Draw(t, "last")
		last := segmentsFor(have + 1)[have].name
		at := rapid.IntRange(0, 120).Draw(t, "at")
		whole := true
		if rapid.Bool().Draw(t, "torn") && len(b) > 0 {
			if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); rapid.Bool().Draw(t, "end") {
				whole = cut%indexLine == 0
				b, segs = b[:cut], segs[:cut/indexLine]
			} else {
				b[cut] ^= 0x20
				whole = cut/indexLine < have
			}
		}
		more, line, ok := successors(bytes.NewReader(b), at, last)
		switch {
		case ok != (whole && have < len(segs)):
			t.Fatalf("segment %d of %d, whole %v: %v", have, len(segs), whole, ok)
		case ok && (!slices.Equal(more, segs[have+1:]) || line != len(segs)-1):
			t.Fatalf("behind segment %d of %d: %v, line %d", have, len(segs), more, line)
		}
	})
}

// counted is a reader that counts how often it lists a shard's directory.
func counted(t testing.TB, root string) (d *Dir, listings *int) {
	listings = new(int)
	return openDir(t, root, Options{ReadOnly: true, names: func(dir string) ([]string, error) {
		*listings++
		return osFS{}.Names(dir)
	}}), listings
}

// A reader that follows goes from one segment to the next, over many roll-overs and
// along with retention, and never lists the directory again.
func TestRealFollowWithoutListing(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{SegmentBytes: 100, RetainBytes: 500, Policy: Never})
	l := openLog(t, w, "s/0000")
	pos := mustAppend(t, l, 0, 30)
	r, listings := counted(t, root)
	var read uint64
	for i := range 400 { // 30 bytes each, 3 to a segment
		pos = mustAppend(t, l, pos, 30)
		if i%7 == 0 {
			if _, err := w.Retain(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 > 0 && i%100 > 10 {
			continue // some looks come after several roll-overs
		}
		info, err := r.Stat(ctxOf(t), "s/0000")
		if err != nil || info.Length != pos || info.First != l.Info().First {
			t.Fatalf("%+v, %v; want a length of %d and %d first", info, err, pos, l.Info().First)
		}
		read = max(read, info.First)
		checkRange(t, r, "s/0000", read, pos)
		read = pos
	}
	if _, err := r.ReadAt(ctxOf(t), "s/0000", 0, make([]byte, 1)); !errors.Is(err, wire.ErrOutOfRetention) {
		t.Errorf("read of what retention has removed: %v", err)
	}
	if rolls := l.Stats().Rolls; *listings != 1 || rolls < 130 {
		t.Errorf("%d listings over %d roll-overs, want 1 at the beginning", *listings, rolls)
	}
	if fi, err := os.Stat(root + "/s/0000/" + indexName); err != nil || int(fi.Size()) > (64+2*10+1)*indexLine {
		t.Errorf("index of %d bytes, %v: lines of removed segments stay", fi.Size(), err)
	}
	// So does one through another life of the writer.
	l.Close()
	l = openLog(t, w, "s/0000")
	for range 20 {
		pos = mustAppend(t, l, pos, 60)
	}
	checkRange(t, r, "s/0000", read, pos)
	if *listings != 1 {
		t.Errorf("%d listings after the writer came back", *listings)
	}
	t.Logf("report: %d listings over %d roll-overs", *listings, l.Stats().Rolls+133)
}

// A store without an index, and one whose index an older writer has not kept, is
// read by listing. A writer that opens it makes an index.
func TestRealStoreWithoutIndex(t *testing.T) {
	root := t.TempDir()
	index := root + "/s/0000/" + indexName
	w := openDir(t, root, Options{SegmentBytes: 100, Policy: Never})
	l := openLog(t, w, "s/0000")
	pos := mustAppend(t, l, 0, 30)
	r, listings := counted(t, root)
	grow := func(n int) {
		t.Helper()
		for range n {
			pos = mustAppend(t, l, pos, 60)
		}
	}
	for i := range 10 {
		if i < 5 {
			os.Remove(index)
		} else if err := os.WriteFile(index, []byte("what is this"), 0o600); err != nil {
			t.Fatal(err)
		}
		grow(3)
		checkRange(t, r, "s/0000", 0, pos)
	}
	if *listings < 10 {
		t.Errorf("%d listings without an index", *listings)
	}
	// Lines are missing at the end, then also in the middle.
	for _, lines := range []int{1, 2} {
		l.Close()
		l = openLog(t, w, "s/0000")
		before, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		checkRange(t, r, "s/0000", 0, pos)
		grow(4)
		b, err := os.ReadFile(index)
		if err != nil || len(b) != len(before)+4*indexLine {
			t.Fatalf("index of %d bytes after %d: %v", len(b), len(before), err)
		}
		b = slices.Delete(b, len(before), len(before)+lines*indexLine)
		if err := os.WriteFile(index, b, 0o600); err != nil {
			t.Fatal(err)
		}
		checkRange(t, r, "s/0000", 0, pos)
	}
	l.Close()
	os.Remove(index)
	l = openLog(t, w, "s/0000")
	checkRange(t, r, "s/0000", 0, pos)
	before := *listings
	grow(20)
	checkRange(t, r, "s/0000", 0, pos)
	if *listings != before {
		t.Errorf("%d listings with an index that was made anew", *listings-before)
	}
}

// The index is an aid: what goes wrong with it fails no append, and is repaired by the
// next roll-over.
func TestIndexFails(t *testing.T) {
	index := memShard + "/" + indexName
	for _, op := range []string{"create", "write", "rename", "sync"} {
		m := testFS()
		_, l := memLog(t, m, Options{SegmentBytes: 100})
		pos := mustAppend(t, l, 0, 100)
		m.hook(func(o, path string) error {
			if o == op && (path == index || path == memShard+"/"+indexTemp) {
				return syscall.EIO
			}
			return nil
		})
		m.short = 20
		if op != "write" { // the index is gone meanwhile, and opened anew
			l.Close()
			delete(m.entries, index)
			l = openLog(t, openDir(t, "/store", Options{SegmentBytes: 100, fs: m}), "logs/0001")
		}
		for range 3 {
			pos = mustAppend(t, l, pos, 100)
		}
		m.hook(nil)
		mustAppend(t, l, pos, 100)
		names, err := m.Names(memShard)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(m.entries[index].now), string(encodeIndex(parseSegments(names))); got != want {
			t.Errorf("after %s failed: index\n%swant\n%s", op, got, want)
		}
		l.Close()
	}
}

// Who sees a new file in the directory finds its line in the index.
func TestSegmentsAreAnnounced(t *testing.T) {
	m := testFS()
	_, l := memLog(t, m, Options{SegmentBytes: 100})
	made := 0
	m.hook(func(op, path string) error {
		if op == "create" && strings.HasSuffix(path, segmentSuffix) {
			made++
			if x := m.entries[memShard+"/"+indexName]; x == nil || !strings.HasSuffix(string(x.now), string(appendIndex(nil, filepath.Base(path)))) {
				t.Errorf("segment %d is made before its line", made)
			}
		}
		return nil
	})
	var pos uint64
	for range 5 {
		pos = mustAppend(t, l, pos, 100)
	}
	if made != 5 {
		t.Errorf("%d segments", made)
	}
}

// materialize writes what a process finds of a shard into a real directory.
func (m *memFS) materialize(root string) error {
	dir := filepath.Join(root, "logs/0001")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for p, f := range m.entries {
		if filepath.Dir(p) == memShard && !f.dir {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(p)), f.now, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// readers lets readers that last looked at any earlier time, when fewer segments were
// there or one was announced, read all that is readable after a crash.
func (h *history) readers(fsys *memFS, boot uint64, root string) error {
	defer os.RemoveAll(root)
	if err := fsys.materialize(root); err != nil {
		return err
	}
	d, err := Open(root, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer d.Close()
	d.boot = boot
	const shard = "logs/0001"
	info, err := d.Stat(h.ctx, shard)
	if errors.Is(err, wire.ErrUnknownShard) || errors.Is(err, ErrCorrupt) {
		return nil // it was being made, or needs a writer
	}
	if err != nil {
		return err
	}
	if h.created && info.Incarnation != h.incarnation {
		return nil // a loss that the policy allows, made out by a life that ended before it told
	}
	v := d.mu.views[shard]
	now := v.mu.list.segs
	stale := [][]segment{}
	for i := range now {
		stale = append(stale, now[:i+1])
	}
	if f := fsys.entries[memShard+"/"+indexName]; f != nil {
		var lines []segment
		for line := range strings.Lines(string(f.now)) {
			s, ok := parseIndex([]byte(line))
			if !ok {
				break
			}
			lines = append(lines, s)
			stale = append(stale, slices.Clone(lines))
		}
	}
	from := max(info.First, h.trusted)
	for _, segs := range stale {
		v.mu.list, v.mu.id.mtime.Sec = &listing{segs}, 1
		b := make([]byte, info.Length-min(from, info.Length))
		n, err := d.ReadAt(h.ctx, shard, from, b)
		if err == nil && n < len(b) {
			err = fmt.Errorf("%d of %d bytes", n, len(b))
		}
		if err = errors.Join(err, checkBytes(b[:n], from)); err != nil {
			return fmt.Errorf("reader that knew %d of %d segments: %w", len(segs), len(now), err)
		}
	}
	return nil
}
