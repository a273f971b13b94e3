package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// smallDisk mounts a file system of 1 MiB, which takes the right to mount.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Logf("no tmpfs of 1 MiB (%v): run as root to fill a real disk; TestFullDiskKeepsTheShardOpen has the same with a log that fails", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
	return dir, true
}

func TestRealFullDisk(t *testing.T) {
	for _, policy := range []durable.Policy{durable.Always, durable.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			dir, ok := smallDisk(t)
			if !ok {
				TestFullDiskKeepsTheShardOpen(t)
				return
			}
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, 400<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, func(c *Config) { c.Dir, c.Durable.Policy = dir, policy })
			c := dial(t, s)
			store := durable.NewRemote(c)
			length := uint64(0)
			for {
				_, end, err := store.Append(t.Context(), shardA.String(), length, pattern(length, 10_000))
				if err != nil {
					if !errors.Is(err, wire.ErrFull) {
						t.Fatalf("append to a full disk at %d: %v", length, err)
					}
					break
				}
				if length = end; length > 2<<20 {
					t.Fatal("the disk does not get full")
				}
			}
			if _, _, err := store.Append(t.Context(), shardA.String(), length, pattern(length, 10_000)); !errors.Is(err, wire.ErrFull) {
				t.Errorf("a second append to a full disk: %v", err)
			}
			check := func() {
				t.Helper()
				info, err := store.Stat(t.Context(), shardA.String())
				if err != nil || info.Length != length {
					t.Fatalf("length %d, acknowledged %d, %v", info.Length, length, err)
				}
				overTCP(t, c).check(t, shardA, info.Incarnation, length)
				got := make([]byte, length)
				if _, err := store.ReadAt(t.Context(), shardA.String(), 0, got); err != nil || !bytes.Equal(got, pattern(0, len(got))) {
					t.Fatalf("durable bytes: %v", err)
				}
			}
			check()
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			appendPattern(t, store, shardA, length, length+50_000)
			full := length
			length += 50_000
			check()
			t.Logf("full at %d bytes, %d after space was freed", full, length)
		})
	}
}

func TestRealReadOnlyStore(t *testing.T) {
	cfg := testConfig(t)
	dir, err := durable.Open(cfg.Dir, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := dir.Log("a/0000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), 0, []byte("there")); err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Durable.ReadOnly = true
	s := serveParts(t, cfg, realParts())
	store := durable.NewRemote(dial(t, s))
	if _, _, err := store.Append(t.Context(), "a/0000", wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrReadOnly) {
		t.Errorf("append to a read-only store: %v", err)
	}
	got := make([]byte, 5)
	if n, err := store.ReadAt(t.Context(), "a/0000", 0, got); n != 5 || err != nil || string(got) != "there" {
		t.Errorf("read of a read-only store: %q, %v", got, err)
	}
}
