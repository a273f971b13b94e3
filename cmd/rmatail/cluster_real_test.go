package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/survey"
)

// site is a cluster of processes, of which the first owns the durable directory.
type site struct {
	dir, file string
	addrs     []string
	nodes     []*node
	life      time.Duration // of the nodes' processes; 0: patience
}

func (s *site) store() string { return filepath.Join(s.dir, "store") }

// name is that of a node.
func (s *site) name(i int) string { return fmt.Sprintf("n%d", i+1) }

// describe is a cluster file of the first nodes.
func (s *site) describe(nodes int) string {
	var b strings.Builder
	b.WriteString("name: test\nnodes:\n")
	for i := range nodes {
		fmt.Fprintf(&b, "  - {name: %s, addr: %q, arena: 8MiB, socket: %q", s.name(i), s.addrs[i], filepath.Join(s.dir, s.name(i)+".sock"))
		if i == 0 {
			fmt.Fprintf(&b, ", dir: %q", s.store())
		}
		b.WriteString("}\n")
	}
	b.WriteString("store: {node: n1}\n")
	return b.String()
}

// write makes the file say so, as careful writers do.
func (s *site) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

// startSite starts nodes of a cluster; there are addresses for spare more.
func startSite(t *testing.T, nodes, spare int) *site {
	t.Helper()
	s := &site{dir: shortDir(t), nodes: make([]*node, nodes+spare)}
	s.file = filepath.Join(s.dir, "cluster.yaml")
	for range nodes + spare {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.addrs = append(s.addrs, l.Addr().String())
	}
	s.write(t, s.describe(nodes))
	return s
}

// start starts a node and waits until it is ready.
func (s *site) start(t *testing.T, i int) {
	t.Helper()
	n := &node{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	log := &lockedBuffer{b: n.stderr}
	n.cmd = commandFor(t, cmp.Or(s.life, patience), "serve", "--json", "--cluster", s.file, "--node", s.name(i))
	n.cmd.Stderr = log
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
		t.Fatalf("node %s says %q: %v\n%s", s.name(i), line, err, log)
	}
	if err := json.Unmarshal(line, &n.ready); err != nil {
		t.Fatal(err)
	}
	n.addr = n.ready.Listen
	go func() {
		n.cmd.Wait()
		close(n.ended)
	}()
	s.nodes[i] = n
	t.Cleanup(func() { n.end(t, syscall.SIGTERM) })
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// log is what a node has said so far.
func (s *site) log(i int) string { return s.nodes[i].cmd.Stderr.(*lockedBuffer).String() }

// survey is `rmatail stat --cluster --json`.
func (s *site) survey(t *testing.T, args ...string) survey.Report {
	t.Helper()
	r := must(t, nil, append([]string{"stat", "--cluster", s.file, "--json"}, args...)...)
	var report survey.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%q: %v", r.stdout, err)
	}
	return report
}

// TestRealClusterServesAndLosesANode: what is appended through the owner is read from
// replicas, is shown by stat, and is read when nodes are gone.
func TestRealClusterServesAndLosesANode(t *testing.T) {
	s := startSite(t, 3, 0)
	for i := range s.nodes {
		s.start(t, i)
		if r := s.nodes[i].ready; r.Node != s.name(i) || r.Listen != s.addrs[i] || !strings.HasSuffix(r.Socket, s.name(i)+".sock") {
			t.Errorf("node %d is ready as %+v", i, r)
		}
	}
	text := numbered(60_000) // some 400 KB: several extents
	must(t, strings.NewReader(text), "append", "--cluster", s.file, "logs/0")
	if r := must(t, nil, "tail", "--cluster", s.file, "logs/0", "--from", "earliest"); r.stdout != text {
		t.Errorf("%d bytes were read, %d appended", len(r.stdout), len(text))
	}
	if r := must(t, nil, "ls", "--cluster", s.file, "--names"); r.stdout != "logs/0000\n" {
		t.Errorf("ls says %q", r.stdout)
	}
	var report survey.Report
	eventually(t, "all replicas published, and all they hold", func() bool {
		report = s.survey(t)
		return settled(report)
	})
	for i, n := range report.Nodes {
		if !n.Up || n.Error != "" || n.Name != s.name(i) || n.Store != (i == 0) || n.Epoch == 0 || n.HitRate == nil || *n.HitRate != 1 || n.Publishes == 0 || n.Extents.Used == 0 {
			n.Stat = nil
			t.Errorf("node %d: %+v", i, n)
		}
	}
	if sh := report.Shards[0]; sh.Shard != "logs/0000" || sh.Length != uint64(len(text)) || len(sh.Replicas) != 3 {
		t.Errorf("shard %+v", sh)
	}
	for _, r := range report.Shards[0].Replicas {
		if r.Published != uint64(len(text)) || r.Lag != 0 || r.Writer == "" {
			t.Errorf("replica %+v", r)
		}
	}
	// A file that has two addresses the wrong way round is noticed.
	swapped := &site{dir: s.dir, addrs: []string{s.addrs[0], s.addrs[2], s.addrs[1]}, file: s.file + ".swapped"}
	swapped.write(t, swapped.describe(3))
	if n := swapped.survey(t).Nodes[1]; !n.Up || !strings.Contains(n.Error, `is "n3" by its own account`) {
		t.Errorf("node n2 at the address of n3: %q", n.Error)
	}
	// Two of three are lost: the owner and its memory are what is left.
	s.nodes[1].end(t, syscall.SIGKILL)
	s.nodes[2].end(t, syscall.SIGKILL)
	if r := must(t, nil, "tail", "--cluster", s.file, "logs/0", "--from", "earliest"); r.stdout != text {
		t.Errorf("%d bytes were read when two nodes were gone", len(r.stdout))
	}
	must(t, strings.NewReader("more\n"), "append", "--cluster", s.file, "logs/0")
	if r := must(t, nil, "tail", "--cluster", s.file, "logs/0", "--from", "-1"); r.stdout != "more\n" {
		t.Errorf("the last line is %q", r.stdout)
	}
	report = s.survey(t, "logs/0")
	if report.Nodes[1].Up || report.Nodes[1].Error == "" || !report.Nodes[0].Up || report.Nodes[1].Missing == nil || *report.Nodes[1].Missing == 0 {
		t.Errorf("nodes %+v", report.Nodes)
	}
	r := must(t, nil, "stat", "--cluster", s.file)
	if !strings.Contains(r.stdout, "1 of 3 nodes up") || !strings.Contains(r.stdout, "down") || !strings.Contains(r.stdout, "connection refused") {
		t.Errorf("stat says\n%s", r.stdout)
	}
	if r := rmatail(t, nil, "stat", "--cluster", s.file, "logs/9"); r.code != exitError || !strings.Contains(r.stderr, "logs/0009") {
		t.Errorf("stat of a shard that is not there: %d\n%s", r.code, r.stderr)
	}
}

// settled says whether every replica has published every shard under a lease, and
// holds what it should.
func settled(r survey.Report) bool {
	for _, n := range r.Nodes {
		if n.HitRate == nil || *n.HitRate < 1 || n.Publishes == 0 {
			return false
		}
	}
	for _, sh := range r.Shards {
		for _, replica := range sh.Replicas {
			if replica.Lag > 0 || replica.Error != "" || replica.Writer == "" {
				return false
			}
		}
	}
	return len(r.Shards) > 0
}

// TestRealNodesFollowTheClusterFile: a node that joins gets its share, SIGHUP reads
// the file at once, and a broken file changes nothing.
func TestRealNodesFollowTheClusterFile(t *testing.T) {
	s := startSite(t, 3, 1)
	for i := range 3 {
		s.start(t, i)
	}
	must(t, strings.NewReader(numbered(1000)), "append", "--cluster", s.file, "logs/0")
	s.write(t, strings.Replace(s.describe(4), "store:", "stor:", 1))
	eventually(t, "the mistake in the owner's log", func() bool { return strings.Contains(s.log(0), "perhaps store") })
	// The watch says it once; SIGHUP has it said again.
	said := func() int { return strings.Count(s.log(1), "perhaps store") }
	eventually(t, "the mistake in another's log", func() bool { return said() == 1 })
	if err := s.nodes[1].cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mistake again", func() bool { return said() == 2 })
	s.write(t, s.describe(4))
	s.start(t, 3)
	eventually(t, "the owner to see the new node", func() bool { return strings.Contains(s.log(0), "joined=[n4]") })
	text := numbered(150_000) // some 1 MB: 16 extents, of which the new node misses one with (1/4)^16
	must(t, strings.NewReader(text), "append", "--cluster", s.file, "logs/1")
	eventually(t, "the new node to hold its share", func() bool {
		r := s.survey(t)
		n := r.Nodes[3]
		return n.Up && n.Extents.Used > 0 && n.HitRate != nil && *n.HitRate == 1
	})
	if r := must(t, nil, "tail", "--cluster", s.file, "logs/1", "--from", "earliest"); r.stdout != text {
		t.Errorf("%d bytes were read, %d appended", len(r.stdout), len(text))
	}
	s.write(t, s.describe(3))
	eventually(t, "the fourth node to see that it left", func() bool { return strings.Contains(s.log(3), "no longer in the cluster file") })
}

// TestRealAppendToADirectoryMirrorsToTheCluster: the writer owns the store itself.
func TestRealAppendToADirectoryMirrorsToTheCluster(t *testing.T) {
	s := startSite(t, 3, 0)
	mounted := strings.Replace(s.describe(3), fmt.Sprintf(", dir: %q", s.store()), "", 1)
	mounted = strings.Replace(mounted, "store: {node: n1}", fmt.Sprintf("store: {dir: %q}", s.store()), 1)
	s.write(t, mounted)
	for i := range s.nodes {
		s.start(t, i)
	}
	if err := os.Mkdir(s.store(), 0o755); err != nil {
		t.Fatal(err)
	}
	text := numbered(30_000)
	follower := command(t, "tail", "--cluster", s.file, "logs/0", "--from", "earliest", "-f", "-o", "json")
	must(t, strings.NewReader("first\n"), "append", "--cluster", s.file, "logs/0")
	var got, said bytes.Buffer
	follower.Stdout, follower.Stderr = &got, &said
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	must(t, strings.NewReader(text), "append", "--cluster", s.file, "--dir", s.store(), "--seal", "logs/0")
	if err := follower.Wait(); err != nil {
		t.Errorf("tail: %v\n%s", err, said.String())
	}
	lines := strings.Split(strings.TrimSuffix(got.String(), "\n"), "\n")
	if len(lines) != 30_001 {
		t.Errorf("%d lines were followed, want 30001", len(lines))
	}
	report := s.survey(t)
	for _, n := range report.Nodes {
		if n.Puts == 0 || n.Publishes == 0 || n.Store {
			n.Stat = nil
			t.Errorf("node %+v", n)
		}
	}
	if r := must(t, nil, "ls", "--cluster", s.file, "--names"); r.stdout != "logs/0000\n" {
		t.Errorf("ls says %q", r.stdout)
	}
}

// TestRealServeRefusesAWrongNode: each with what there is.
func TestRealServeRefusesAWrongNode(t *testing.T) {
	s := startSite(t, 2, 0)
	if r := rmatail(t, nil, "serve", "--cluster", s.file, "--node", "n9"); r.code != exitUsage || !strings.Contains(r.stderr, "there are n1, n2") {
		t.Errorf("%d\n%s", r.code, r.stderr)
	}
	if r := rmatail(t, nil, "serve", "--cluster", filepath.Join(s.dir, "absent"), "--node", "n1"); r.code != exitError || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("%d\n%s", r.code, r.stderr)
	}
	s.write(t, "nodes: 1\n")
	for _, args := range [][]string{{"serve", "--node", "n1"}, {"tail", "a/0"}, {"append", "a/0"}, {"ls"}, {"stat"}} {
		r := rmatail(t, nil, append(args, "--cluster", s.file)...)
		if r.code != exitError || !strings.Contains(r.stderr, s.file+":1:8: nodes: ") || !strings.Contains(r.stderr, s.file+":1:1: store: missing") {
			t.Errorf("%v: %d\n%s", args, r.code, r.stderr)
		}
	}
}
