package chunkstore

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"golang.org/x/sys/unix"
)

// Nobody who is handed the file can write the arena or change its size.
func TestRealSeals(t *testing.T) {
	a := newArena(t, Config{})
	f, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	fd := int(f.Fd())
	size := len(a.Bytes())

	if m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("a second writable mapping: %v", err)
		unix.Munmap(m)
	}
	m, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("mprotect of the readable mapping: %v", err)
	}
	for name, err := range map[string]error{
		"write":      func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err }(),
		"shrink":     unix.Ftruncate(fd, 4096),
		"grow":       unix.Ftruncate(fd, int64(size)+SpareSize+4096),
		"punch hole": unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096),
		"more seals": func() error { _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); return err }(),
	} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}

	// The node still writes, and the other mapping shows it.
	look, err := newConsumer(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put(put(testShard, 2, []byte("through the seals"), 0, 17)); err != nil {
		t.Fatal(err)
	}
	if got := look.chunk(testShard, 2); string(got) != "through the seals" {
		t.Errorf("%q", got)
	}
}

// A consumer's mapping outlives the arena.
func TestRealMappingOutlivesArena(t *testing.T) {
	a, err := New(Config{Bytes: oneSet})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := a.File()
	m, err := unix.Mmap(int(f.Fd()), 0, len(a.Bytes()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	want := bytes.Clone(a.Bytes()[:layout.HeaderSize])
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m[:layout.HeaderSize], want) {
		t.Error("the header is gone")
	}
}

// All pages are there from the start, so that no put waits for one.
func TestRealPopulated(t *testing.T) {
	a := newArena(t, Config{Bytes: 8 << 20})
	resident := make([]byte, (len(a.Bytes())+4095)/4096)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&a.Bytes()[0])), uintptr(len(a.Bytes())), uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for i, r := range resident {
		if r&1 == 0 {
			t.Fatalf("page %d of %d is not resident", i, len(resident))
		}
	}
}

// withoutMemlock runs f on a thread that may lock 64 KiB only.
func withoutMemlock(t *testing.T, f func()) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread dies with its lesser rights
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		err := unix.Capget(&head, &caps[0])
		if err == nil {
			caps[0].Effective &^= 1 << unix.CAP_IPC_LOCK
			err = unix.Capset(&head, &caps[0])
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestRealMemlockLimit(t *testing.T) {
	withoutMemlock(t, func() {
		a, err := New(Config{Bytes: oneSet, MLock: MLockOn})
		if !errors.Is(err, ErrMemlock) || !(errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EPERM)) {
			t.Errorf("%v, %v", a, err)
			return
		}
		for _, word := range []string{"RLIMIT_MEMLOCK is 65536 bytes", "1134592 bytes are needed", "ulimit -l", "LimitMEMLOCK=", "CAP_IPC_LOCK"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
		b, err := New(Config{Bytes: oneSet})
		if err != nil {
			t.Error(err)
			return
		}
		b.Close()
	})
}

func TestRealMlock(t *testing.T) {
	a, err := New(Config{Bytes: oneSet, MLock: MLockOn})
	if err != nil {
		t.Fatalf("%v (the usual limit of 8 MiB is enough for this test)", err)
	}
	defer a.Close()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "VmLck:\t    1108 kB") {
		t.Errorf("not locked: %s", status)
	}
}

// Huge pages are a matter of the host: both answers are checked, whichever it gives.
func TestRealHugePages(t *testing.T) {
	a, err := New(Config{Bytes: oneSet, HugePages: HugePagesOn})
	if err != nil {
		t.Logf("this host has none reserved: %v", err)
		if !errors.Is(err, ErrHugePages) || !strings.Contains(err.Error(), "turn huge pages off") {
			t.Errorf("%v", err)
		}
		return
	}
	defer a.Close()
	f, _ := a.File()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(a.Bytes())) != a.Geometry().Size() || st.Size() <= int64(len(a.Bytes())) || st.Size()%(2<<20) != 0 {
		t.Errorf("arena of %d bytes in a file of %d", len(a.Bytes()), st.Size())
	}
	look, _ := newConsumer(a.Bytes())
	if err := a.Put(put(testShard, 2, []byte("huge"), 0, 4)); err != nil {
		t.Fatal(err)
	}
	if got := look.chunk(testShard, 2); string(got) != "huge" {
		t.Errorf("%q", got)
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("a second writable mapping: %v", err)
	}
}

// New and Close leave no descriptor and no mapping behind, also when New fails late.
func TestRealNothingLeaks(t *testing.T) {
	count := func() (fds, maps int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), strings.Count(string(text), "rmatail-arena")
	}
	fds, maps := count()
	for range 50 {
		a, err := New(Config{Bytes: oneSet})
		if err != nil {
			t.Fatal(err)
		}
		a.Evict(time.Now())
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	withoutMemlock(t, func() {
		for range 50 {
			if a, err := New(Config{Bytes: oneSet, MLock: MLockOn}); err == nil {
				t.Error("locked")
				a.Close()
			}
		}
	})
	if f, m := count(); f > fds || m != maps {
		t.Errorf("%d descriptors (before: %d), %d mappings (before: %d)", f, fds, m, maps)
	}
}
