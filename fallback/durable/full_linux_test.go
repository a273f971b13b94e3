package durable

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRealFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs root to mount a small tmpfs (%v); TestFullDiskTakesTheAppendBack and TestRealFileSizeLimit say what they can", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := dir + "/ballast"
	if err := os.WriteFile(ballast, bytes.Repeat([]byte{1}, 400<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, dir, Options{SegmentBytes: 100 << 10})
	l := openLog(t, d, roleShard)
	for _, n := range []int{30000, 7000, 900, 1} {
		if _, err := appendUntilFull(l, n); err != nil {
			t.Fatal(err)
		}
	}
	full := l.Info().Length
	if full < 500<<10 || full > 650<<10 {
		t.Fatalf("full at %d", full)
	}
	checkRange(t, d, roleShard, 0, full)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, d, roleShard) // needs no space
	if got := l.Info().Length; got != full {
		t.Fatalf("length %d, want %d", got, full)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	pos := mustAppend(t, l, full, 200<<10)
	checkRange(t, d, roleShard, 0, pos)
	t.Logf("full at %d, then up to %d", full, pos)
}
