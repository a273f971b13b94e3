package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

func TestExpired(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var segs []segment // one an hour, of 100 bytes each; the active one is an hour old
	for i := range 5 {
		base := uint64(100 * i)
		segs = append(segs, segment{name: segmentName(now.Add(time.Duration(i-5)*time.Hour), base), base: base})
	}
	for _, tc := range []struct {
		name  string
		age   time.Duration
		bytes int64
		want  int
	}{
		{"age: nothing is that old", 5 * time.Hour, 0, 0},
		{"age: the first one's last byte is 4 h old", 4*time.Hour - 1, 0, 1},
		{"age: not a moment too early", 4 * time.Hour, 0, 0},
		{"age: everything but the active one", time.Nanosecond, 0, 4},
		{"bytes: more than there are", 0, 500, 0},
		{"bytes: exactly without the first", 0, 300, 1},
		{"bytes: a part of a segment keeps all of it", 0, 301, 0},
		{"bytes: never the active one", 0, 1, 3},
		{"either removes", 3*time.Hour - 1, 300, 2},
	} {
		if got := expired(segs, Options{RetainAge: tc.age, RetainBytes: tc.bytes}, now); got != tc.want {
			t.Errorf("%s: %d segments, want %d", tc.name, got, tc.want)
		}
	}
	if got := expired(segs[:1], Options{RetainAge: 1, RetainBytes: 1}, now); got != 0 {
		t.Error("the only segment is removed")
	}
}

func TestRealRetention(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	w := openDir(t, root, Options{SegmentBytes: 100, RetainAge: time.Hour, RetainBytes: 500, Clock: func() time.Time { return now }})
	r := openDir(t, root, Options{})
	l := openLog(t, w, "s/0000")
	var pos uint64
	for range 50 {
		pos = mustAppend(t, l, pos, 20)
	}
	other := openLog(t, w, "s/0001")
	mustAppend(t, other, 0, 500)
	checkRange(t, r, "s/0000", 0, pos)

	retain := func(want Retained) {
		t.Helper()
		if got, err := w.Retain(ctxOf(t)); err != nil || got != want {
			t.Fatalf("%+v, want %+v, %v", got, want, err)
		}
	}
	retain(Retained{4, 400}) // the active one counts as empty
	retain(Retained{})
	if got := l.Info().First; got != 400 {
		t.Errorf("first of the open log is %d", got)
	}
	if i, err := r.Stat(ctxOf(t), "s/0000"); err != nil || i.First != 400 || i.Length != pos {
		t.Errorf("%+v, %v", i, err)
	}
	var gone *wire.Error
	if _, err := r.ReadAt(ctxOf(t), "s/0000", 399, make([]byte, 10)); !errors.As(err, &gone) || gone.Status != wire.StatusOutOfRetention || gone.Arg0 != 400 {
		t.Errorf("read of what is gone: %v", err)
	}
	checkRange(t, r, "s/0000", 400, pos)

	// Two hours later all but the active segments are too old, also of a shard that
	// nobody has open.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	retain(Retained{5, 500})
	l = openLog(t, w, "s/0000")
	if i := l.Info(); i.First != 900 || i.Length != pos {
		t.Errorf("opened again: %+v", i)
	}
	pos = mustAppend(t, l, pos, 20)
	retain(Retained{}) // the segment before ended just now
	now = now.Add(2 * time.Hour)
	retain(Retained{1, 100})
	checkRange(t, r, "s/0000", 1000, pos)
	checkRange(t, r, "s/0001", 0, 500)
}

func TestRealRetentionRefused(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root, Options{})
	if got, err := d.Retain(t.Context()); err != nil || got != (Retained{}) {
		t.Errorf("without options: %+v, %v", got, err)
	}
	d = openDir(t, root, Options{ReadOnly: true, RetainBytes: 1})
	if _, err := d.Retain(t.Context()); !errors.Is(err, wire.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	for _, o := range []Options{{RetainAge: -1}, {RetainBytes: -1}} {
		if _, err := Open(root, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	// A shard whose segments contradict each other does not keep others from it.
	d = openDir(t, root, Options{SegmentBytes: 10, RetainBytes: 1})
	for _, shard := range []string{"a/0000", "b/0000"} {
		l := openLog(t, d, shard)
		var pos uint64
		for range 5 {
			pos = mustAppend(t, l, pos, 10)
		}
	}
	bad := filepath.Join(root, "a", "0000", segmentName(time.Now().Add(time.Hour), 5))
	if err := os.WriteFile(bad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Retain(t.Context()); !errors.Is(err, ErrCorrupt) || got != (Retained{3, 30}) {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Retain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
