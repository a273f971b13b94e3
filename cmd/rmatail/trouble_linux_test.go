package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hangTime is how long a sink hangs: past the time after which a request is tried
// again. RMATAIL_HANG=30s makes it longer.
func hangTime(t *testing.T) time.Duration {
	t.Helper()
	d := attemptTimeout + 2*time.Second
	if s := os.Getenv("RMATAIL_HANG"); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil || d > patience-10*time.Second {
			t.Fatalf("RMATAIL_HANG=%s: %v, want less than %v", s, err, patience-10*time.Second)
		}
	}
	return d
}

// heldMost is what an append holds of its input at most: what is on its way, what
// is read ahead, and what waits in the pipe.
const heldMost = 4<<20 + 8*(512<<10)

// A node that hangs holds up the input: memory stays bounded, and everything is there
// once when it goes on.
func TestRealNodeHangs(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--policy", "never")
	text := noise(48<<20, 11)
	f := feedAppend(t, text, "--server", n.addr, "logs/0", "--raw")
	eventually(t, "a part of the input in the shard", func() bool { return length(t, dir, "logs/0000") > 1<<20 })
	if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer n.cmd.Process.Signal(syscall.SIGCONT)
	hung := time.Now()
	taken := f.stalls()
	held := taken - int64(length(t, dir, "logs/0000"))
	if held > heldMost || taken == int64(len(text)) {
		t.Errorf("%d bytes of %d are taken, %d not durable; want at most %d", taken, len(text), held, heldMost)
	}
	rest := time.NewTimer(time.Until(hung.Add(hangTime(t))))
	defer rest.Stop()
	<-rest.C
	if now := f.taken.Load(); now != taken {
		t.Errorf("%d bytes more were taken while the node hung", now-taken)
	}
	if err := n.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sum, code := f.end()
	if code != 0 || sum.Bytes != uint64(len(text)) {
		t.Fatalf("exit code %d, %+v\n%s", code, sum, &f.said)
	}
	same(t, content(t, dir, "logs/0000"), text)
	t.Logf("report: a node hung for %v: %d bytes of input were held, %d tries again, nothing lost or doubled", hangTime(t), held, sum.Retries)
}

// fullStore is a directory with room for 2 MiB, until room is called.
func fullStore(t *testing.T) (dir string, room func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("no tmpfs (%v): run as root to fill a real disk; package producer has the same with a log that fails", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error("unmount:", err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 62<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, func() { os.Remove(ballast) }
}

// On a full disk an append waits, says why, and goes on when there is room.
func TestRealAppendToAFullDisk(t *testing.T) {
	dir, room := fullStore(t)
	text := noise(24<<20, 12)
	f := feedAppend(t, text, "--dir", dir, "logs/0", "--raw", "--retry-for", "50s")
	taken := f.stalls()
	if held := taken - int64(length(t, dir, "logs/0000")); held > heldMost || taken == int64(len(text)) {
		t.Errorf("%d bytes of %d are taken, %d not durable; want at most %d", taken, len(text), held, heldMost)
	}
	room()
	sum, code := f.end()
	if code != 0 || sum.Bytes != uint64(len(text)) {
		t.Fatalf("exit code %d, %+v\n%s", code, sum, &f.said)
	}
	same(t, content(t, dir, "logs/0000"), text)
	if !strings.Contains(f.said.String(), "no room") || !strings.Contains(f.said.String(), "free space") {
		t.Errorf("what it waits for is not told:\n%s", &f.said)
	}
}

// With a policy to drop, the input goes on on a full disk, and the exit code tells.
func TestRealAppendToAFullDiskDrops(t *testing.T) {
	dir, room := fullStore(t)
	text := numbered(1_000_000)
	f := feedAppend(t, []byte(text), "--dir", dir, "logs/0", "--retry-for", "50s", "--when-full", "drop-newest", "--queue", "1MiB", "--batch", "64KiB", "--in-flight", "512KiB")
	await(t, f.done, "the input to be taken on a full disk")
	room()
	sum, code := f.end()
	if code != exitError || sum.Dropped == 0 || sum.Dropped+sum.Input != uint64(len(text)) || sum.Bytes < 2<<20 {
		t.Errorf("exit code %d, %+v\n%s", code, sum, &f.said)
	}
	if got := content(t, dir, "logs/0000"); uint64(len(got)) != sum.Bytes || !strings.HasPrefix(text, string(got[:1<<20])) {
		t.Errorf("%d bytes in the shard, %d were reported", len(got), sum.Bytes)
	}
}

// Without patience the error says how much is durable, and what to do.
func TestRealAppendToAFullDiskGivesUp(t *testing.T) {
	dir, room := fullStore(t)
	text := noise(8<<20, 13)
	r := rmatail(t, bytes.NewReader(text), "append", "--dir", dir, "logs/0", "--raw", "--retry-for", "0s", "--json")
	var sum appended
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || r.code != exitError || !strings.Contains(r.stderr, "free space") {
		t.Fatalf("%+v, %v", r, err)
	}
	same(t, content(t, dir, "logs/0000"), text[:sum.Input])
	room()
	must(t, bytes.NewReader(text[sum.Input:]), "append", "--dir", dir, "logs/0", "--raw")
	same(t, content(t, dir, "logs/0000"), text)
}

func TestRealAppendToAReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, strings.NewReader("one\n"), "append", "--dir", dir, "logs/0")
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no bind mount (%v): run as root; package durable has the same with a file system that fails", err)
	}
	mounted := true
	unmount := func() {
		if mounted {
			mounted = false
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error("unmount:", err)
			}
		}
	}
	t.Cleanup(unmount)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	r := rmatail(t, strings.NewReader("two\n"), "append", "--dir", dir, "logs/0")
	if r.code != exitError || !strings.Contains(r.stderr, "read-only") || !strings.Contains(r.stderr, "check the mount and the owner") {
		t.Errorf("%+v", r)
	}
	if r := must(t, nil, "tail", "--dir", dir, "logs/0", "--from", "earliest"); r.stdout != "one\n" {
		t.Errorf("tail of it: %q", r.stdout)
	}
	unmount()
	must(t, strings.NewReader("two\n"), "append", "--dir", dir, "logs/0")
	same(t, content(t, dir, "logs/0000"), []byte("one\ntwo\n"))
}

// TestRealResumeOfADirectoryAfterKills kills an append that has a queue of its own.
func TestRealResumeOfADirectoryAfterKills(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	input := filepath.Join(t.TempDir(), "input")
	text := noise(16<<20, 14)
	if err := os.WriteFile(input, text, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, strings.NewReader("what was there\n"), "append", "--dir", dir, "logs/0")
	args := []string{"append", "--dir", dir, "logs/0", input, "--resume", "--state", state, "--batch", "48KiB"}
	for range 5 {
		c := command(t, append(args, "--rate", "30MiB")...)
		c.Stderr = io.Discard
		from := length(t, dir, "logs/0000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a part of the input in the shard", func() bool { return length(t, dir, "logs/0000") > from+1<<20 })
		c.Process.Kill()
		c.Wait()
		if !c.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatal("append ended by itself")
		}
	}
	for range 2 { // the second time nothing is left to do
		must(t, nil, args...)
		same(t, content(t, dir, "logs/0000"), append([]byte("what was there\n"), text...))
	}
	must(t, strings.NewReader("a stranger's line\n"), "append", "--dir", dir, "logs/0")
	if r := rmatail(t, nil, args...); r.code != exitError || !strings.Contains(r.stderr, state) {
		t.Errorf("resume behind another writer's bytes: %d, %s", r.code, r.stderr)
	}
}
