package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/rdma/local"
)

// batch is what all memory transports have.
type batch interface {
	Add(off uint64, n int) []byte
	Post(deadline time.Time) error
	Wait() error
	Reset()
	Release()
}

// overBatch reads through a memory transport.
func overBatch(t testing.TB, b batch) arenaReader {
	t.Helper()
	return newArenaReader(t, func(off uint64, n int) []byte {
		t.Helper()
		b.Reset()
		p := b.Add(off, n)
		if p == nil {
			t.Fatalf("no room for %d bytes at %d", n, off)
		}
		if err := b.Post(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		return append([]byte(nil), p...)
	})
}

// The same bytes, by layout alone, through the mapping and through tcp.Conn.
func TestRealEveryTransportSeesTheSame(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "arena.sock")
	s := serve(t, func(c *Config) { c.Socket = socket })
	c := dial(t, s)
	if got := c.Hello().ShmPath; got != socket || s.Socket() != socket {
		t.Fatalf("hello says socket %q, Socket %q", got, s.Socket())
	}
	shm, err := local.Dial(t.Context(), socket, c.Hello().Epoch)
	if err != nil {
		t.Fatal(err)
	}
	defer shm.Close()
	shmBatch, err := shm.NewBatch(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer shmBatch.Release()
	over := tcp.New(dial(t, s), tcp.Options{})
	defer over.Close()
	tcpBatch, err := over.NewBatch(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer tcpBatch.Release()

	store, length := durable.NewRemote(c), uint64(0)
	for range 20 {
		appendPattern(t, store, shardA, length, length+30_001)
		length += 30_001
		info, err := store.Stat(t.Context(), shardA.String())
		if err != nil {
			t.Fatal(err)
		}
		a := overBatch(t, shmBatch).check(t, shardA, info.Incarnation, length)
		b := overBatch(t, tcpBatch).check(t, shardA, info.Incarnation, length)
		if want := int(length/4096) + 1; a != want || b != want {
			t.Errorf("%d chunks over shm, %d over tcp, want %d", a, b, want)
		}
	}
	if n := s.Stats().SharedMemory; n != 1 {
		t.Errorf("%d consumers of the mapping in the stats", n)
	}
}

func TestRealDefaultSocket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := serve(t, func(c *Config) { c.Socket = "" })
	dir := filepath.Dir(s.Socket())
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 || !strings.HasPrefix(filepath.Base(dir), "rmatail-") {
		t.Errorf("directory %s: %v", dir, err)
	}
	conn, err := local.Dial(t.Context(), s.Socket(), s.main().arena.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there after shutdown: %v", err)
	}
}

// A default socket that cannot be is left out, aloud; one that was asked for is
// an error.
func TestRealSocketThatCannotBe(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	s := serve(t, func(c *Config) { c.Socket = "" })
	if st := s.Stats(); st.Socket != "" || !strings.Contains(st.SocketReason, "--socket") || dial(t, s).Hello().ShmPath != "" {
		t.Errorf("socket %q, reason %q", st.Socket, st.SocketReason)
	}
	cfg := testConfig(t)
	cfg.Socket = filepath.Join(t.TempDir(), "missing", "x.sock")
	if _, err := New(cfg); !errors.Is(err, ErrSocket) {
		t.Errorf("a socket in a directory that is not there: %v", err)
	}
}

func TestRealMappingOutlivesNothing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "arena.sock")
	s := serve(t, func(c *Config) { c.Socket = socket })
	conn, err := local.Dial(t.Context(), socket, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-conn.Lost():
	case <-time.After(patience):
		t.Error("a consumer does not learn that the node has gone")
	}
}
