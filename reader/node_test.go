package reader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// nodeEnv holds the nodeConfig of a process that is to be a node, not a test.
const nodeEnv = "RMATAIL_TEST_NODE"

func TestMain(m *testing.M) {
	if config := os.Getenv(nodeEnv); config != "" {
		if err := beNode(config); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if config := os.Getenv(feederEnv); config != "" {
		if err := beFeeder(config); err != nil {
			fmt.Fprintln(os.Stderr, "feeder:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if config := os.Getenv(consumerEnv); config != "" {
		fmt.Fprintln(os.Stderr, "consumer:", beConsumer(config))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// nodeConfig is what the tests vary of a node.
type nodeConfig struct {
	Listen, Dir, Socket, Device string
	Arena                       uint64
	ReadThrough                 int64
	RDMA                        server.RDMAMode
}

// beNode serves until SIGTERM; SIGUSR1 renews the memory handles.
func beNode(config string) error {
	var c nodeConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	r := rdma.DefaultConfig()
	r.Device = c.Device
	s, err := server.New(server.Config{Listen: c.Listen, Dir: c.Dir, Socket: c.Socket, RDMAMode: c.RDMA, RDMA: r,
		Arena: chunkstore.Config{Bytes: c.Arena}, ReadThrough: c.ReadThrough, Durable: durable.Options{Policy: durable.Never},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	renew := make(chan os.Signal, 1)
	signal.Notify(renew, syscall.SIGUSR1)
	go func() {
		for range renew {
			if err := s.RenewHandles(); err != nil {
				fmt.Fprintln(os.Stderr, "node: renew:", err)
				os.Exit(3)
			}
		}
	}()
	fmt.Println("ready", s.Addr())
	return s.Serve(ctx)
}

// node is a node in a process of its own.
type node struct {
	nodeConfig
	t   *testing.T
	cmd *exec.Cmd
}

// startNode runs a node until the test ends. Listen is replaced by the address
// that it got, so that a restart has the same.
func startNode(t *testing.T, c nodeConfig) *node {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Socket == "" {
		c.Socket = filepath.Join(t.TempDir(), "shm.sock")
	}
	n := &node{nodeConfig: c, t: t}
	n.start()
	t.Cleanup(n.kill)
	return n
}

func (n *node) start() {
	n.t.Helper()
	config, err := json.Marshal(n.nodeConfig)
	if err != nil {
		n.t.Fatal(err)
	}
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env = append(os.Environ(), nodeEnv+"="+string(config))
	n.cmd.Stderr = os.Stderr
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		n.t.Fatalf("node said %q, %v", line, err)
	}
	n.Listen = addr
}

// kill ends the node with SIGKILL, as a crash would.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Signal(syscall.SIGCONT)
	n.cmd.Process.Kill()
	n.cmd.Wait()
	n.cmd = nil
}

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// cpu returns the processor time that the node's threads have used.
func (n *node) cpu() time.Duration {
	n.t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", n.cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		n.t.Fatalf("no schedstat of the node: %v", err)
	}
	var sum time.Duration
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has just ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// wakes returns how often the node's threads went to sleep by themselves, and so
// have been woken again.
func (n *node) wakes() (sum int) {
	n.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", n.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		n.t.Fatalf("no status of the node's threads: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has just ended
		}
		_, after, ok := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
		if !ok {
			n.t.Fatalf("no count of switches in %s", file)
		}
		count, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			n.t.Fatal(err)
		}
		sum += count
	}
	return sum
}

// stopped waits until the kernel has stopped the node.
func (n *node) stopped() {
	n.t.Helper()
	eventually(n.t, 5*time.Second, "the node to be stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
		return err == nil && strings.HasPrefix(string(b[strings.LastIndexByte(string(b), ')'):]), ") T")
	})
}

// eventually polls a condition until it holds, at most for a time.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// writer appends position-determined bytes through a node.
type writer struct {
	t     *testing.T
	shard string
	pos   uint64
}

func (w *writer) append(n *node, sizes ...int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	c, err := wire.Dial(ctx, n.Listen, wire.Options{Name: "test-writer"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	w.appendVia(ctx, durable.NewRemote(c), sizes...)
}

func (w *writer) appendVia(ctx context.Context, r *durable.Remote, sizes ...int) {
	for _, size := range sizes {
		p := make([]byte, size)
		reader.Fill(p, w.pos)
		_, end, err := r.Append(ctx, w.shard, w.pos, p)
		if err != nil {
			w.t.Errorf("append of %d at %d: %v", size, w.pos, err)
			return
		}
		w.pos = end
	}
}

// open opens a Cluster and a Reader of the writer's shard.
func (w *writer) open(cfg reader.Config, from reader.From) (*reader.Cluster, *reader.Reader) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	c, err := reader.Open(ctx, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	r, err := c.Reader(ctx, w.shard, from)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { r.Close() })
	return c, r
}

// read reads to the writer's position, checks every byte, and returns what came
// from where.
func (w *writer) read(r *reader.Reader, limit time.Duration) map[string]int {
	w.t.Helper()
	by, err := drain(w.t.Context(), r, w.pos, limit)
	if err != nil {
		w.t.Fatal(err)
	}
	return by
}

// drain reads to a position and checks every byte.
func drain(ctx context.Context, r *reader.Reader, to uint64, limit time.Duration) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	by := map[string]int{}
	for pos := r.Position(); pos < to; pos = r.Position() {
		b, err := r.Next(ctx)
		if err != nil {
			return by, fmt.Errorf("at %d of %d, so far %v: %w", pos, to, by, err)
		}
		if b.Position != pos {
			return by, fmt.Errorf("batch begins at %d, want %d", b.Position, pos)
		}
		if i := reader.WrongAt(b.Data, pos); i >= 0 {
			return by, fmt.Errorf("wrong byte at %d from %v", pos+uint64(i), b.Source)
		}
		by[b.Source.String()] += len(b.Data)
	}
	return by, nil
}
