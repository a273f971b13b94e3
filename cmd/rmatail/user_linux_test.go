package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// otherUser is no user of any system that has a name.
const otherUser = 54321

// asOther makes a command that of another user, with the given capabilities alone
// and 1 MiB of memory that may be locked without one. exe is the program, in a place
// that the user can reach.
func asOther(t *testing.T, exe string, caps []uintptr, args ...string) *exec.Cmd {
	t.Helper()
	c := command(t, args...)
	// The limit is set by a shell, as that of a process that a test starts is its own.
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -l 1024 && exec "$0" "$@"`, exe}, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}, AmbientCaps: caps}
	return c
}

// TestRealServeAsAnotherUser runs a node as an ordinary user with CAP_IPC_LOCK and
// nothing else: it locks more memory than its limit, serves appends, durable reads,
// TCP and shared memory. Without the capability it says what is missing, and serves
// all the same when nothing is to be locked.
func TestRealServeAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user; the other tests of this package run nodes as an ordinary user then")
	}
	dir := shortDir(t)
	exe, store := filepath.Join(dir, "rmatail"), filepath.Join(dir, "store")
	if err := copyFile(exe, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(store, 0o700), os.Chown(store, otherUser, otherUser)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	start := func(caps []uintptr, args ...string) (*node, error) {
		n := &node{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
		n.cmd = asOther(t, exe, caps, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--dir", store, "--socket", filepath.Join(store, "s"), "--arena", "16MiB"}, args...)...)
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
			return nil, fmt.Errorf("node says %q: %w\n%s", line, err, n.stderr)
		}
		if err := json.Unmarshal(line, &n.ready); err != nil {
			t.Fatal(err)
		}
		n.addr = n.ready.Listen
		go func() {
			n.cmd.Wait()
			close(n.ended)
		}()
		t.Cleanup(func() { n.end(t, syscall.SIGTERM) })
		return n, nil
	}
	if _, err := start(nil, "--mlock"); err == nil || !strings.Contains(err.Error(), "CAP_IPC_LOCK") || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("locking beyond the limit, without the capability: %v", err)
	}
	for name, caps := range map[string][]uintptr{"nothing": nil, "CAP_IPC_LOCK": {unix.CAP_IPC_LOCK}} {
		var args []string
		if caps != nil {
			args = []string{"--mlock"}
		}
		n, err := start(caps, args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		wantCaps := fmt.Sprintf("CapEff:\t%016x\n", len(caps)<<unix.CAP_IPC_LOCK)
		if !strings.Contains(string(status), wantCaps) || !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d\n", otherUser, otherUser, otherUser, otherUser)) {
			t.Errorf("%s: the node runs as somebody else, or with more than %q:\n%s", name, wantCaps, status)
		}
		if locked := strings.Contains(string(status), "VmLck:\t       0 kB"); locked == (caps != nil) {
			t.Errorf("%s: locked memory:\n%s", name, status)
		}
		text := numbered(2_000)
		stream := "logs-" + name + "/0"
		must(t, strings.NewReader(text), "append", stream, "--server", n.addr)
		for _, transport := range []string{"tcp", "shm"} {
			if r := must(t, nil, "tail", stream, "--server", n.addr, "--from", "earliest", "--transport", transport); r.stdout != text {
				t.Errorf("%s: %d bytes of %d over %s", name, len(r.stdout), len(text), transport)
			}
		}
		// A consumer of the same user, with nothing at all.
		c := asOther(t, exe, nil, "tail", stream, "--server", n.addr, "--from", "earliest", "--transport", "shm")
		if r := finish(t, c); r.code != 0 || r.stdout != text || !strings.Contains(r.stderr, "transport=shm") {
			t.Errorf("%s: a consumer of that user: exit code %d, %d bytes\n%s", name, r.code, len(r.stdout), r.stderr)
		}
		n.end(t, syscall.SIGTERM)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
