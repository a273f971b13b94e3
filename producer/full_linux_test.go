package producer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// smallDisk mounts a file system of 1 MiB, which takes the right to mount.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no tmpfs of 1 MiB (%v): run as root to fill a real disk; TestFullDiskThenSpace has the same with a log that fails", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
	return dir
}

// Producers meet a full disk, wait for space, and go on when there is some: nothing
// is lost, nothing is there twice, and the queue stays within its bounds.
func TestRealFullDiskIsWaitedFor(t *testing.T) {
	dir := smallDisk(t)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 800<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := durable.Open(filepath.Join(dir, "store"), durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log, err := store.Log(shard.String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := producer.Open(t.Context(), producer.Config{
		Shard: shard, Log: log, WaitForSpace: time.Minute, Limits: producer.Limits{QueueBytes: 64 << 10, BatchBytes: 16 << 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const producers, each, size = 8, 100, 1000 // 800 kB, for which there is no room
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			for range each {
				if _, err := a.Append(ctx, bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	eventually(t, "producers wait for room", func() error {
		if s := a.Stats(); s.QueueBytes < 63<<10 || s.Blocked < producers {
			return errors.New("not yet")
		}
		return nil
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, producers*each*size+1)
	n, err := store.ReadAt(ctx, shard.String(), 0, got)
	if err != nil || n != producers*each*size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	counts := map[byte]int{}
	for pos := 0; pos < n; pos += size {
		rec := got[pos : pos+size]
		if !bytes.Equal(rec, bytes.Repeat(rec[:1], size)) {
			t.Fatalf("a torn record at %d", pos)
		}
		counts[rec[0]]++
	}
	for i := range producers {
		if c := counts[byte('a'+i)]; c != each {
			t.Errorf("%d records of producer %d", c, i)
		}
	}
	if s := a.Stats(); s.Failed != 0 || s.QueueBytesMax > 64<<10 {
		t.Errorf("%d failed, %d bytes waited", s.Failed, s.QueueBytesMax)
	}
}

// A read-only directory refuses the shard, and says what to do.
func TestRealReadOnlyDirectory(t *testing.T) {
	dir := smallDisk(t)
	if err := unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	store, err := durable.Open(dir, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Log(shard.String()); !errors.Is(err, wire.ErrReadOnly) {
		t.Errorf("a shard on a read-only file system: %v", err)
	}
}
