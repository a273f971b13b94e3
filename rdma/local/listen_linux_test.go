package local

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaveStale puts a socket file at a path that nobody listens behind.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func TestRealStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	leaveStale(t, path)
	s, err := Listen(path, testFile(t, allSeals), arenaSize, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	readRight(t, dial(t, path), 10)
}

func TestRealPathInUse(t *testing.T) {
	_, path := testServer(t, ListenConfig{})
	if s, err := Listen(path, testFile(t, allSeals), arenaSize, testEpoch); !errors.Is(err, ErrInUse) {
		t.Errorf("a server listens: %v, %v", s, err)
	}
	readRight(t, dial(t, path), 10)

	file := socketPath(t)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Listen(file, testFile(t, allSeals), arenaSize, testEpoch); !errors.Is(err, ErrInUse) {
		t.Errorf("a file is there: %v, %v", s, err)
	}
	if b, err := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}

	full := socketPath(t) // a server whose queue is full listens nonetheless
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: full}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	first, err := net.Dial("unix", full)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if s, err := Listen(full, testFile(t, allSeals), arenaSize, testEpoch); !errors.Is(err, ErrInUse) {
		t.Errorf("a full queue: %v, %v", s, err)
	}
	if _, err := (Dialer{Timeout: 300 * time.Millisecond}).Dial(t.Context(), full, testEpoch); !errors.Is(err, ErrBusy) {
		t.Errorf("dial to a full queue: %v", err)
	}
}

// Of several servers that start at one path, over a stale file or none, exactly
// one serves, and it is reachable.
func TestRealStartsExcludeEachOther(t *testing.T) {
	f := testFile(t, allSeals)
	for round := range 30 {
		path := socketPath(t)
		if round%2 == 0 {
			leaveStale(t, path)
		}
		var won atomic.Pointer[Server]
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := Listen(path, f, arenaSize, testEpoch)
				switch {
				case err == nil && !won.CompareAndSwap(nil, s):
					t.Error("two servers at one path")
					s.Close()
				case err != nil && !errors.Is(err, ErrInUse):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() == nil {
			t.Fatal("no server at all")
		}
		c, err := Dial(t.Context(), path, testEpoch)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), won.Load().Close()); err != nil {
			t.Error(err)
		}
	}
}

// A server that stops does not remove the socket of the one that came after it.
func TestRealCloseLeavesAnothersSocket(t *testing.T) {
	path := socketPath(t)
	f := testFile(t, allSeals)
	old, err := Listen(path, f, arenaSize, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // an operator, say
		t.Fatal(err)
	}
	next, err := Listen(path, f, arenaSize, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	readRight(t, dial(t, path), 10)
}

func TestRealSocketMode(t *testing.T) {
	for _, c := range []struct{ set, want fs.FileMode }{{0, 0o660}, {0o600, 0o600}, {0o666, 0o666}} {
		_, path := testServer(t, ListenConfig{Mode: c.set})
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|c.want {
			t.Errorf("mode %v: %v, %v", c.set, info.Mode(), err)
		}
	}
}

func TestRealPaths(t *testing.T) {
	f := testFile(t, allSeals)
	long := socketPath(t)
	long += strings.Repeat("x", maxPath-len(long))
	s, err := Listen(long, f, arenaSize, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	readRight(t, dial(t, long), 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"", long + "x", "@abstract", "a\x00b"} {
		if _, err := Listen(path, f, arenaSize, testEpoch); !errors.Is(err, ErrPath) {
			t.Errorf("Listen(%q): %v", path, err)
		}
		if _, err := Dial(t.Context(), path, testEpoch); !errors.Is(err, ErrPath) {
			t.Errorf("Dial(%q): %v", path, err)
		}
	}
	if _, err := Listen("/nonexistent/dir/shm", f, arenaSize, testEpoch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Dial(t.Context(), "/nonexistent/dir/shm", testEpoch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for _, cfg := range []ListenConfig{{MaxConns: -1}, {HandshakeTimeout: -1}, {Mode: fs.ModeDir}} {
		if _, err := cfg.Listen(long, f, arenaSize, testEpoch); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, d := range []Dialer{{Timeout: -1}, {BufferBytes: -1}} {
		if _, err := d.Dial(t.Context(), long, testEpoch); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}
