package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rmatail/rmatail/fallback/wire"
)

// TestRealOneOwner: a second node on the directory is refused by name, until the
// first one closes; shards stay free for others, and the lock is no stream.
func TestRealOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "by", "own")
	open := func() *Dir {
		d, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	first, second := open(), open()
	if err := first.Own(); err != nil {
		t.Fatal(err)
	}
	if err := second.Own(); !errors.Is(err, wire.ErrLocked) {
		t.Fatalf("a second owner: %v", err)
	}
	log, err := second.Log("beside/0")
	if err != nil {
		t.Fatalf("a shard beside the owner: %v", err)
	}
	if _, err := log.Append(t.Context(), 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if all, err := first.List(t.Context(), "", 10); err != nil || len(all) != 1 {
		t.Fatalf("shards %v, %v", all, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Own(); err != nil {
		t.Fatalf("after the owner closed: %v", err)
	}
}

// TestRealOwnNeedsADirectoryThatCanBeWritten, and says which it is.
func TestRealOwnNeedsADirectoryThatCanBeWritten(t *testing.T) {
	d, err := Open("/proc/no-store", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Own(); err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, wire.ErrReadOnly) {
		t.Fatalf("got %v", err)
	}
}
