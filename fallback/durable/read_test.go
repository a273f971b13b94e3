package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// segmentsOf lists a shard's segment files.
func segmentsOf(t testing.TB, dir string) []segment {
	t.Helper()
	names, err := osFS{}.Names(dir)
	if err != nil {
		t.Fatal(err)
	}
	return parseSegments(names)
}

func TestRealReadOverSegmentBorders(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{SegmentBytes: 16})
	r := openDir(t, root, Options{ReadOnly: true, OpenFiles: 3})
	l := openLog(t, w, "s/0000")
	var pos uint64
	for _, n := range []int{16, 1, 15, 7, 9, 40, 3} {
		pos = mustAppend(t, l, pos, n)
		checkRange(t, r, "s/0", 0, pos)
	}
	if n := len(segmentsOf(t, root+"/s/0000")); n != 5 {
		t.Fatalf("%d segments", n)
	}
	for from := uint64(0); from <= pos; from++ {
		for to := from; to <= pos; to++ {
			p := make([]byte, to-from)
			n, err := r.ReadAt(ctxOf(t), "s/0000", from, p)
			if err != nil || n != len(p) {
				t.Fatalf("[%d, %d): %d, %v", from, to, n, err)
			}
			if err := checkBytes(p, from); err != nil {
				t.Fatal(err)
			}
		}
	}
	var we *wire.Error
	if n, err := r.ReadAt(ctxOf(t), "s/0000", pos, make([]byte, 9)); n != 0 || err != nil {
		t.Fatalf("at the end: %d, %v", n, err)
	}
	for _, at := range []uint64{pos + 1, ^uint64(0), ^uint64(0) - 5} {
		if _, err := r.ReadAt(ctxOf(t), "s/0000", at, make([]byte, 9)); !errors.Is(err, wire.ErrBeyond) || !errors.As(err, &we) || we.Arg0 != pos {
			t.Fatalf("at %d: %v", at, err)
		}
	}
}

func TestRealRetentionByHand(t *testing.T) {
	root := t.TempDir()
	dir := root + "/s/0000"
	w := openDir(t, root, Options{SegmentBytes: 100})
	r := openDir(t, root, Options{})
	l := openLog(t, w, "s/0000")
	var pos uint64
	for range 50 {
		pos = mustAppend(t, l, pos, 20)
	}
	checkRange(t, r, "s/0000", 0, pos)
	segs := segmentsOf(t, dir)
	for _, s := range segs[:4] {
		if err := os.Remove(filepath.Join(dir, s.name)); err != nil {
			t.Fatal(err)
		}
	}
	i, err := r.Stat(ctxOf(t), "s/0000")
	if err != nil || i.First != 400 || i.Length != pos {
		t.Fatalf("%+v, %v", i, err)
	}
	var we *wire.Error
	_, err = r.ReadAt(ctxOf(t), "s/0000", 399, make([]byte, 10))
	if !errors.Is(err, wire.ErrOutOfRetention) || !errors.As(err, &we) || we.Arg0 != 400 || we.Arg1 != pos {
		t.Fatal(err)
	}
	checkRange(t, r, "s/0000", 400, pos)
	if n := deletedFDs(t, dir); n != 0 {
		t.Fatalf("%d removed segments are still open", n)
	}
	pos = mustAppend(t, l, pos, 90)
	pos = mustAppend(t, l, pos, 90)
	if got := l.Info().First; got != 400 {
		t.Fatalf("the log's first is %d", got)
	}

	// Retention that goes too far: the active segment and all others.
	for _, s := range segmentsOf(t, dir) {
		os.Remove(filepath.Join(dir, s.name))
	}
	i, err = r.Stat(ctxOf(t), "s/0000")
	if err != nil || i.First != pos || i.Length != pos {
		t.Fatalf("%+v, %v; want an empty shard at %d", i, err, pos)
	}
	from := pos
	pos = mustAppend(t, l, pos, 3) // would have fitted the removed one
	checkRange(t, r, "s/0000", from, pos)
	inc := l.Info().Incarnation
	l.Close()
	for _, s := range segmentsOf(t, dir) {
		os.Remove(filepath.Join(dir, s.name))
	}
	l = openLog(t, w, "s/0000")
	if i := l.Info(); i.Length != pos || i.First != pos || i.Incarnation != inc {
		t.Fatalf("%+v: positions would be used twice, want %d", i, pos)
	}
	mustAppend(t, l, pos, 5)
}

// deletedFDs counts open files below dir that have no name any more.
func deletedFDs(t *testing.T, dir string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log("no /proc/self/fd here: open files not counted")
	}
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if strings.HasPrefix(to, dir) && strings.HasSuffix(to, "(deleted)") {
			n++
		}
	}
	return n
}

// A roll-over or a removal may come between the look at the directory and the
// one at the mark, or hide behind an mtime that did not move.
func TestRealOvertakenListing(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{SegmentBytes: 100})
	r := openDir(t, root, Options{})
	l := openLog(t, w, "s/0000")
	pos := mustAppend(t, l, 0, 100)
	pos = mustAppend(t, l, pos, 50)
	checkRange(t, r, "s/0000", 0, pos)
	v := r.mu.views["s/0000"]
	overtake := func(change func()) {
		t.Helper()
		old := v.mu.list
		change()
		id, err := statDir(v.path)
		if err != nil {
			t.Fatal(err)
		}
		v.mu.id, v.mu.settled = id, true
		v.mu.list = &listing{old.segs}
	}
	overtake(func() { pos = mustAppend(t, l, pos, 90) })
	checkRange(t, r, "s/0000", 0, pos)
	overtake(func() { os.Remove(filepath.Join(v.path, v.mu.list.segs[0].name)) })
	if _, err := r.ReadAt(ctxOf(t), "s/0000", 0, make([]byte, 5)); !errors.Is(err, wire.ErrOutOfRetention) {
		t.Fatal(err)
	}
	checkRange(t, r, "s/0000", 100, pos)
}

func TestRealUnknownRemovedAndMadeAgain(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{})
	r := openDir(t, root, Options{})
	unknown := func() {
		t.Helper()
		_, err1 := r.Stat(ctxOf(t), "s/0000")
		_, err2 := r.ReadAt(ctxOf(t), "s/0000", 0, make([]byte, 1))
		if !errors.Is(err1, wire.ErrUnknownShard) || !errors.Is(err2, wire.ErrUnknownShard) {
			t.Fatalf("%v; %v", err1, err2)
		}
		if len(r.mu.views) != 0 {
			t.Fatal("an unknown shard is remembered")
		}
	}
	unknown()
	l := openLog(t, w, "s/0000")
	mustAppend(t, l, 0, 100)
	checkRange(t, r, "s/0000", 0, 100)
	before, _ := r.Stat(ctxOf(t), "s/0000")
	l.Close()
	if err := os.RemoveAll(root + "/s"); err != nil {
		t.Fatal(err)
	}
	unknown()
	l = openLog(t, w, "s/0000")
	mustAppend(t, l, 0, 10)
	after, err := r.Stat(ctxOf(t), "s/0000")
	if err != nil || after.Length != 10 || after.Incarnation == before.Incarnation {
		t.Fatalf("%+v after %+v, %v", after, before, err)
	}

	// The same without a look in between.
	l.Close()
	os.RemoveAll(root + "/s")
	l = openLog(t, w, "s/0000")
	mustAppend(t, l, 0, 3)
	if i, err := r.Stat(ctxOf(t), "s/0000"); err != nil || i.Length != 3 || i.Incarnation == after.Incarnation {
		t.Fatalf("%+v after %+v, %v", i, after, err)
	}
	for _, bad := range []string{"", "s", "../s/0000", "s/x"} {
		if _, err := r.Stat(ctxOf(t), bad); !errors.Is(err, wire.ErrBadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRealFilesThatDoNotBelong(t *testing.T) {
	root := t.TempDir()
	dir := root + "/s/0000"
	w := openDir(t, root, Options{SegmentBytes: 50})
	l := openLog(t, w, "s/0000")
	var pos uint64
	for range 10 {
		pos = mustAppend(t, l, pos, 30)
	}
	for _, n := range []string{".hidden", "notes.txt", "core.log", "20261130.log", "length~", metaTemp, markTemp} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("foreign"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(dir+"/sub", 0o755)
	checkRange(t, w, "s/0000", 0, pos)
	l.Close()
	l = openLog(t, w, "s/0000")
	pos = mustAppend(t, l, pos, 30)
	checkRange(t, w, "s/0000", 0, pos)
	l.Close()

	segs := segmentsOf(t, dir)
	gone := filepath.Join(dir, segs[3].name)
	os.Rename(gone, root+"/kept")
	var ce *CorruptError
	_, err := w.ReadAt(ctxOf(t), "s/0000", 0, make([]byte, pos))
	if !errors.As(err, &ce) || ce.Have != segs[3].base || ce.File != filepath.Join(dir, segs[2].name) {
		t.Fatalf("read over a gap: %v", err)
	}
	_, err = w.Log("s/0000")
	if !errors.As(err, &ce) || ce.File != filepath.Join(dir, segs[4].name) || ce.Want != segs[3].base || ce.Have != segs[4].base {
		t.Fatalf("open with a gap: %v", err)
	}
	os.Rename(root+"/kept", gone)
	l = openLog(t, w, "s/0000") // the lock was let go
	if l.Info().Length != pos {
		t.Fatalf("%+v", l.Info())
	}
	checkRange(t, w, "s/0000", 0, pos)
}

func TestRealBrokenMetaAndMark(t *testing.T) {
	garble := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	dir := root + "/s/0000"
	w := openDir(t, root, Options{})
	l := openLog(t, w, "s/0000")
	mustAppend(t, l, 0, 100)
	inc := l.Info().Incarnation
	l.Close()

	for _, b := range [][]byte{{}, {1, 2, 3}, make([]byte, markSize), make([]byte, 5000)} {
		garble(dir+"/length", b)
		r := openDir(t, root, Options{})
		if _, err := r.Stat(ctxOf(t), "s/0000"); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("mark of %d bytes: %v", len(b), err)
		}
		l = openLog(t, w, "s/0000")
		if i := l.Info(); i.Length != 100 || i.Incarnation != inc {
			t.Fatalf("%+v", i)
		}
		checkRange(t, r, "s/0000", 0, 100)
		l.Close()
	}
	os.Remove(dir + "/length")
	if _, err := w.Stat(ctxOf(t), "s/0000"); !errors.Is(err, wire.ErrUnknownShard) {
		t.Fatalf("without a mark: %v", err)
	}
	openLog(t, w, "s/0000").Close()
	checkRange(t, w, "s/0000", 0, 100)

	garble(dir+"/shard", []byte("who knows"))
	if _, err := w.Log("s/0000"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir+"/shard") {
		t.Fatalf("garbled identity: %v", err)
	}
	garble(dir+"/shard", []byte("rmatail shard 3\n"))
	if _, err := w.Log("s/0000"); !errors.Is(err, ErrVersion) {
		t.Fatalf("identity of the future: %v", err)
	}
	os.Remove(dir + "/shard")
	l = openLog(t, w, "s/0000")
	if i := l.Info(); i.Length != 100 || i.Incarnation != inc {
		t.Fatalf("%+v", i)
	}
	l.Close()
	os.Remove(dir + "/shard")
	os.Remove(dir + "/length")
	l = openLog(t, w, "s/0000")
	if i := l.Info(); i.Length != 100 || i.Incarnation == inc {
		t.Fatalf("%+v", i)
	}
	if b, err := os.ReadFile(dir + "/shard"); err != nil || string(b) != string(encodeMeta(l.Info().Incarnation)) {
		t.Fatalf("%q, %v", b, err)
	}
}

// A reader in another boot sees only what was flushed, until a writer has
// recovered the shard.
func TestRealReaderAfterReboot(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{Policy: Never})
	l := openLog(t, w, "s/0000")
	pos := mustAppend(t, l, 0, 10)
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	pos = mustAppend(t, l, pos, 5)
	checkRange(t, w, "s/0000", 0, pos)
	r := openDir(t, root, Options{})
	r.boot++
	checkRange(t, r, "s/0000", 0, 10)
	before, _ := r.Stat(ctxOf(t), "s/0000")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	checkRange(t, r, "s/0000", 0, pos)
	if after, _ := r.Stat(ctxOf(t), "s/0000"); after.Incarnation != before.Incarnation {
		t.Fatal("a clean close renewed the shard")
	}
}

func TestRealOpenFilesAreBounded(t *testing.T) {
	const limit, shards = 4, 6
	root := t.TempDir()
	w := openDir(t, root, Options{SegmentBytes: 64})
	r := openDir(t, root, Options{OpenFiles: limit})
	var pos uint64
	for i := range shards {
		l := openLog(t, w, fmt.Sprintf("s/%d", i))
		pos = 0
		for range 10 {
			pos = mustAppend(t, l, pos, 50)
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			p := make([]byte, 120)
			for i := range 200 {
				at := uint64(i*37+g*11) % pos
				shard := fmt.Sprintf("s/%04d", (i+g)%shards)
				n, err := r.ReadAt(ctxOf(t), shard, at, p)
				if err == nil && n != int(min(120, pos-at)) {
					err = fmt.Errorf("%d bytes at %d", n, at)
				}
				if err = errors.Join(err, checkBytes(p[:n], at)); err != nil {
					t.Errorf("%s: %v", shard, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := r.fds.mu.lru.Len(); n > limit || n != len(r.fds.mu.byKey) {
		t.Fatalf("%d files kept (%d by key), limit %d", n, len(r.fds.mu.byKey), limit)
	}
}

func TestRealIdleFilesAreClosed(t *testing.T) {
	root := t.TempDir()
	w := openDir(t, root, Options{})
	w.fds.idle = 5 * time.Millisecond
	mustAppend(t, openLog(t, w, "s/0000"), 0, 10)
	checkRange(t, w, "s/0000", 0, 10)
	eventually(t, func() bool {
		w.fds.mu.Lock()
		defer w.fds.mu.Unlock()
		return w.fds.mu.lru.Len() == 0 && w.fds.mu.timer == nil
	})
	checkRange(t, w, "s/0000", 0, 10)
}

func TestRealList(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root, Options{})
	if got, err := d.List(ctxOf(t), "", 0); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	names := []string{"a/0000", "a/0001", "a/10000", "a/9999", "a.b/0000", "a-b/0007", "a0/0000", "B/0002", "z/4294967295"}
	for i, n := range names {
		l := openLog(t, d, n)
		mustAppend(t, l, 0, i+1)
		if n == "B/0002" {
			if err := l.Seal(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range []string{"a/001", "a/00000", "a/x", ".git/0000", "a/0002" /* being made */, "empty"} {
		os.MkdirAll(filepath.Join(root, n), 0o755)
	}
	os.WriteFile(root+"/file", nil, 0o644)
	os.WriteFile(root+"/a/0003", nil, 0o644)
	sizes := map[string]uint64{}
	for i, n := range names {
		sizes[n] = uint64(i + 1)
	}
	slices.Sort(names)
	for limit := range 12 {
		var got []string
		for after := ""; ; {
			page, err := d.List(ctxOf(t), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.Shard)
				if e.Length != sizes[e.Shard] || e.Sealed != (e.Shard == "B/0002") || e.Incarnation == 0 {
					t.Fatalf("%+v", e)
				}
			}
			if limit == 0 || len(page) < limit {
				break
			}
			after = page[len(page)-1].Shard
		}
		if !slices.Equal(got, names) {
			t.Fatalf("limit %d: %q, want %q", limit, got, names)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	d := openDir(b, b.TempDir(), Options{Policy: Never})
	l := openLog(b, d, "s/0000")
	for range 64 {
		mustAppend(b, l, l.Info().Length, MaxAppend)
	}
	eventually(b, func() bool { // the directory has been left alone for long enough
		_, err := d.Stat(ctxOf(b), "s/0000")
		return err == nil && d.mu.views["s/0000"].mu.settled
	})
	ctx := ctxOf(b)
	b.Run("stat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Stat(ctx, "s/0000"); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, size := range []int{4096, 1 << 20} {
		b.Run(fmt.Sprintf("readat/size=%d", size), func(b *testing.B) {
			p := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var pos uint64
			for b.Loop() {
				if n, err := d.ReadAt(ctx, "s/0000", pos, p); err != nil || n != size {
					b.Fatal(n, err)
				}
				pos = (pos + uint64(size)) % (63 << 20)
			}
		})
	}
}
