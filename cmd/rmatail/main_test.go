package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asCommand makes the test binary the command itself: the processes of the
// tests are built the same way as the tests, with the race detector if they are.
const asCommand = "BE_THE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests: far above what a loaded machine needs.
const patience = 60 * time.Second

// result is how a process ended.
type result struct {
	code           int
	stdout, stderr string
}

// command prepares a process of rmatail, in an environment without RMATAIL_*.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return commandFor(t, patience, args...)
}

// commandFor is command for a process that may live as long as life.
func commandFor(t *testing.T, life time.Duration, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), life)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, os.Args[0], args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RMATAIL_") {
			c.Env = append(c.Env, e)
		}
	}
	// The race detector would wait for 1 s at the end of each process.
	c.Env = append(c.Env, asCommand+"=1", "GORACE=atexit_sleep_ms=20 "+os.Getenv("GORACE"))
	c.WaitDelay = time.Second
	return c
}

// rmatail runs a process to its end.
func rmatail(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	c := command(t, args...)
	c.Stdin = stdin
	return finish(t, c)
}

func finish(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", c.Args, err)
	}
	return result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// must is rmatail for a process that has to end with 0.
func must(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	r := rmatail(t, stdin, args...)
	if r.code != exitDone {
		t.Fatalf("rmatail %v: exit code %d\n%s", args, r.code, r.stderr)
	}
	return r
}

// node is a serving process.
type node struct {
	cmd    *exec.Cmd
	addr   string
	ready  ready
	stderr *bytes.Buffer
	ended  chan struct{}
}

// startNode starts a node and waits until it is ready. Its end is the test's.
func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	n := &node{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	if len(args) == 0 || args[0] != "--listen" {
		args = append([]string{"--listen", "127.0.0.1:0"}, args...)
	}
	socket := filepath.Join(shortDir(t), "s")
	n.cmd = command(t, append([]string{"serve", "--json", "--socket", socket}, args...)...)
	n.cmd.Stderr = n.stderr
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		n.cmd.Wait()
		t.Fatalf("node says %q: %v\n%s", line, err, n.stderr)
	}
	if err := json.Unmarshal(line, &n.ready); err != nil {
		t.Fatalf("node says %q: %v", line, err)
	}
	n.addr = n.ready.Listen
	go func() {
		n.cmd.Wait()
		close(n.ended)
	}()
	t.Cleanup(func() { n.end(t, syscall.SIGTERM) })
	return n
}

// shortDir is a temporary directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

// end sends a signal, unless the node has ended, and waits for it.
func (n *node) end(t *testing.T, s syscall.Signal) int {
	t.Helper()
	asked := false
	select {
	case <-n.ended:
	default:
		n.cmd.Process.Signal(s)
		asked = s != syscall.SIGKILL
	}
	await(t, n.ended, "the node's end")
	code := n.cmd.ProcessState.ExitCode()
	if asked && code != exitDone { // -1: killed, as it did not end in time
		t.Errorf("node ended with %d\n%s", code, n.stderr)
	}
	return code
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
