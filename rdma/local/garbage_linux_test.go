package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Peers that do not speak the protocol are closed, and do not disturb others.
func TestRealGarbageConsumers(t *testing.T) {
	patient, path := testServer(t, ListenConfig{HandshakeTimeout: time.Minute})
	hasty, hastyPath := testServer(t, ListenConfig{HandshakeTimeout: 50 * time.Millisecond})
	good := dial(t, path)
	right := request{version: version, epoch: testEpoch}.encode()
	for _, c := range []struct {
		name string
		path string
		send []byte
		want int // bytes that come back before the end
	}{
		{"nothing", hastyPath, nil, 0},
		{"half a request", hastyPath, right[:12], 0},
		{"HTTP", path, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0},
		{"zeroes", path, make([]byte, 4096), 0},
		{"another version", path, request{version: 9, epoch: testEpoch}.encode(), answerSize},
		{"another epoch", path, request{version: version, epoch: 9}.encode(), answerSize},
		{"more after the request", path, append(bytes.Clone(right), 'x'), answerSize},
	} {
		sock, err := net.Dial("unix", c.path)
		if err != nil {
			t.Fatal(err)
		}
		sock.Write(c.send)
		sock.SetReadDeadline(time.Now().Add(10 * time.Second))
		got, err := io.ReadAll(sock) // which ends only when the server closes
		if len(got) != c.want || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes came back, %v", c.name, len(got), err)
		}
		sock.Close()
	}
	until(t, "only the good one is left", func() bool { return patient.Conns() == 1 && hasty.Conns() == 0 })
	readRight(t, good, 10)
}

// fakeServer answers one connection with bytes and descriptors of the test's.
func fakeServer(t *testing.T, b []byte, then func(*net.UnixConn), files ...*os.File) (path string) {
	t.Helper()
	path = socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		io.ReadFull(conn, make([]byte, requestSize))
		var oob []byte
		if len(files) > 0 {
			var fds []int
			for _, f := range files {
				fds = append(fds, int(f.Fd()))
			}
			oob = unix.UnixRights(fds...)
		}
		if len(b) > 0 {
			conn.WriteMsgUnix(b, oob, nil)
		}
		then(conn)
	}()
	return path
}

// A consumer maps nothing that it has not checked, and keeps no descriptor.
func TestRealGarbageNodes(t *testing.T) {
	sealed, unsealed := testFile(t, allSeals), testFile(t, unix.F_SEAL_GROW)
	regular, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	if err := regular.Truncate(fileSize); err != nil {
		t.Fatal(err)
	}
	right := answer{version: version, epoch: testEpoch, size: arenaSize, fileSize: fileSize}
	with := func(edit func(*answer)) []byte {
		a := right
		edit(&a)
		return a.encode()
	}
	hangUp := func(*net.UnixConn) {}
	silent := func(conn *net.UnixConn) { conn.Read(make([]byte, 1)) } // until the consumer gives up
	for _, c := range []struct {
		name  string
		bytes []byte
		then  func(*net.UnixConn)
		files []*os.File
		want  error
	}{
		{"closes at once", nil, hangUp, nil, ErrHandshake},
		{"says nothing", nil, silent, nil, context.DeadlineExceeded},
		{"half an answer, then silence", right.encode()[:20], silent, []*os.File{sealed}, context.DeadlineExceeded},
		{"half an answer, then the end", right.encode()[:20], hangUp, []*os.File{sealed}, io.ErrUnexpectedEOF},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n0123456789abcdef"), hangUp, nil, ErrHandshake},
		{"another version", with(func(a *answer) { a.version = 2 }), hangUp, []*os.File{sealed}, ErrVersion},
		{"another epoch", with(func(a *answer) { a.epoch = 1 }), hangUp, []*os.File{sealed}, ErrEpoch},
		{"no descriptor", right.encode(), hangUp, nil, ErrHandshake},
		{"two descriptors", right.encode(), hangUp, []*os.File{sealed, sealed}, ErrHandshake},
		{"more descriptors than there is room for", right.encode(), hangUp, []*os.File{sealed, sealed, sealed, sealed, sealed, sealed, sealed, sealed, sealed, sealed, sealed}, ErrHandshake},
		{"smaller than said", with(func(a *answer) { a.fileSize++ }), hangUp, []*os.File{sealed}, ErrSize},
		{"larger than said", with(func(a *answer) { a.fileSize-- }), hangUp, []*os.File{sealed}, ErrSize},
		{"a file that can shrink", right.encode(), hangUp, []*os.File{unsealed}, ErrUnsealed},
		{"a regular file", right.encode(), hangUp, []*os.File{regular}, ErrUnsealed},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := fakeServer(t, c.bytes, c.then, c.files...)
			fds := openFDs(t)
			d := Dialer{Timeout: time.Minute}
			if c.want == context.DeadlineExceeded {
				d.Timeout = 100 * time.Millisecond
			}
			conn, err := d.Dial(t.Context(), path, testEpoch)
			if !errors.Is(err, c.want) || conn != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			until(t, "descriptors are back", func() bool { return openFDs(t) <= fds })
			if n, _ := mappings(t); n != 0 {
				t.Errorf("%d mappings left", n)
			}
		})
	}

	t.Run("speaks later", func(t *testing.T) {
		path := fakeServer(t, right.encode(), func(conn *net.UnixConn) {
			conn.Write([]byte("surprise"))
			silent(conn)
		}, sealed)
		c := dial(t, path)
		<-c.Lost()
		if err := c.Err(); !errors.Is(err, ErrLost) || !errors.Is(err, ErrHandshake) {
			t.Error(err)
		}
		c.Close() // the fake server waits for it
	})
}

func TestRealListenChecksTheFile(t *testing.T) {
	sealed := testFile(t, allSeals)
	for _, c := range []struct {
		name        string
		file        *os.File
		size, epoch uint64
		want        error
	}{
		{"can shrink", testFile(t, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL), arenaSize, testEpoch, ErrUnsealed},
		{"can be written", testFile(t, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL), arenaSize, testEpoch, ErrUnsealed},
		{"no epoch", sealed, arenaSize, 0, ErrSize},
		{"no size", sealed, 0, testEpoch, ErrSize},
		{"smaller than the arena", sealed, fileSize + 1, testEpoch, ErrSize},
	} {
		path := socketPath(t)
		s, err := Listen(path, c.file, c.size, c.epoch)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", c.name, s, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: socket file: %v", c.name, err)
		}
	}
}
