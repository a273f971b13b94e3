package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
)

// noise is n bytes of lines, some of them long, not all of them UTF-8.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n+300)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%d %x ", i, r.Uint64())
		for range r.IntN(200) {
			b = append(b, byte(32+r.IntN(224)))
		}
		b = append(b, '\n')
	}
	return b[:n]
}

// content reads a shard from its directory, whoever has it open.
func content(t *testing.T, dir, shard string) []byte {
	t.Helper()
	d, err := durable.Open(dir, durable.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i, err := d.Stat(context.Background(), shard)
	if err != nil {
		return nil
	}
	b := make([]byte, i.Length)
	if n, err := d.ReadAt(context.Background(), shard, 0, b); err != nil && err != io.EOF || n < len(b) {
		t.Fatalf("%d of %d bytes: %v", n, len(b), err)
	}
	return b
}

func length(t *testing.T, dir, shard string) int {
	t.Helper()
	d, err := durable.Open(dir, durable.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i, _ := d.Stat(context.Background(), shard)
	return int(i.Length)
}

func same(t *testing.T, got, want []byte) {
	t.Helper()
	if sha256.Sum256(got) == sha256.Sum256(want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%d bytes are in the shard, want %d; they differ from %d on: %.60q, want %.60q", len(got), len(want), i, got[i:], want[i:])
}

func TestRealAppendOf64MiBIsTheInput(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir)
	text := noise(64<<20, 7)
	r := must(t, bytes.NewReader(text), "append", "--server", n.addr, "logs/0", "--raw", "--json")
	var sum appended
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || sum.Bytes != 64<<20 {
		t.Errorf("%s, %v", r.stdout, err)
	}
	same(t, content(t, dir, "logs/0000"), text)
}

// TestRealResumeAfterKills kills append, and the node, again and again.
func TestRealResumeAfterKills(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	input := filepath.Join(t.TempDir(), "input")
	text := noise(24<<20, 3)
	if err := os.WriteFile(input, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "--dir", dir, "--policy", "never")
	addr := n.addr
	before := "what was there\n"
	must(t, strings.NewReader(before), "append", "--server", addr, "logs/0")
	args := []string{"append", "--server", addr, "logs/0", "--resume", "--state", state, "--batch", "64KiB"}
	kills := 8
	for i := range kills {
		c := command(t, append(args, "--rate", "40MiB")...)
		if i%2 == 0 {
			c.Args = append(c.Args, input)
		} else {
			f, err := os.Open(input)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c.Args = append(c.Args, input)
			c.Stdin = f
		}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		from := length(t, dir, "logs/0000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a part of the input in the shard", func() bool { return length(t, dir, "logs/0000") > from+1<<20 })
		if i%3 == 2 {
			n.end(t, syscall.SIGKILL)
			n = startNode(t, "--listen", addr, "--dir", dir, "--policy", "never")
			eventually(t, "more of the input in the shard", func() bool { return length(t, dir, "logs/0000") > from+3<<19 })
		}
		c.Process.Kill()
		c.Wait()
		if !c.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("append ended by itself\n%s", &stderr)
		}
	}
	must(t, nil, append(args, input)...)
	same(t, content(t, dir, "logs/0000"), append([]byte(before), text...))
	must(t, nil, append(args, input)...) // nothing is left to do
	same(t, content(t, dir, "logs/0000"), append([]byte(before), text...))

	must(t, strings.NewReader("a stranger's line\n"), "append", "--server", addr, "logs/0")
	if r := rmatail(t, nil, append(args, input)...); r.code != exitError || !strings.Contains(r.stderr, state) {
		t.Errorf("resume behind another writer's bytes: %d, %s", r.code, r.stderr)
	}
}

func TestRealResumeOfStandardInput(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir)
	input := filepath.Join(t.TempDir(), "input")
	text := noise(3<<20, 5)
	os.WriteFile(input, text[:1<<20], 0o600)
	for _, size := range []int{1 << 20, 2 << 20, 3 << 20} {
		os.WriteFile(input, text[:size], 0o600)
		f, err := os.Open(input)
		if err != nil {
			t.Fatal(err)
		}
		c := command(t, "append", "--server", n.addr, "logs/0", "--resume")
		c.Env = append(c.Env, "XDG_STATE_HOME="+filepath.Join(dir, "..", "xdg-"+filepath.Base(dir)))
		c.Stdin = f
		if r := finish(t, c); r.code != 0 {
			t.Fatal(r)
		}
		f.Close()
		same(t, content(t, dir, "logs/0000"), text[:size])
	}
	if r := rmatail(t, strings.NewReader("x"), "append", "--server", n.addr, "logs/0", "--resume", "--state", filepath.Join(t.TempDir(), "s")); r.code != exitUsage {
		t.Errorf("resume of a pipe: %d, %s", r.code, r.stderr)
	}
}

// following is an append --follow that is killed and started again.
type following struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	said *bytes.Buffer
}

func (f *following) start() {
	f.cmd, f.said = command(f.t, f.args...), &bytes.Buffer{}
	f.cmd.Stderr = f.said
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *following) end(s syscall.Signal) {
	f.cmd.Process.Signal(s)
	f.cmd.Wait()
	if code := f.cmd.ProcessState.ExitCode(); s == syscall.SIGINT && code != 0 {
		f.t.Errorf("append --follow ends with %d\n%s", code, f.said)
	}
}

// TestRealFollowThroughRotation writes under load, renames the log as soon as
// the follower has begun with it, leaves last lines without their ends, and kills
// the follower and the node meanwhile.
func TestRealFollowThroughRotation(t *testing.T) {
	dir, logs := t.TempDir(), t.TempDir()
	n := startNode(t, "--dir", dir)
	path := filepath.Join(logs, "app.log")
	state := filepath.Join(t.TempDir(), "state")
	f := &following{t: t, args: []string{"append", "--server", n.addr, "logs/0", "--follow", path, "--resume", "--state", state, "--rotate-wait", "300ms", "--batch", "16KiB"}}
	f.start() // before the file is there
	var want []byte
	for round := range 6 {
		text := noise(300<<10, uint64(round))
		w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		base := len(want)
		for rest := text; len(rest) > 0; {
			k := min(len(rest), 1+round*1111+4096)
			w.Write(rest[:k])
			rest = rest[k:]
			if len(rest) < len(text)/2 && len(rest)+k >= len(text)/2 {
				eventually(t, "the file to be followed", func() bool { return length(t, dir, "logs/0000") > base })
				switch round {
				case 1, 4:
					f.end(syscall.SIGKILL)
				case 2:
					f.end(syscall.SIGINT)
				case 3:
					addr := n.addr
					n.end(t, syscall.SIGKILL)
					n = startNode(t, "--listen", addr, "--dir", dir)
				}
				if err := os.Rename(path, fmt.Sprintf("%s.%d", path, round)); err != nil {
					t.Fatal(err)
				}
				if f.cmd.ProcessState != nil {
					f.start()
				}
			}
		}
		w.Close()
		want = append(want, text...)
		if text[len(text)-1] != '\n' {
			want = append(want, '\n')
		}
	}
	os.WriteFile(path, []byte("last\nhalf a li"), 0o600)
	want = append(want, "last\n"...)
	eventually(t, "everything", func() bool { return length(t, dir, "logs/0000") >= len(want) })
	f.end(syscall.SIGINT)
	same(t, content(t, dir, "logs/0000"), want)
	f.start()
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	io.WriteString(w, "ne\n")
	want = append(want, "half a line\n"...)
	eventually(t, "the rest of the line", func() bool { return length(t, dir, "logs/0000") >= len(want) })
	f.end(syscall.SIGTERM)
	same(t, content(t, dir, "logs/0000"), want)
}

// TestRealFollowThroughCopyAndTruncation truncates while the follower lags
// behind: the rest is in the copy.
func TestRealFollowThroughCopyAndTruncation(t *testing.T) {
	dir, logs := t.TempDir(), t.TempDir()
	n := startNode(t, "--dir", dir)
	path := filepath.Join(logs, "app.log")
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f := &following{t: t, args: []string{"append", "--server", n.addr, "logs/0", "--follow", path, "--json", "--rate", "4MiB", "--batch", "64KiB"}}
	f.start()
	var want []byte
	for round := range 3 {
		text := append(noise(4<<20, uint64(round)), '\n')
		w.Write(text)
		eventually(t, "the file to be followed", func() bool { return length(t, dir, "logs/0000") > len(want)+64<<10 })
		if err := os.WriteFile(fmt.Sprintf("%s.%d", path, round), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		want = append(want, text...)
	}
	io.WriteString(w, "the end\n")
	want = append(want, "the end\n"...)
	eventually(t, "everything", func() bool { return length(t, dir, "logs/0000") >= len(want) })
	f.end(syscall.SIGINT)
	same(t, content(t, dir, "logs/0000"), want)
	if !strings.Contains(f.said.String(), "truncated") {
		t.Errorf("truncation is not told:\n%s", f.said)
	}
}

func TestRealFollowHandsOutAPartialLine(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir)
	path := filepath.Join(t.TempDir(), "log")
	os.WriteFile(path, []byte("one\nunfinished"), 0o600)
	f := &following{t: t, args: []string{"append", "--server", n.addr, "logs/0", "--follow", path, "--partial-timeout", "50ms"}}
	f.start()
	eventually(t, "the unfinished line", func() bool { return length(t, dir, "logs/0000") == len("one\nunfinished") })
	f.end(syscall.SIGINT)
	same(t, content(t, dir, "logs/0000"), []byte("one\nunfinished\n"))
}

// TestRealSeveralAppendsAtOnce has writers that know nothing of each other: all
// of each one's lines are there, in its order.
func TestRealSeveralAppendsAtOnce(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--policy", "never")
	const writers, lines = 3, 4000
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			var b strings.Builder
			for i := range lines {
				fmt.Fprintf(&b, "%d %d %s\n", w, i, strings.Repeat("x", (i*7+w)%90))
			}
			r := rmatail(t, strings.NewReader(b.String()), "append", "--server", n.addr, "logs/0", "--in-flight", "1B", "--batch", "4KiB")
			if r.code != 0 {
				t.Errorf("writer %d: %d, %s", w, r.code, r.stderr)
			}
		})
	}
	all.Wait()
	var next [writers]int
	for line := range strings.Lines(string(content(t, dir, "logs/0000"))) {
		var w, i int
		if _, err := fmt.Sscanf(line, "%d %d", &w, &i); err != nil || next[w] != i {
			t.Fatalf("%.40q, want line %d of writer %d", line, next[w], w)
		}
		next[w]++
	}
	if next != [writers]int{lines, lines, lines} {
		t.Errorf("lines of each writer: %v", next)
	}
}

func TestRealRate(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--policy", "never")
	began := time.Now()
	must(t, bytes.NewReader(noise(1<<20, 1)), "append", "--server", n.addr, "logs/0", "--rate", "1MiB", "--batch", "64KiB")
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("1 MiB at 1 MiB/s took %v", took)
	}
}

// TestRealDropsAreCounted has input that comes faster than it may be appended.
func TestRealDropsAreCounted(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--policy", "never")
	text := numbered(200_000)
	r := rmatail(t, strings.NewReader(text), "append", "--server", n.addr, "logs/0", "--when-full", "drop-newest", "--queue", "1MiB", "--batch", "64KiB", "--rate", "2MiB", "--json")
	var sum appended
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.code != exitError || sum.Dropped == 0 || sum.Dropped+sum.Input != uint64(len(text)) || sum.DroppedLines+sum.Lines != 200_000 || !strings.Contains(r.stderr, "dropped") {
		t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	got := content(t, dir, "logs/0000")
	if uint64(len(got)) != sum.Bytes || !bytes.HasPrefix([]byte(text), got[:1<<19]) || got[len(got)-1] != '\n' {
		t.Errorf("%d bytes are in the shard, %d were reported", len(got), sum.Bytes)
	}
}

// TestRealHardLines appends lines that are longer than an append, that lie across
// borders of 4,096 bytes and of appends in the middle of a character, and a last one
// without its end: from a file, from standard input, and by following.
func TestRealHardLines(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(strings.Repeat("a", 4095) + "é, across the first border\n") // 0xc3 at 4095, 0xa9 at 4096
	b.WriteString("\n\r\n" + strings.Repeat("語", 5000) + "\n")                // 15,000 bytes, 3 each
	for b.Len()%4096 != 4094 {
		b.WriteByte('x')
	}
	b.WriteString("\U0001f600\n\xff\xfe not UTF-8 \xc3\n")
	b.WriteString(strings.Repeat("z", 40_000) + "\nno end")
	text := b.Bytes()
	path := filepath.Join(t.TempDir(), "app.log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(text), '\n')
	dir := t.TempDir()
	n := startNode(t, "--dir", dir)
	for shard, args := range map[string][]string{"logs/0000": {"--server", n.addr, path}, "logs/0001": {"--server", n.addr}, "file/0000": {"--dir", dir, path}, "file/0001": {"--dir", dir}} {
		r := must(t, bytes.NewReader(text), append([]string{"append", shard, "--batch", "4KiB", "--json"}, args...)...)
		var sum appended
		if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || sum.LongLines != 3 || sum.Input != uint64(len(text)) || sum.Lines != uint64(bytes.Count(want, []byte("\n"))) {
			t.Errorf("%v: %+v, %v; want 3 long lines, %d bytes of input", args, sum, err, len(text))
		}
		same(t, content(t, dir, shard), want)
	}
	f := &following{t: t, args: []string{"append", "--server", n.addr, "logs/0002", "--follow", path, "--batch", "4KiB"}}
	f.start()
	whole := bytes.LastIndexByte(text, '\n') + 1
	eventually(t, "all whole lines", func() bool { return length(t, dir, "logs/0002") >= whole })
	f.end(syscall.SIGINT) // the last line gets its end
	same(t, content(t, dir, "logs/0002"), want)
}
