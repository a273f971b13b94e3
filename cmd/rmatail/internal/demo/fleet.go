package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// fleet is the demo's nodes: one, or those of a cluster, of which the first owns the
// durable directory.
type fleet struct {
	cfg Config
	dir string
	// file describes the cluster; empty: one node alone.
	file  string
	addrs []string // of the nodes

	mu struct {
		sync.Mutex
		nodes []*child
		spent time.Duration // processor time of nodes that were killed
		kills int
	}
}

// owner is the index of the node that owns the durable directory.
const owner = 0

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// startFleet starts the nodes and waits until all are ready.
func startFleet(ctx context.Context, cfg Config, dir, store string) (f *fleet, err error) {
	f = &fleet{cfg: cfg, dir: dir}
	defer func() {
		if err != nil {
			f, err = nil, errors.Join(err, f.close(false))
		}
	}()
	if cfg.Nodes <= 1 {
		return f, f.startAlone(ctx, store)
	}
	if f.addrs, err = freeAddresses(cfg.Listen, cfg.Nodes); err != nil {
		return f, err
	}
	f.file = filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(f.file, f.describe(store), 0o644); err != nil {
		return f, err
	}
	f.mu.nodes = make([]*child, cfg.Nodes)
	for i := range f.mu.nodes {
		if f.mu.nodes[i], err = f.start(nodeName(i), i); err != nil {
			return f, err
		}
	}
	for _, n := range f.mu.nodes {
		if _, err := n.line(ctx, startTime); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *fleet) startAlone(ctx context.Context, store string) error {
	n, err := startChild("node", f.dir, f.cfg.Command, "serve", "--until-eof", "--json", "--listen", f.cfg.Listen,
		"--dir", store, "--socket", filepath.Join(f.dir, "shm.sock"), "--arena", f.cfg.Arena, "--policy", f.cfg.Policy)
	if err != nil {
		return err
	}
	f.mu.nodes = []*child{n}
	line, err := n.line(ctx, startTime)
	if err != nil {
		return err
	}
	var up struct {
		Listen string `json:"listen"`
	}
	if err := json.Unmarshal(line, &up); err != nil {
		return n.failed(fmt.Errorf("first line %q: %w", line, err))
	}
	f.addrs = []string{up.Listen}
	return nil
}

// start starts a node of the cluster; its log file is called log.
func (f *fleet) start(log string, i int) (*child, error) {
	return startChild(log, f.dir, f.cfg.Command, "serve", "--until-eof", "--json", "--cluster", f.file, "--node", nodeName(i), "--policy", f.cfg.Policy)
}

// describe writes the cluster file.
func (f *fleet) describe(store string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "name: demo\nnodes:\n")
	for i, addr := range f.addrs {
		fmt.Fprintf(&b, "  - name: %s\n    addr: %q\n    arena: %s\n    socket: %q\n", nodeName(i), addr, f.cfg.Arena, filepath.Join(f.dir, nodeName(i)+".sock"))
		if i == owner {
			fmt.Fprintf(&b, "    dir: %q\n", store)
		}
	}
	fmt.Fprintf(&b, "store:\n  node: %s\n", nodeName(owner))
	return []byte(b.String())
}

// freeAddresses returns n addresses that nobody listens on, on the host of one.
func freeAddresses(like string, n int) (addrs []string, err error) {
	host, _, err := net.SplitHostPort(like)
	if err != nil {
		return nil, err
	}
	// All at once, so that they differ.
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// addr is the address to append to.
func (f *fleet) addr() string { return f.addrs[owner] }

// where is how a consumer is told of the nodes.
func (f *fleet) where() []string {
	if f.file == "" {
		return []string{"--server", f.addr()}
	}
	return []string{"--cluster", f.file}
}

// cpu is the processor time that all nodes have used so far.
func (f *fleet) cpu() (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.mu.spent
	for _, n := range f.mu.nodes {
		if n == nil {
			continue
		}
		t, err := cpuTime(n.pid())
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// failed adds what the owner has said to an error.
func (f *fleet) failed(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.nodes[owner].failed(err)
}

// kill ends a node as a crash does.
func (f *fleet) kill(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, err := cpuTime(f.mu.nodes[i].pid()); err == nil {
		f.mu.spent += t
	}
	f.mu.nodes[i].kill()
	f.mu.nodes[i] = nil
	f.mu.kills++
}

// restart starts a node that was killed, empty, and waits until it is ready.
func (f *fleet) restart(ctx context.Context, i int) error {
	n, err := f.start(nodeName(i)+"-again", i)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.mu.nodes[i] = n
	f.mu.Unlock()
	_, err = n.line(ctx, startTime)
	return err
}

// kills is how many nodes were killed.
func (f *fleet) kills() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.kills
}

// faults kills a node that is not the owner after a third of the time, and restarts
// it after two. The returned function ends that, and says what went wrong with it.
func (f *fleet) faults(ctx context.Context) (stop func() error) {
	if !f.cfg.Kill {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		victim := len(f.addrs) - 1
		if !wait(ctx, f.cfg.For/3) {
			done <- nil
			return
		}
		f.kill(victim)
		if !wait(ctx, f.cfg.For/3) {
			done <- nil
			return
		}
		done <- f.restart(ctx, victim)
	}()
	return func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// wait says whether the time has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends all nodes: in good order, the owner last, or at once.
func (f *fleet) close(clean bool) (err error) {
	f.mu.Lock()
	nodes := slices.Clone(f.mu.nodes)
	f.mu.Unlock()
	for _, n := range slices.Backward(nodes) {
		switch {
		case n == nil:
		case clean:
			err = errors.Join(err, n.stop())
		default:
			n.kill()
		}
	}
	return err
}
