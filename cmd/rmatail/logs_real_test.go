package main

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
)

// TestRealLevelChangesBySignal switches a node to debug and back.
func TestRealLevelChangesBySignal(t *testing.T) {
	c := command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--rdma", "off", "--socket", filepath.Join(shortDir(t), "s"))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	until := func(part string) (before []string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return before
			}
			before = append(before, lines.Text())
		}
		t.Fatalf("no line with %q, but %q", part, before)
		return nil
	}
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, addr, _ := strings.Cut(ready, `"listen":"`)
	addr, _, _ = strings.Cut(addr, `"`)
	knock := func() { // a connection that ends is worth a line of debugging
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	knock()
	c.Process.Signal(syscall.SIGUSR2)
	for _, line := range until(`msg="log level changed" level=DEBUG`) {
		if strings.Contains(line, "level=DEBUG") {
			t.Errorf("logged before the signal: %s", line)
		}
	}
	knock()
	until(`msg="connection closed"`)
	c.Process.Signal(syscall.SIGUSR2)
	until(`msg="log level changed" level=INFO`)
	c.Process.Signal(syscall.SIGTERM)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "level=DEBUG") {
			t.Errorf("logged after the second signal: %s", lines.Text())
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// countingHandler counts records at info and above, and at debug.
type countingHandler struct{ above, debug atomic.Int64 }

func (h *countingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *countingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug {
		h.above.Add(1)
	} else {
		h.debug.Add(1)
	}
	return nil
}

func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *countingHandler) WithGroup(string) slog.Handler      { return h }

// TestRealReadsLogNothing holds a node to it that requests are not logged, be they
// answered or refused, and at debug no more than connections are.
func TestRealReadsLogNothing(t *testing.T) {
	counts := &countingHandler{}
	s, err := server.New(server.Config{Listen: "127.0.0.1:0", Dir: t.TempDir(), Socket: server.SocketNone, RDMAMode: server.RDMAOff, Logger: slog.New(counts)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		cancel()
		<-served
	}()
	w, err := wire.Dial(t.Context(), s.Addr().String(), wire.Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	conn := tcp.New(w, tcp.Options{})
	defer conn.Close()
	b, err := conn.NewBatch(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	before, debug := counts.above.Load(), counts.debug.Load()
	const reads = 2000
	for range reads {
		b.Reset()
		b.Add(0, 4096)
		if err := b.Post(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Call(t.Context(), wire.OpStat, []byte{0}, nil); err == nil {
			t.Fatal("a bad request was answered")
		}
	}
	if n := s.Stats().ArenaReads; n < reads {
		t.Errorf("%d reads were counted, want %d", n, reads)
	}
	if n, d := counts.above.Load()-before, counts.debug.Load()-debug; n != 0 || d > 4 {
		t.Errorf("%d requests left %d records above debug and %d at debug, want none and a few of the connection", 2*reads, n, d)
	}
}
