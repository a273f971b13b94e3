package durable

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// fill writes the bytes that belong at pos: any slice of a shard can be checked
// by its position alone.
func fill(p []byte, pos uint64) {
	for len(p) > 0 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], wordAt(pos>>3))
		n := copy(p, w[pos&7:])
		p, pos = p[n:], pos+uint64(n)
	}
}

func wordAt(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func bytesAt(pos uint64, n int) []byte {
	p := make([]byte, n)
	fill(p, pos)
	return p
}

// checkBytes reports the first byte that does not belong at its position.
func checkBytes(p []byte, pos uint64) error {
	want := bytesAt(pos, len(p))
	if bytes.Equal(p, want) {
		return nil
	}
	for i := range p {
		if p[i] != want[i] {
			return fmt.Errorf("byte at %d is %#02x, want %#02x", pos+uint64(i), p[i], want[i])
		}
	}
	return nil
}

func openDir(t testing.TB, path string, o Options) *Dir {
	t.Helper()
	d, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func openLog(t testing.TB, d *Dir, shard string) *Log {
	t.Helper()
	l, err := d.Log(shard)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ctxOf ends with the test, and long before the test binary's own deadline.
func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustAppend(t testing.TB, l *Log, pos uint64, n int) uint64 {
	t.Helper()
	end, err := l.Append(ctxOf(t), pos, bytesAt(pos, n))
	if err != nil {
		t.Fatal(err)
	}
	if end != pos+uint64(n) {
		t.Fatalf("append of %d at %d ended at %d", n, pos, end)
	}
	return end
}

// checkRange reads [from, to) in one call and checks every byte.
func checkRange(t testing.TB, d *Dir, shard string, from, to uint64) {
	t.Helper()
	p := make([]byte, to-from+1)
	n, err := d.ReadAt(ctxOf(t), shard, from, p)
	if err != nil {
		t.Fatal(err)
	}
	if uint64(n) != to-from {
		t.Fatalf("read %d bytes at %d, want %d", n, from, to-from)
	}
	if err := checkBytes(p[:n], from); err != nil {
		t.Fatal(err)
	}
}
