package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	testEpoch = 0xfeedface
	arenaSize = 3<<20 + 4096
	fileSize  = 4 << 20 // as with huge pages: longer than the arena
)

const allSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// memoryFile is an arena's file as a node makes it, or with fewer seals.
func memoryFile(seals int) (*os.File, error) {
	fd, err := unix.MemfdCreate("rmatail-test-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "rmatail-test-arena")
	b := make([]byte, fileSize)
	fillPattern(b, testEpoch)
	if _, err := f.WriteAt(b, 0); err != nil {
		return f, err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return f, err
}

func testFile(t *testing.T, seals int) *os.File {
	t.Helper()
	f, err := memoryFile(seals)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// socketPath is short wherever the tests run.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rmatail-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "shm")
}

func testServer(t *testing.T, cfg ListenConfig) (s *Server, path string) {
	t.Helper()
	path = socketPath(t)
	s, err := cfg.Listen(path, testFile(t, allSeals), arenaSize, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, path
}

func dial(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), path, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// readRight reads n random ranges and checks them.
func readRight(t *testing.T, c *Conn, n int) {
	t.Helper()
	b := newBatch(t, c, 8192)
	defer b.Release()
	for range n {
		size := 1 + rand.IntN(8192)
		off := uint64(rand.IntN(arenaSize - size))
		to := b.Add(off, size)
		if err := errors.Join(b.Post(time.Now().Add(time.Second)), b.Wait()); err != nil {
			t.Fatal(err)
		}
		if wrong := checkPattern(to, off, testEpoch); wrong > 0 {
			t.Fatalf("%d of %d bytes at %d are wrong", wrong, size, off)
		}
		b.Reset()
	}
}

// until polls for a condition, which has ten seconds to come true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func mappings(t *testing.T) (n int, text string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "rmatail-test-arena") {
			n++
			text += line
		}
	}
	return n, text
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func init() {
	roles["serve"] = func() int {
		f, err := memoryFile(allSeals)
		if err == nil {
			var s *Server
			if s, err = Listen(os.Getenv("RMATAIL_LOCAL_TEST_PATH"), f, arenaSize, testEpoch); err == nil {
				defer s.Close()
				fmt.Println("ready")
				io.Copy(io.Discard, os.Stdin) // until the test ends us
				return 0
			}
		}
		fmt.Println(err)
		return 1
	}
}

// serveElsewhere runs a server in another process.
func serveElsewhere(t *testing.T, path string) *os.Process {
	t.Helper()
	p, _ := roleElsewhere(t, "serve", path)
	return p
}

// roleElsewhere runs a role in another process, until its input ends.
func roleElsewhere(t *testing.T, role, path string) (*os.Process, io.Writer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "RMATAIL_LOCAL_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Wait() // it may have been killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("server says %q, %v", line, err)
	}
	return cmd.Process, in
}

// The arena of another process is read, and cannot be written.
func TestRealHandOver(t *testing.T) {
	path := socketPath(t)
	serveElsewhere(t, path)
	c := dial(t, path)
	if c.Size() != arenaSize {
		t.Errorf("size %d", c.Size())
	}
	readRight(t, c, 2000)
	b := newBatch(t, c, 64)
	if b.Add(arenaSize-8, 8) == nil || b.Add(arenaSize-7, 8) != nil {
		t.Error("the arena does not end where it should")
	}
	b.Release()

	n, text := mappings(t)
	if n != 1 || !strings.Contains(text, " r--s ") {
		t.Errorf("mapped as %s", text)
	}
	if err := unix.Mprotect(c.arena[:4096], unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("mprotect: %v", err)
	}
	fd := rawFile(t, path)
	defer unix.Close(fd)
	if m, err := unix.Mmap(fd, 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("writable mapping: %v", err)
		unix.Munmap(m)
	}
	if _, err := unix.Pwrite(fd, []byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
}

// rawFile takes the descriptor as a hostile consumer would.
func rawFile(t *testing.T, path string) int {
	t.Helper()
	sock, err := connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	_, fds, err := exchange(sock, request{version: version}, nil)
	if err != nil || len(fds) != 1 {
		t.Fatalf("%d descriptors, %v", len(fds), err)
	}
	return fds[0]
}

// A stopped node is read all the same; a killed one is lost within a second, and
// its memory is not read again.
func TestRealStoppedThenKilled(t *testing.T) {
	path := socketPath(t)
	server := serveElsewhere(t, path)
	c := dial(t, path)
	readRight(t, c, 10)

	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "server is stopped", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(server.Pid) + "/stat")
		return err == nil && strings.Contains(string(b), ") T ")
	})
	readRight(t, c, 2000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, path, testEpoch); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrHandshake) {
		t.Errorf("dial of a stopped node: %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("stopped: %v", err)
	}

	b := newBatch(t, c, 64)
	to := b.Add(8, 8)
	if err := b.Post(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Lost():
		t.Logf("lost %v after kill -9", time.Since(killed))
	case <-time.After(time.Second):
		t.Fatal("not lost within a second")
	}
	if err := b.Wait(); !errors.Is(err, ErrLost) || string(to) != "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("posted before the death: %v, %x", err, to)
	}
	b.Release()
	if _, err := c.NewBatch(64); !errors.Is(err, ErrLost) {
		t.Errorf("new batch: %v", err)
	}
	until(t, "mapping is gone", func() bool { n, _ := mappings(t); return n == 0 })
	if _, err := Dial(t.Context(), path, testEpoch); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("dial of a dead node: %v", err)
	}

	// Its socket file does not stand in the way of the next one.
	serveElsewhere(t, path)
	readRight(t, dial(t, path), 10)
}

func TestRealServerCloseIsLost(t *testing.T) {
	s, path := testServer(t, ListenConfig{})
	a, b := dial(t, path), dial(t, path)
	until(t, "both are connected", func() bool { return s.Conns() == 2 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Conn{a, b} {
		<-c.Lost()
		if err := c.Err(); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket file: %v", err)
	}
}

func TestRealEpoch(t *testing.T) {
	_, path := testServer(t, ListenConfig{})
	if _, err := Dial(t.Context(), path, testEpoch+1); !errors.Is(err, ErrEpoch) || !strings.Contains(err.Error(), "00000000feedface") {
		t.Errorf("another epoch: %v", err)
	}
	c, err := Dial(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	readRight(t, c, 10)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestRealLimit(t *testing.T) {
	s, path := testServer(t, ListenConfig{MaxConns: 2})
	first := dial(t, path)
	dial(t, path)
	if _, err := Dial(t.Context(), path, testEpoch); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	until(t, "the place is free", func() bool { return s.Conns() == 1 })
	readRight(t, dial(t, path), 10)
}

// 200 connections come and go, and leave nothing on either side.
func TestRealNothingLeaks(t *testing.T) {
	s, path := testServer(t, ListenConfig{})
	dialClose := func() {
		c, err := Dial(t.Context(), path, testEpoch)
		if err != nil {
			t.Fatal(err)
		}
		readRight(t, c, 1)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dialClose() // the runtime opens its poller
	until(t, "server is idle", func() bool { return s.Conns() == 0 })
	fds := openFDs(t)
	for range 200 {
		dialClose()
		if _, err := Dial(t.Context(), path, 1); !errors.Is(err, ErrEpoch) {
			t.Fatal(err)
		}
	}
	until(t, "server is idle", func() bool { return s.Conns() == 0 })
	until(t, "descriptors are back", func() bool { return openFDs(t) <= fds })
	if n, text := mappings(t); n != 0 {
		t.Errorf("mappings left:\n%s", text)
	} // goroutines: goleak in TestMain
}
