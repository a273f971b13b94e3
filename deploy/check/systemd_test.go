package check

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// units copies the units into a directory, with the program where they say it is.
func units(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no units: %v", err)
	}
	var copies []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), filepath.Base(p))
		if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte("/usr/local/bin/rmatail"), []byte(bin)), 0o600); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, path)
	}
	return copies
}

// TestUnits has systemd verify the units and rate how much is left open to them. The flags that they give are flags.
func TestUnits(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	for _, unit := range units(t) {
		name := filepath.Base(unit)
		if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
		if err != nil {
			t.Errorf("%s is more exposed than 2.0 of 10: %s", name, out)
		}
		b, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindSubmatch(b)
		parses(t, strings.Fields(string(line[1])))
		help, err := exec.Command(bin, "serve", "--help").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range regexp.MustCompile(`RMATAIL_[A-Z_]+`).FindAllString(string(b), -1) {
			if v != "RMATAIL_" && !strings.Contains(string(help), v) {
				t.Errorf("%s: rmatail serve has no variable %s", name, v)
			}
		}
	}
}

// TestRealSystemCalls runs a node that takes appends and serves reads, and holds each system call that it makes against the filter of the
// unit, as systemd resolves it.
func TestRealSystemCalls(t *testing.T) {
	analyze, strace := need(t, "systemd-analyze", "systemd"), need(t, "strace", "strace")
	allowed := group(t, analyze, "@system-service")
	for _, denied := range []string{"@privileged", "@resources"} {
		for call := range group(t, analyze, denied) {
			delete(allowed, call)
		}
	}
	unit := string(read(t, "deploy/systemd/rmatail.service"))
	if !strings.Contains(unit, "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n") {
		t.Fatal("the unit's filter is another one than this test's")
	}
	dir := t.TempDir()
	sum, listen := filepath.Join(dir, "calls"), free(t)
	node := exec.Command(strace, "-f", "-qq", "-c", "-o", sum, bin, "serve", "--dir", filepath.Join(dir, "store"), "--listen", listen,
		"--http", "127.0.0.1:0", "--socket", filepath.Join(dir, "arena.sock"), "--until-eof")
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	node.Stderr = &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = node.Process.Signal(syscall.SIGKILL) }()
	await(t, listen)
	in := exec.Command(bin, "append", "--server", listen, "logs/0000")
	in.Stdin = strings.NewReader(strings.Repeat("a line of a log\n", 10_000))
	if out, err := in.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, transport := range []string{"shm", "tcp"} {
		out, err := exec.Command(bin, "tail", "--server", listen, "--transport", transport, "logs/0000").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("a line of a log")) {
			t.Fatalf("%s: %v: %s", transport, err, out)
		}
	}
	stdin.Close()
	if err := node.Wait(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	f, err := os.Open(sum)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seen []string
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 || !strings.Contains(fields[0], ".") || fields[len(fields)-1] == "total" {
			continue
		}
		seen = append(seen, fields[len(fields)-1])
	}
	slices.Sort(seen)
	t.Logf("report: %d system calls of a node: %s", len(seen), strings.Join(seen, " "))
	if len(seen) < 20 {
		t.Fatalf("only %d system calls were seen", len(seen))
	}
	for _, call := range seen {
		if !allowed[call] {
			t.Errorf("the unit's filter refuses %s", call)
		}
	}
}

// group is a set of system calls, as systemd has it.
func group(t *testing.T, analyze, name string) map[string]bool {
	t.Helper()
	out, err := exec.Command(analyze, "syscall-filter", name).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	set := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		switch call := strings.TrimSpace(line); {
		case call == name, call == "", strings.HasPrefix(call, "#"):
		case strings.HasPrefix(call, "@"):
			for c := range group(t, analyze, call) {
				set[c] = true
			}
		default:
			set[call] = true
		}
	}
	return set
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await returns when something listens.
func await(t *testing.T, addr string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
	}
	t.Fatal(fmt.Sprint("nothing listens on ", addr))
}
