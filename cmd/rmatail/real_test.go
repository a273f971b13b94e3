package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// numbered is n lines that all differ.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the test\n", i)
	}
	return b.String()
}

func TestRealAppendTailListStat(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--http", "127.0.0.1:0")
	server := []string{"--server", n.addr}
	text := numbered(30_000)
	r := must(t, strings.NewReader(text), slices.Concat([]string{"append", "logs/0", "--json"}, server)...)
	var sum appended
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || sum.Bytes != uint64(len(text)) || sum.Lines != 30_000 || sum.To != uint64(len(text)) || sum.Shard != "logs/0000" {
		t.Errorf("append says %+v, %v", sum, err)
	}
	must(t, strings.NewReader("no newline"), slices.Concat([]string{"append", "logs/0000"}, server)...)
	must(t, strings.NewReader("raw, no newline"), slices.Concat([]string{"append", "logs/0001", "--raw"}, server)...)
	must(t, strings.NewReader("x"), slices.Concat([]string{"append", "other/0007", "--raw"}, server)...)
	all := text + "no newline\n"

	for _, transport := range []string{"auto", "shm", "tcp"} {
		r := must(t, nil, slices.Concat([]string{"tail", "logs/0000", "--from", "earliest", "--transport", transport}, server)...)
		if r.stdout != all {
			t.Errorf("%s: tail gives %d bytes, want the %d that were appended", transport, len(r.stdout), len(all))
		}
		if want := "transport=" + strings.Replace(transport, "auto", "shm", 1); !strings.Contains(r.stderr, want) {
			t.Errorf("%s: standard error does not tell the source (%s):\n%s", transport, want, r.stderr)
		}
	}
	lines := strings.SplitAfter(all, "\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, strings.Join(lines[len(lines)-11:], "")},
		{[]string{"--from", "-3"}, strings.Join(lines[len(lines)-4:], "")},
		{[]string{"--from=-20000"}, strings.Join(lines[len(lines)-20001:], "")},
		{[]string{"--from", "latest"}, ""},
		{[]string{"--from", "earliest", "-n", "2"}, lines[0] + lines[1]},
		{[]string{"--from", "100000", "-n", "1"}, all[100000 : 100000+strings.IndexByte(all[100000:], '\n')+1]},
		{[]string{"--from", fmt.Sprint(len(all))}, ""},
	} {
		if r := must(t, nil, slices.Concat([]string{"tail", "logs/0"}, c.args, server)...); r.stdout != c.want {
			t.Errorf("tail %v: %.80q (%d bytes), want %.80q (%d)", c.args, r.stdout, len(r.stdout), c.want, len(c.want))
		}
	}
	r = must(t, nil, slices.Concat([]string{"tail", "logs/0001", "-o", "json"}, server)...)
	if want := `{"shard":"logs/0001","position":0,"source":"shm","data":"raw, no newline","partial":true}` + "\n"; r.stdout != want {
		t.Errorf("got %swant %s", r.stdout, want)
	}

	if r := must(t, nil, slices.Concat([]string{"ls", "--names"}, server)...); r.stdout != "logs/0000\nlogs/0001\nother/0007\n" {
		t.Errorf("ls --names: %q", r.stdout)
	}
	r = must(t, nil, slices.Concat([]string{"ls", "other", "--json"}, server)...)
	var info shardInfo
	if err := json.Unmarshal([]byte(r.stdout), &info); err != nil || info.Shard != "other/0007" || info.Length != 1 || info.Sealed || len(info.Incarnation) != 16 {
		t.Errorf("ls --json: %q, %v", r.stdout, err)
	}
	r = must(t, nil, slices.Concat([]string{"stat", "logs/0000", "--json"}, server)...)
	if err := json.Unmarshal([]byte(r.stdout), &info); err != nil || info.Length != uint64(len(all)) || info.First != 0 {
		t.Errorf("stat --json: %q, %v", r.stdout, err)
	}
	r = must(t, nil, slices.Concat([]string{"stat", "--json"}, server)...)
	var state map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &state); err != nil || state["listen"] != n.addr {
		t.Errorf("stat of the node: %q, %v", r.stdout, err)
	}
	for _, args := range [][]string{{"ls"}, {"stat"}, {"stat", "logs/0"}} {
		if r := must(t, nil, append(args, server...)...); len(r.stdout) == 0 {
			t.Errorf("%v prints nothing", args)
		}
	}
	if n.ready.HTTP == "" || n.ready.Socket == "" {
		t.Errorf("the node is ready at %+v, without its HTTP address or socket", n.ready)
	}
}

func TestRealWithoutANodeTheDirectoryIsEnough(t *testing.T) {
	dir := t.TempDir()
	text := numbered(1000)
	must(t, strings.NewReader(text), "append", "--dir", dir, "--seal", "--policy", "never", "logs/0000")
	if r := must(t, nil, "tail", "--dir", dir, "logs/0000", "--from", "earliest", "--follow"); r.stdout != text { // sealed: it ends
		t.Errorf("tail gives %d bytes, want %d", len(r.stdout), len(text))
	}
	if r := must(t, nil, "ls", "--dir", dir); !strings.Contains(r.stdout, "true") {
		t.Errorf("ls does not show that the shard is sealed:\n%s", r.stdout)
	}
	if r := must(t, nil, "stat", "--dir", dir, "logs/0000"); !strings.Contains(r.stdout, fmt.Sprint(len(text))) {
		t.Errorf("stat does not show the length:\n%s", r.stdout)
	}
	if r := rmatail(t, strings.NewReader("more\n"), "append", "--dir", dir, "logs/0000"); r.code != exitError || !strings.Contains(r.stderr, "sealed") {
		t.Errorf("append to a sealed shard: %d, %s", r.code, r.stderr)
	}
}

// TestRealAppendDirectlyWithAMirror is a producer on a host that opens the store,
// beside a node that is a cache alone.
func TestRealAppendDirectlyWithAMirror(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t)
	text := numbered(5000)
	must(t, strings.NewReader(text), "append", "--dir", dir, "--server", n.addr, "logs/0000")
	r := must(t, nil, "tail", "--dir", dir, "--server", n.addr, "logs/0000", "--from", "earliest")
	if r.stdout != text || !strings.Contains(r.stderr, "transport=shm") {
		t.Errorf("tail gives %d bytes, want %d from the cache\n%s", len(r.stdout), len(text), r.stderr)
	}
	if r := rmatail(t, nil, "ls", "--server", n.addr); r.code != exitError || !strings.Contains(r.stderr, "--dir") {
		t.Errorf("ls of a cache: %d, %s", r.code, r.stderr)
	}
}

func TestRealErrorsSayWhatToDo(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	must(t, strings.NewReader("x\n"), "append", "--server", n.addr, "logs/0")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"tail", "absent/0", "--server", n.addr}, exitError, "rmatail ls"},
		{[]string{"stat", "absent/0", "--server", n.addr}, exitError, "unknown shard"},
		{[]string{"tail", "logs/0", "--server", n.addr, "--from", "3"}, exitError, "the end is 2"},
		{[]string{"tail", "logs/0", "--server", "127.0.0.1:1"}, exitError, "rmatail serve"},
		{[]string{"append", "logs/0", "--server", "127.0.0.1:1", "--retry-for", "0s"}, exitError, "rmatail serve"},
		{[]string{"tail", "logs", "--server", n.addr}, exitUsage, "STREAM/NUMBER"},
		{[]string{"tail", strings.Repeat("x", 200) + "/0", "--server", n.addr}, exitUsage, "128"},
		{[]string{"serve", "--listen", n.addr, "--socket", "none"}, exitError, "--listen"},
		{[]string{"tail", "logs/0", "--dir", "/nonexistent/store"}, exitError, "/nonexistent/store"},
	} {
		r := rmatail(t, strings.NewReader(""), c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("rmatail %v: exit code %d, want %d, and %q in:\n%s", c.args, r.code, c.code, c.says, r.stderr)
		}
	}
}

func TestRealEnvironmentSetsFlags(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	c := command(t, "append", "logs/0")
	c.Env = append(c.Env, "RMATAIL_SERVER="+n.addr, "RMATAIL_JSON=true")
	c.Stdin = strings.NewReader("a\nb\n")
	if r := finish(t, c); r.code != 0 || !strings.Contains(r.stdout, `"lines":2`) {
		t.Errorf("append with RMATAIL_SERVER and RMATAIL_JSON: %+v", r)
	}
	c = command(t, "tail", "logs/0")
	c.Env = append(c.Env, "RMATAIL_SERVER="+n.addr, "RMATAIL_FROM=-1", "RMATAIL_LOG_LEVEL=error")
	if r := finish(t, c); r.stdout != "b\n" || r.stderr != "" {
		t.Errorf("tail with RMATAIL_FROM and RMATAIL_LOG_LEVEL: %+v", r)
	}
}

// TestRealGapIsExitCode3 removes the oldest segment file, which is how retention
// works.
func TestRealGapIsExitCode3(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--segment-bytes", "4KiB", "--arena", "2MiB", "--ttl", "1ms")
	for range 4 {
		must(t, strings.NewReader(numbered(200)), "append", "--server", n.addr, "logs/0")
	}
	segments, err := filepath.Glob(filepath.Join(dir, "logs", "0000", "*.log"))
	if err != nil || len(segments) < 2 {
		t.Fatalf("segments: %v, %v", segments, err)
	}
	slices.Sort(segments)
	if err := os.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	r := rmatail(t, nil, "tail", "--server", n.addr, "logs/0", "--from", "0")
	if r.code != exitGap || !strings.Contains(r.stderr, "out of retention") || !strings.Contains(r.stderr, "--from ") {
		t.Errorf("tail --from 0: exit code %d, want %d\n%s", r.code, exitGap, r.stderr)
	}
	if r := must(t, nil, "tail", "--server", n.addr, "logs/0", "--from", "earliest", "-n", "1"); r.stdout == "" {
		t.Error("tail --from earliest gives nothing")
	}
	if r := must(t, nil, "tail", "--server", n.addr, "logs/0", "--from", "-10000"); r.stdout == "" {
		t.Error("tail --from -10000 gives nothing")
	}
}

// TestRealTailEndsUnderAProducer: without --follow the end is the one that there was at
// first, however fast a producer moves it.
func TestRealTailEndsUnderAProducer(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir, "--policy", "never")
	producer := command(t, "append", "--server", n.addr, "logs/0")
	in, err := producer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.Start(); err != nil {
		t.Fatal(err)
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		lines := []byte(numbered(3000))
		for {
			if _, err := in.Write(lines); err != nil {
				return
			}
		}
	}()
	defer func() {
		producer.Process.Kill()
		<-fed
		producer.Wait()
	}()
	eventually(t, "the producer to be under way", func() bool { return length(t, dir, "logs/0000") > 1<<20 })
	before := length(t, dir, "logs/0000")
	c := command(t, "tail", "--server", n.addr, "logs/0", "--from", "earliest")
	timer := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer timer.Stop()
	r := finish(t, c)
	if r.code != exitDone || len(r.stdout) < before || !strings.HasPrefix(r.stdout, numbered(3000)) {
		t.Errorf("exit code %d, %d bytes of at least %d\n%s", r.code, len(r.stdout), before, r.stderr)
	}
	eventually(t, "the producer to go on", func() bool { return length(t, dir, "logs/0000") > len(r.stdout) })
}

func TestRealFollowEndsInGoodOrderAtASignal(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	must(t, strings.NewReader("old\n"), "append", "--server", n.addr, "logs/0")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := command(t, "tail", "--server", n.addr, "logs/0", "--from", "latest", "-f", "-o", "json")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(out)
		records := make(chan record)
		go func() {
			defer close(records)
			for {
				var rec record
				if dec.Decode(&rec) != nil {
					return
				}
				records <- rec
			}
		}()
		// It is not known when tail has begun; whatever is appended after that comes.
		var got record
		for ok := false; !ok; {
			must(t, strings.NewReader("new\n"), "append", "--server", n.addr, "logs/0")
			select {
			case got, ok = <-records:
				if !ok {
					t.Fatal("tail has ended")
				}
			default:
			}
		}
		if *got.Data != "new" || got.Source != "shm" {
			t.Errorf("tail gives %+v", got)
		}
		c.Process.Signal(s)
		for range records { // until it closes its output
		}
		c.Wait()
		if code := c.ProcessState.ExitCode(); code != exitDone {
			t.Errorf("tail -f ends with %d after %v", code, s)
		}
	}
}

// TestRealAppendKeepsWhatItReadBeforeASignal interrupts an append whose input is
// still open.
func TestRealAppendKeepsWhatItReadBeforeASignal(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	c := command(t, "append", "--server", n.addr, "logs/0", "--json")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "one\ntwo\nhalf")
	eventually(t, "the first lines in the shard", func() bool {
		return strings.Contains(rmatail(t, nil, "stat", "--server", n.addr, "logs/0", "--json").stdout, `"length":8`)
	})
	c.Process.Signal(syscall.SIGINT)
	c.Wait()
	var sum appended
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil || sum.Input != 8 || c.ProcessState.ExitCode() != exitError || !strings.Contains(stderr.String(), "tail -c +9") {
		t.Errorf("exit code %d, %+v, %v\n%s", c.ProcessState.ExitCode(), sum, err, stderr.String())
	}
	if r := must(t, nil, "tail", "--server", n.addr, "logs/0"); r.stdout != "one\ntwo\n" {
		t.Errorf("the shard holds %q", r.stdout)
	}
}

func TestRealTailIntoAClosedPipeEnds(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	must(t, strings.NewReader(numbered(100_000)), "append", "--server", n.addr, "logs/0")
	c := command(t, "tail", "--server", n.addr, "logs/0", "--from", "earliest", "-f")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, 10))
	out.Close()
	c.Wait() // by SIGPIPE, as other tools
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !(ws.Signaled() && ws.Signal() == syscall.SIGPIPE || ws.ExitStatus() == exitError) {
		t.Errorf("tail into a closed pipe: %v", c.ProcessState)
	}
}

// TestRealAppendGoesOnWhenTheNodeIsBack kills the node again and again in the
// middle of an append: nothing is missing and nothing doubled.
func TestRealAppendGoesOnWhenTheNodeIsBack(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--dir", dir)
	addr := n.addr
	c := command(t, "append", "--server", addr, "logs/0", "--batch", "4KiB", "--json")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	text := numbered(60_000)
	parts := 4
	length := func() uint64 {
		var i shardInfo
		json.Unmarshal([]byte(rmatail(t, nil, "stat", "--dir", dir, "logs/0", "--json").stdout), &i)
		return i.Length
	}
	for part := range parts {
		from, to := len(text)*part/parts, len(text)*(part+1)/parts
		written := make(chan struct{})
		go func() {
			defer close(written)
			io.WriteString(in, text[from:to])
		}()
		eventually(t, "a part of the input in the shard", func() bool { return length() > uint64(from) })
		if part < parts-1 {
			n.end(t, syscall.SIGKILL)
			n = startNode(t, "--listen", addr, "--dir", dir)
		}
		await(t, written, "the input to be taken")
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Fatalf("append: %v\n%s", err, stderr.String())
	}
	var sum appended
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil || sum.Retries == 0 {
		t.Errorf("append says %s, %v; want retries", stdout.String(), err)
	}
	if r := must(t, nil, "tail", "--dir", dir, "logs/0", "--from", "earliest"); r.stdout != text {
		t.Errorf("%d bytes in the shard differ from the %d of the input", len(r.stdout), len(text))
	}
}

func TestRealNodeStopsInGoodOrder(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		n := startNode(t, "--dir", t.TempDir())
		must(t, strings.NewReader("x\n"), "append", "--server", n.addr, "logs/0")
		if code := n.end(t, s); code != exitDone {
			t.Errorf("serve ends with %d after %v\n%s", code, s, n.stderr)
		}
		if _, err := os.Stat(n.ready.Socket); err == nil {
			t.Errorf("the socket is left behind after %v", s)
		}
	}
}
