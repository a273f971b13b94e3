package reader

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// fakeNode is a node as a test wants it: it greets, and answers reads of an
// arena's memory until it is told to hang up.
type fakeNode struct {
	addr  string
	hello wire.HelloReply
	arena []byte

	conns  atomic.Int64 // that were greeted
	hangUp atomic.Bool  // connections end right after their Hello
	silent atomic.Bool  // no Hello is answered
	asked  atomic.Int64 // durable questions, all refused
}

func startFake(t *testing.T, change func(*fakeNode, *chunkstore.Arena)) *fakeNode {
	a, err := chunkstore.New(chunkstore.Config{Bytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{addr: l.Addr().String(), arena: a.Bytes(),
		hello: wire.HelloReply{Version: wire.Version, Epoch: a.Epoch(), ArenaSize: uint64(len(a.Bytes()))}}
	if change != nil {
		change(n, a)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				n.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
		a.Close()
	})
	return n
}

func (n *fakeNode) serve(conn net.Conn) {
	frames := wire.NewFrameReader(bufio.NewReader(conn))
	var replies wire.Replies
	for {
		h, payload, err := frames.Next()
		if err != nil {
			return
		}
		switch h.Op {
		case wire.OpHello:
			if n.silent.Load() {
				continue
			}
			p, _ := n.hello.AppendTo(nil)
			replies.Reply(h, p)
			n.conns.Add(1)
		case wire.OpReadArena:
			n.read(&replies, h, payload)
		default:
			n.asked.Add(1)
			replies.Error(h, wire.ErrNoStore)
		}
		if replies.Flush(conn) != nil || h.Op == wire.OpHello && n.hangUp.Load() {
			return
		}
	}
}

func (n *fakeNode) read(replies *wire.Replies, h wire.Header, payload []byte) {
	reads, err := wire.ParseReadArena(payload)
	if err != nil {
		replies.Error(h, err)
		return
	}
	var out []byte
	for i := range reads.Len() {
		r := reads.At(i)
		out = append(out, n.arena[r.Off:r.Off+uint64(r.N)]...)
	}
	replies.Reply(h, out)
}

func openFake(t *testing.T, n *fakeNode, cfg Config) *Cluster {
	t.Helper()
	cfg.Server = n.addr
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// until polls a condition, at most for 10 s.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// TestRealHangUp: a node that greets and hangs up, again and again, is dialled
// ever more rarely, and not dozens of times a second.
func TestRealHangUp(t *testing.T) {
	n := startFake(t, nil)
	c := openFake(t, n, Config{})
	if s := c.Stats(); s.Transport != "tcp" || s.Connects["tcp"] != 1 {
		t.Fatalf("%+v", s)
	}
	n.hangUp.Store(true)
	c.only().client.Load().Close()
	<-time.After(2 * time.Second)
	if got := n.conns.Load(); got < 3 || got > 25 { // 50 ms a dial would be 80
		t.Fatalf("%d connections in 2 s", got)
	}
	n.hangUp.Store(false)
	until(t, "tcp to be back", func() bool { return c.Stats().Transport == "tcp" })
}

// TestRealShmHangsUp: the same for one transport of a node that stays, and the
// others carry on.
func TestRealShmHangsUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "shm.sock")
	n := startFake(t, func(n *fakeNode, a *chunkstore.Arena) {
		n.hello.ShmPath = socket
		file, err := a.File()
		if err != nil {
			t.Fatal(err)
		}
		s, err := local.Listen(socket, file, uint64(len(a.Bytes())), a.Epoch())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	})
	c := openFake(t, n, Config{})
	if s := c.Stats(); s.Transport != "shm" || s.Why != "the best of shm, rdma and tcp" {
		t.Fatalf("%+v", s)
	}
	stop := time.Now().Add(1500 * time.Millisecond)
	until(t, "the time to pass", func() bool { // each connection is lost as soon as it is there
		for _, p := range *c.only().live.Load() {
			if p.source == FromSHM {
				p.Close()
			}
		}
		return time.Now().After(stop)
	})
	if s := c.Stats(); s.Connects["shm"] < 2 || s.Connects["shm"] > 20 || n.conns.Load() != 1 {
		t.Fatalf("%+v over %d connections", s.Connects, n.conns.Load())
	}
	until(t, "shm to be back", func() bool { return c.Stats().Transport == "shm" })
}

// TestRealOtherArena: memory that is not the arena of the handshake is not used,
// and the status says why.
func TestRealOtherArena(t *testing.T) {
	n := startFake(t, func(n *fakeNode, _ *chunkstore.Arena) { n.hello.Epoch++ })
	c := openFake(t, n, Config{})
	if s := c.Stats(); s.Transport != "none" || !strings.Contains(s.Why, "epoch") || !strings.Contains(s.Why, "tcp") {
		t.Fatalf("%q because %q", s.Transport, s.Why)
	}
	foreign := startFake(t, func(n *fakeNode, _ *chunkstore.Arena) { n.arena = make([]byte, len(n.arena)) })
	if s := openFake(t, foreign, Config{}).Stats(); s.Transport != "none" || !strings.Contains(s.Why, layout.ErrForeign.Error()) {
		t.Fatalf("%q because %q", s.Transport, s.Why)
	}
	only := openFake(t, startFake(t, nil), Config{Transport: RDMA})
	if s := only.Stats(); s.Transport != "none" || s.Why != "rdma: the node does not offer it" {
		t.Fatalf("%q because %q", s.Transport, s.Why)
	}
}

// TestRealRDMAIsMissedAloud: a node offers rdma, and this host has no way to it. With
// any transport allowed the reader goes on over tcp, and says why, in its status and in
// the log; a device that was asked for by name and is not there counts as a fault
// besides. With rdma alone allowed tcp is not taken in its place, and with tcp alone
// rdma is not tried.
func TestRealRDMAIsMissedAloud(t *testing.T) {
	offers := startFake(t, func(n *fakeNode, _ *chunkstore.Arena) { n.hello.Features |= wire.FeatureRDMA })
	for name, c := range map[string]struct {
		cfg            Config
		transport, why string
		fault          bool
	}{
		"any":         {Config{}, "tcp", "shm: the node does not offer it; rdma: ", hasRDMA(t)},
		"any, device": {Config{RDMA: rdma.Config{Device: "absent0", GIDIndex: -1}}, "tcp", "shm: the node does not offer it; rdma: ", true},
		"rdma":        {Config{Transport: RDMA, RDMA: rdma.Config{Device: "absent0", GIDIndex: -1}}, "none", "rdma: ", true},
		"tcp":         {Config{Transport: TCP, RDMA: rdma.Config{Device: "absent0", GIDIndex: -1}}, "tcp", "asked for", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			c.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cluster := openFake(t, offers, c.cfg)
			s := cluster.Stats()
			if s.Transport != c.transport || !strings.HasPrefix(s.Why, c.why) || strings.HasSuffix(s.Why, ": ") {
				t.Errorf("%q because %q", s.Transport, s.Why)
			}
			if said := log.String(); !strings.Contains(said, c.why) || strings.Contains(said, "level=WARN") != (c.transport == "none") {
				t.Errorf("the log does not say %q, or at another level: %s", c.why, said)
			}
			if failed := s.DialFailures["rdma"] > 0; failed != c.fault {
				t.Errorf("failures to connect: %v", s.DialFailures)
			}
		})
	}
}

// hasRDMA reports whether this host has an RDMA device.
func hasRDMA(t *testing.T) bool {
	t.Helper()
	devices, err := rdma.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return len(devices) > 0
}

// TestRealSilentNode: what accepts and says nothing holds up neither the context
// of Open nor Close.
func TestRealSilentNode(t *testing.T) {
	n := startFake(t, nil)
	n.silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Open(ctx, Config{Server: n.addr}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Fatalf("after %v", d)
	}
}

// TestRealNodeAwayIsSaid: with a directory a node that is away is no error, but it
// is logged, and the status has it.
func TestRealNodeAwayIsSaid(t *testing.T) {
	var log logged
	c, err := Open(t.Context(), Config{Server: "127.0.0.1:1", Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s := c.Stats(); s.Transport != "none" || !strings.Contains(s.Why, "refused") {
		t.Fatalf("%q because %q", s.Transport, s.Why)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "refused") {
		t.Fatalf("log: %s", log.String())
	}
	if _, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "nowhere")}); err == nil {
		t.Fatal("a directory that does not exist is no error")
	}
}

// logged is a log that is read while it is written.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
