package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestRealAppendAndRead(t *testing.T) {
	d := openDir(t, t.TempDir()+"/not/there/yet", Options{SegmentBytes: 1000})
	l := openLog(t, d, "logs/0001")
	var pos uint64
	for n := 1; n <= 300; n += 7 {
		pos = mustAppend(t, l, pos, n)
		if i := l.Info(); i.Length != pos {
			t.Fatalf("length %d after an append that ended at %d", i.Length, pos)
		}
	}
	checkRange(t, d, "logs/0001", 0, pos)
	_, err := l.Append(ctxOf(t), pos-1, []byte("x"))
	var we *wire.Error
	if !errors.Is(err, wire.ErrOffset) || !errors.As(err, &we) || we.Arg0 != pos || we.Arg1 != pos-1 {
		t.Fatalf("append at a wrong offset: %v", err)
	}
	inc := l.Info().Incarnation
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, d, "logs/1")
	if i := l.Info(); i.Length != pos || i.Incarnation != inc || i.First != 0 || i.Sealed {
		t.Fatalf("reopened: %+v, want length %d, incarnation %d", i, pos, inc)
	}
	pos = mustAppend(t, l, pos, 5)
	checkRange(t, d, "logs/0001", 0, pos)
}

func TestRealAppendLimits(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{SegmentBytes: 1000})
	l := openLog(t, d, "s/0000")
	if end, err := l.Append(ctxOf(t), 0, nil); end != 0 || err != nil {
		t.Fatal(end, err)
	}
	pos := mustAppend(t, l, 0, MaxAppend)
	if end, err := l.Append(ctxOf(t), NoOffset, nil); end != pos || err != nil {
		t.Fatal(end, err)
	}
	if _, err := l.Append(ctxOf(t), 7, nil); !errors.Is(err, wire.ErrOffset) {
		t.Fatal(err)
	}
	if _, err := l.Append(ctxOf(t), pos, make([]byte, MaxAppend+1)); !errors.Is(err, wire.ErrTooLarge) {
		t.Fatal(err)
	}
	pos = mustAppend(t, l, pos, 1)
	checkRange(t, d, "s/0000", 0, pos)
	if n := len(segmentsOf(t, filepath.Join(d.path, "s/0000"))); n != 2 {
		t.Fatalf("%d segments, want the large append in one of its own", n)
	}
}

func TestRealRollOver(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC).UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	d := openDir(t, t.TempDir(), Options{SegmentAge: time.Minute, SegmentBytes: 100, Clock: clock})
	dir := filepath.Join(d.path, "s/0000")
	l := openLog(t, d, "s/0000")
	names := func(want ...string) {
		t.Helper()
		segs := segmentsOf(t, dir)
		for i, s := range segs {
			if i >= len(want) || s.name != want[i] {
				t.Fatalf("segments %+v, want %q", segs, want)
			}
		}
		if len(segs) != len(want) {
			t.Fatalf("segments %+v, want %q", segs, want)
		}
	}
	names()
	mustAppend(t, l, 0, 10)
	const first = "20261130T150000.000000000Z-00000000000000000000.log"
	names(first)
	now.Add(int64(time.Minute) - 1)
	mustAppend(t, l, 10, 10)
	names(first)
	now.Add(1)
	mustAppend(t, l, 20, 10) // old enough
	const second = "20261130T150100.000000000Z-00000000000000000020.log"
	names(first, second)
	now.Add(-int64(time.Hour)) // the clock steps back: the name does not
	mustAppend(t, l, 30, 90)   // the first one that fits
	names(first, second)
	mustAppend(t, l, 120, 1) // the first that does not
	const third = "20261130T150100.000000000Z-00000000000000000120.log"
	names(first, second, third)
	l.Close()
	l = openLog(t, d, "s/0000")
	mustAppend(t, l, 121, 100)
	names(first, second, third, "20261130T150100.000000000Z-00000000000000000121.log")
	checkRange(t, d, "s/0000", 0, 221)
	if got := l.Stats().Rolls; got != 1 {
		t.Fatalf("%d roll-overs", got)
	}
}

func TestRealSeal(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{Policy: Never})
	l := openLog(t, d, "s/0000")
	pos := mustAppend(t, l, 0, 10)
	refused := func() {
		t.Helper()
		_, err := l.Append(ctxOf(t), pos, []byte("x"))
		if !errors.Is(err, ErrSealed) || !errors.Is(err, wire.ErrReadOnly) {
			t.Fatalf("append to a sealed shard: %v", err)
		}
		i, err := d.Stat(ctxOf(t), "s/0000")
		if err != nil || !i.Sealed || i.Length != pos || i != l.Info() {
			t.Fatalf("%+v, %+v, %v", i, l.Info(), err)
		}
	}
	for range 2 {
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		refused()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, d, "s/0000")
	refused()
	l.Close()
	if err := l.Seal(); !errors.Is(err, wire.ErrClosing) {
		t.Fatalf("seal of a closed log: %v", err)
	}
}

func TestRealOneWriter(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root, Options{})
	l := openLog(t, d, "s/0000")
	for _, other := range []*Dir{d, openDir(t, root, Options{})} {
		if _, err := other.Log("s/0"); !errors.Is(err, wire.ErrLocked) {
			t.Fatalf("second writer: %v", err)
		}
	}
	l.Close()
	openLog(t, d, "s/0000").Close()
	if _, err := openDir(t, root, Options{ReadOnly: true}).Log("s/0000"); !errors.Is(err, wire.ErrReadOnly) {
		t.Fatal(err)
	}
	if _, err := Open(root+"/not", Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := Open(root+"/s/0000/shard", Options{}); err == nil {
		t.Fatal("a file is no store")
	}
}

func TestRealClose(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{})
	l := openLog(t, d, "s/0000")
	mustAppend(t, l, 0, 10)
	if err := errors.Join(d.Close(), d.Close(), l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	_, err1 := l.Append(ctxOf(t), 10, []byte("x"))
	_, err2 := d.Stat(ctxOf(t), "s/0000")
	_, err3 := d.Log("s/0001")
	for _, err := range []error{err1, err2, err3, l.Flush(ctxOf(t))} {
		if !errors.Is(err, wire.ErrClosing) {
			t.Errorf("after close: %v", err)
		}
	}
}

func TestRealShardRemovedUnderTheWriter(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{})
	l := openLog(t, d, "s/0000")
	mustAppend(t, l, 0, 10)
	os.Remove(d.path + "/s/0000/length")
	if _, err := l.Append(ctxOf(t), 10, []byte("x")); !errors.Is(err, ErrFailed) {
		t.Fatalf("append without a mark: %v", err)
	}
	l.Close()
	l = openLog(t, d, "s/0000")
	mustAppend(t, l, 10, 10)
	os.RemoveAll(d.path + "/s")
	if _, err := l.Append(ctxOf(t), 20, []byte("x")); !errors.Is(err, ErrFailed) {
		t.Fatalf("append without a directory: %v", err)
	}
}

// Interval: readable at once, flushed soon, without another append.
func TestRealInterval(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{Policy: Interval, Interval: 2 * time.Millisecond})
	l := openLog(t, d, "s/0000")
	pos := mustAppend(t, l, 0, 10)
	checkRange(t, d, "s/0000", 0, pos)
	other := openDir(t, d.path, Options{})
	other.boot++ // sees what is flushed only
	eventually(t, func() bool {
		i, err := other.Stat(ctxOf(t), "s/0000")
		return err == nil && i.Length == pos
	})
	for l.Stats().Flushes < 4 { // under load too
		pos = mustAppend(t, l, pos, 10)
	}
	if s := l.Stats(); s.Flushes > s.Appends/2 {
		t.Fatalf("%+v: more than a flush every interval", s)
	}
}

// record is content that carries its own length and number.
func record(g, i int) []byte {
	p := make([]byte, 12+(g*7+i*13)%90)
	binary.LittleEndian.PutUint32(p, uint32(len(p)))
	binary.LittleEndian.PutUint32(p[4:], uint32(g))
	binary.LittleEndian.PutUint32(p[8:], uint32(i))
	for j := 12; j < len(p); j++ {
		p[j] = byte(g + i + j)
	}
	return p
}

func TestRealConcurrentAppends(t *testing.T) {
	for _, policy := range []Policy{Always, Interval, Never} {
		t.Run(policy.String(), func(t *testing.T) {
			const writers, each = 64, 40
			d := openDir(t, t.TempDir(), Options{Policy: policy, SegmentBytes: 5000, Interval: time.Millisecond})
			l := openLog(t, d, "s/0000")
			ends := make([][each]uint64, writers)
			var wg sync.WaitGroup
			for g := range writers {
				wg.Go(func() {
					for i := range each {
						p := record(g, i)
						end, err := l.Append(ctxOf(t), NoOffset, p)
						clear(p) // it was ours again
						if err != nil {
							t.Error(err)
							return
						}
						ends[g][i] = end
						if i, err := d.Stat(ctxOf(t), "s/0000"); err != nil || i.Length < end {
							t.Errorf("appended up to %d, but %+v, %v", end, i, err)
						}
					}
				})
			}
			wg.Wait()
			s := l.Stats()
			t.Logf("%d appends, %d groups, %d flushes, %d segments", s.Appends, s.Groups, s.Flushes, s.Rolls)
			if s.Appends != writers*each {
				t.Fatalf("%+v", s)
			}
			if policy == Always && s.Flushes*2 > s.Appends {
				t.Errorf("%d flushes for %d appends by %d writers", s.Flushes, s.Appends, writers)
			}
			checkRecords(t, d, "s/0000", ends[:])
		})
	}
}

// checkRecords checks that every record is there once, whole, where its Append
// said, and that none crosses a segment's end.
func checkRecords[T interface{ ~[40]uint64 }](t *testing.T, d *Dir, shard string, ends []T) {
	t.Helper()
	var b []byte
	seen := 0
	for _, s := range segmentsOf(t, filepath.Join(d.path, shard)) {
		c, err := os.ReadFile(filepath.Join(d.path, shard, s.name))
		if err != nil || uint64(len(b)) != s.base {
			t.Fatal(s, err)
		}
		for at := 0; at < len(c); {
			n := int(binary.LittleEndian.Uint32(c[at:]))
			g, i := int(binary.LittleEndian.Uint32(c[at+4:])), int(binary.LittleEndian.Uint32(c[at+8:]))
			if at+n > len(c) || string(c[at:at+n]) != string(record(g, i)) {
				t.Fatalf("record at %d of %s", at, s.name)
			}
			if end := s.base + uint64(at+n); [40]uint64(ends[g])[i] != end {
				t.Fatalf("record %d of writer %d ends at %d, its append said %d", i, g, end, [40]uint64(ends[g])[i])
			}
			at, seen = at+n, seen+1
		}
		b = append(b, c...)
	}
	if seen != len(ends)*40 {
		t.Fatalf("%d records", seen)
	}
	p := make([]byte, len(b)+1)
	if n, err := d.ReadAt(ctxOf(t), shard, 0, p); err != nil || string(p[:n]) != string(b) {
		t.Fatalf("read %d of %d, %v", n, len(b), err)
	}
}

func TestRealAllocations(t *testing.T) {
	d := openDir(t, t.TempDir(), Options{Policy: Never})
	l := openLog(t, d, "s/0000")
	p, ctx := make([]byte, 200), ctxOf(t)
	got := testing.AllocsPerRun(2000, func() {
		if _, err := l.Append(ctx, NoOffset, p); err != nil {
			t.Fatal(err)
		}
	})
	if got >= 1 {
		t.Errorf("%v allocations an append", got)
	}
	eventually(t, func() bool { // until the listing has settled
		got = testing.AllocsPerRun(200, func() {
			if _, err := d.Stat(ctx, "s/0000"); err != nil {
				t.Fatal(err)
			}
		})
		return got <= 2
	})
	got = testing.AllocsPerRun(200, func() {
		if _, err := d.ReadAt(ctx, "s/0000", 100, p); err != nil {
			t.Fatal(err)
		}
	})
	if got > 3 {
		t.Errorf("%v allocations a read", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, policy := range []Policy{Always, Interval, Never} {
		for _, size := range []int{200, 64 << 10} {
			for _, writers := range []int{1, 64} {
				b.Run(fmt.Sprintf("policy=%v/size=%d/writers=%d", policy, size, writers), func(b *testing.B) {
					d := openDir(b, b.TempDir(), Options{Policy: policy})
					l := openLog(b, d, "s/0000")
					b.SetBytes(int64(size))
					b.ReportAllocs()
					benchAppend(b, l, size, writers)
					s := l.Stats()
					b.ReportMetric(float64(s.Appends)/float64(max(1, s.Flushes)), "appends/flush")
				})
			}
		}
	}
}

// benchAppend makes every loop one append of one of the writers.
func benchAppend(b *testing.B, l *Log, size, writers int) {
	ctx := ctxOf(b)
	work := make(chan struct{}, writers)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			p := make([]byte, size)
			for range work {
				if _, err := l.Append(ctx, NoOffset, p); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}
