package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/rdma"
)

// nodeSpec is what a node process is told.
type nodeSpec struct {
	Name, Listen, Dir, Socket, Device string
	Arena                             uint64
	// Cluster is how this node sees it.
	Cluster cluster.Description
}

// beNode serves until SIGTERM. SIGUSR1 sets its clock back by an hour.
func beNode(spec nodeSpec) error {
	source, err := cluster.NewFixed(spec.Cluster)
	if err != nil {
		return err
	}
	var back atomic.Int64
	cfg := server.Config{
		Listen: spec.Listen, Dir: spec.Dir, Socket: spec.Socket, Cluster: source, Node: spec.Name,
		Arena:   chunkstore.Config{Bytes: spec.Arena},
		Durable: durable.Options{Policy: durable.Never},
		// Without a monotonic reading, so that all that is set back goes back.
		Clock:  func() time.Time { return time.Unix(0, time.Now().UnixNano()-back.Load()) },
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel()})),
	}
	if cfg.RDMAMode = server.RDMAOff; spec.Device != "" {
		cfg.RDMA = rdma.DefaultConfig()
		cfg.RDMA.Device, cfg.RDMAMode = spec.Device, server.RDMARequire
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	setBack := make(chan os.Signal, 1)
	signal.Notify(setBack, syscall.SIGUSR1)
	go func() {
		for range setBack {
			back.Add(int64(time.Hour))
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready", s.Addr())
	if err := s.Serve(ctx); !errors.Is(err, server.ErrClosed) {
		return err
	}
	return nil
}

// logLevel is that of RMATAIL_CHAOS_LOG; by default only errors are shown, as
// trouble is what these tests are made of.
func logLevel() slog.Level {
	level := slog.LevelError
	if s := os.Getenv("RMATAIL_CHAOS_LOG"); s != "" {
		if err := level.UnmarshalText([]byte(s)); err != nil {
			panic(err)
		}
	}
	return level
}

// node is a node process, which can be ended and started again at its address.
type node struct {
	nodeSpec
	t      testing.TB
	netns  string
	p      *process // nil while it is down
	frozen bool
}

func (n *node) start() {
	n.t.Helper()
	var prefix []string
	if n.netns != "" {
		prefix = []string{"ip", "netns", "exec", n.netns}
	}
	p, err := start("node", n.nodeSpec, prefix...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.p = p
	line, err := p.line()
	if !strings.HasPrefix(line, "ready ") {
		n.t.Fatalf("node %s said %q, %v", n.Name, line, err)
	}
}

// kill ends it with SIGKILL: what it held in memory is gone.
func (n *node) kill() {
	if n.p != nil {
		n.p.kill()
	}
	n.p, n.frozen = nil, false
}

// freeze stops the process; thaw lets it go on.
func (n *node) freeze() {
	n.p.signal(n.t, syscall.SIGSTOP)
	n.frozen = true
	eventually(n.t, 5*time.Second, "the node to be stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.p.cmd.Process.Pid))
		return err != nil || strings.HasPrefix(string(b[strings.LastIndexByte(string(b), ')'):]), ") T")
	})
}

func (n *node) thaw() {
	n.p.signal(n.t, syscall.SIGCONT)
	n.frozen = false
}

// setBack sets the node's clock back by an hour.
func (n *node) setBack() { n.p.signal(n.t, syscall.SIGUSR1) }
