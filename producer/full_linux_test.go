package producer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
		if s := a.Stats(); s.QueueBytes <= 32<<10 || s.Blocked < producers { // they are let in by halves
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
	if _, err := store.Log(shard.String()); !errors.Is(err, wire.ErrReadOnly) || !strings.Contains(err.Error(), "check the mount and the owner") {
		t.Errorf("a shard on a read-only file system: %v", err)
	}
}

// readOnly makes a directory read-only for what is opened from now on; what is open
// already can be written on, as after a remount by hand.
func readOnly(t *testing.T, dir string) (undo func()) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no bind mount (%v): run as root; TestReadOnlyDisk of package durable has the same with a file system that fails", err)
	}
	undo = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error("unmount:", err)
		}
	})
	t.Cleanup(undo)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return undo
}

// A directory turns read-only under producers: from the next roll-over on their Acks
// tell so, nobody hangs, nothing piles up, and work goes on once it can be written
// again.
func TestRealDirectoryTurnsReadOnly(t *testing.T) {
	dir := t.TempDir()
	store, err := durable.Open(dir, durable.Options{SegmentBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log, err := store.Log(shard.String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := producer.Open(t.Context(), producer.Config{
		Shard: shard, Log: log, WaitForSpace: time.Minute, Limits: producer.Limits{QueueBytes: 64 << 10, BatchBytes: 4 << 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	defer a.Close(ctx)
	record := bytes.Repeat([]byte{'r'}, 1000)
	put := func() error {
		k, err := a.Append(ctx, record)
		if err == nil {
			_, err = k.Wait(ctx)
		}
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	undo := readOnly(t, filepath.Join(dir, filepath.FromSlash(shard.String())))
	acked, refused := 1, 0
	for range 100 {
		switch err := put(); {
		case err == nil:
			acked++
		case errors.Is(err, wire.ErrReadOnly) && strings.Contains(err.Error(), "check the mount and the owner"):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if acked > 8 || refused < 92 {
		t.Errorf("%d records of 1,000 bytes went into a segment of 8 KiB, %d were refused", acked, refused)
	}
	undo()
	for range 20 {
		if err := put(); err != nil {
			t.Fatalf("after the directory can be written again: %v", err)
		}
		acked++
	}
	if s := a.Stats(); s.QueueBytesMax > 64<<10 || int(s.Records) != acked || int(s.Failed) != refused {
		t.Errorf("%+v; %d were acknowledged, %d refused", s, acked, refused)
	}
	if n, err := store.ReadAt(ctx, shard.String(), 0, make([]byte, 1000*acked+1)); n != 1000*acked || err != nil {
		t.Errorf("%d bytes are there, want %d: %v", n, 1000*acked, err)
	}
}
