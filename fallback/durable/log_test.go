package durable

import (
	"errors"
	"testing"

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
