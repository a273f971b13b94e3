package durable

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRealLockIsGivenUpWhileAChildStarts: a descriptor that a fork has copied and
// no exec has closed yet does not keep the lock.
func TestRealLockIsGivenUpWhileAChildStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockName)
	held, err := osFS{}.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (osFS{}).Lock(path); err == nil {
		t.Fatal("the lock was taken twice")
	}
	raw, err := held.(heldLock).f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var copied int
	if err := raw.Control(func(fd uintptr) { copied, err = unix.Dup(int(fd)) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := osFS{}.Lock(path)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	again.Close()
}
