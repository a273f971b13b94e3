package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// patience bounds what a test waits for; nothing takes that long unless broken.
const patience = 20 * time.Second

// testConfig is a small node with a store, on a free port of the loopback.
func testConfig(t testing.TB) Config {
	return Config{
		Listen: "127.0.0.1:0", Dir: t.TempDir(), Durable: durable.Options{Policy: durable.Never},
		Arena: chunkstore.Config{Bytes: 8 << 20}, Socket: SocketNone, RDMAMode: RDMAOff,
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// testLog writes to the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// serve runs a node until the end of the test. change may be nil.
func serve(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	cfg := testConfig(t)
	if change != nil {
		change(&cfg)
	}
	return serveParts(t, cfg, realParts())
}

func serveParts(t testing.TB, cfg Config, p parts) *Server {
	t.Helper()
	s, err := newServer(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error("serve:", err)
		}
		if n := s.counters.panics.Load(); n != 0 && !t.Failed() {
			t.Errorf("%d panics", n)
		}
		l := s.cfg.Limits
		if !s.appendBytes.tryTake(l.AppendBytes) || !s.durableBytes.tryTake(l.DurableBytes) {
			t.Error("requests have ended, and their memory is still counted")
		}
	})
	return s
}

func dial(t testing.TB, s *Server) *wire.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := wire.Dial(ctx, s.Addr().String(), wire.Options{Name: t.Name()[:min(len(t.Name()), wire.MaxName)]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// rawDial is a connection without a client, so that a test can misbehave.
func rawDial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	nc, err := net.DialTimeout("tcp", s.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return nc
}

// greet exchanges Hellos on a raw connection.
func greet(t testing.TB, nc net.Conn) {
	t.Helper()
	hello, err := wire.HelloRequest{Version: wire.Version, Name: "raw"}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, nc, wire.Header{Op: wire.OpHello}, hello)
	if h, _ := receive(t, nc); h.Status != wire.StatusOK {
		t.Fatalf("hello answered with %v", h.Status)
	}
}

func frame(h wire.Header, payload []byte) []byte {
	h.Length = uint32(len(payload))
	return append(wire.AppendHeader(nil, h), payload...)
}

func send(t testing.TB, nc net.Conn, h wire.Header, payload []byte) {
	t.Helper()
	if _, err := nc.Write(frame(h, payload)); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, nc net.Conn) (wire.Header, []byte) {
	t.Helper()
	b := make([]byte, wire.HeaderLen)
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatal(err)
	}
	h, err := wire.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, h.Length)
	if _, err := io.ReadFull(nc, p); err != nil {
		t.Fatal(err)
	}
	return h, p
}

// closedByPeer waits for the node to end the connection.
func closedByPeer(t testing.TB, nc net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the node did not end the connection")
	}
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never:", what)
		}
	}
}

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// pattern returns the bytes of a shard at [pos, pos+n): each position has its own.
func pattern(pos uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := (pos + uint64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	return b
}

// fakeExport is RDMA without a device.
type fakeExport struct {
	connect func(offer []byte) ([]byte, io.Closer, error)
}

func (e fakeExport) accept(_ context.Context, offer []byte, _, _ netip.Addr) ([]byte, io.Closer, error) {
	return e.connect(offer)
}
func (e fakeExport) Close() error { return nil }

func withExport(e export, err error) parts {
	p := realParts()
	p.export = func(rdma.Config, []byte) (export, error) { return e, err }
	return p
}

// TestRealRelativeSocket: clients in other directories are told the whole path.
func TestRealRelativeSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := New(Config{Listen: "127.0.0.1:0", Socket: "x.sock", Arena: chunkstore.Config{Bytes: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	if p := s.Socket(); !filepath.IsAbs(p) {
		t.Fatalf("clients are told %q", p)
	}
}
