package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/watch"
)

// TestRealTopOnATerminal: redraws in place with values that change, takes a new size,
// ends with q or by a signal, and leaves the terminal as it was.
func TestRealTopOnATerminal(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--policy", "never")
	add := func(text string) {
		t.Helper()
		must(t, strings.NewReader(text), "append", "--server", n.addr, "logs/0")
	}
	add("one line\n")
	for _, how := range []string{"q", "signal"} {
		master, slave := openTerminal(t)
		fd := int(slave.Fd())
		before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		seen := &lockedBuffer{b: &bytes.Buffer{}}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(seen, master) // until EIO: nobody has the other end
		}()
		c := command(t, "top", "--server", n.addr, "--every", "100ms")
		c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		last := func() (frame string) { // that is whole
			for f := range strings.SplitSeq(seen.String(), "\x1b[H") {
				if whole, ok := strings.CutSuffix(f, "\x1b[J"); ok {
					frame = whole
				}
			}
			return frame
		}
		eventually(t, "the shard, fine", func() bool { return strings.Contains(last(), "logs/0000") && strings.Contains(last(), "\x1b[32mfine") })
		grown := lengthOf(last())
		add(numbered(2000))
		eventually(t, "a length that grows", func() bool { return lengthOf(last()) != grown })
		if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 5, Col: 40}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a frame of 5 lines of 40 columns", func() bool {
			lines := strings.Split(strings.ReplaceAll(last(), "\r", ""), "\n")
			return len(lines) == 5 && len(strings.TrimSuffix(lines[1], "\x1b[K")) <= 40
		})
		if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil || now.Lflag&(unix.ICANON|unix.ECHO) != 0 {
			t.Errorf("keys are not read one by one: %v", err)
		}
		if how == "q" {
			if _, err := master.Write([]byte("xq")); err != nil {
				t.Fatal(err)
			}
		} else {
			c.Process.Signal(syscall.SIGINT)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("ended by %s: %v", how, err)
		}
		if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil || now.Lflag != before.Lflag || now.Cc != before.Cc {
			t.Errorf("ended by %s: the terminal is not as it was, %v", how, err)
		}
		slave.Close()
		<-read
		all := seen.String()
		if !strings.HasPrefix(all, "\x1b[?1049h") || !strings.HasSuffix(all, "\x1b[?25h\x1b[?1049l") {
			t.Errorf("the screen of before does not come back: %.40q ... %q", all, all[max(0, len(all)-40):])
		}
	}
}

// lengthOf is the LENGTH of the only shard of a frame.
func lengthOf(frame string) string {
	_, row, _ := strings.Cut(frame, "logs/0000")
	if words := strings.Fields(row); len(words) > 2 {
		return words[2]
	}
	return ""
}

// TestRealTopOfACluster: once for people, and as JSON, also with a node that is away.
func TestRealTopOfACluster(t *testing.T) {
	s := startSite(t, 3, 0)
	for i := range s.nodes {
		s.start(t, i)
	}
	must(t, strings.NewReader(numbered(10_000)), "append", "--cluster", s.file, "logs/0")
	must(t, strings.NewReader("x\n"), "append", "--cluster", s.file, "other/3")
	s.nodes[2].end(t, syscall.SIGKILL)
	var r result
	eventually(t, "two shards that are fine", func() bool { // what the owner of the store has not seen twice is not known yet
		r = must(t, nil, "top", "--cluster", s.file, "--once", "--every", "100ms")
		return strings.Contains(r.stdout, "2 shards: 2 fine")
	})
	for _, want := range []string{"rmatail test", "2 of 3 nodes up, 2 shards", "! n3 away: ", "logs/0000", "other/0003", "n1    up", "n3    away"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("escapes on what is no terminal: %q", r.stdout)
	}
	for _, stream := range []string{"other", "other/3"} {
		var f watch.Frame
		r = must(t, nil, "top", "--cluster", s.file, "--once", "--json", "--every", "100ms", stream)
		if err := json.Unmarshal([]byte(r.stdout), &f); err != nil || strings.Count(r.stdout, "\n") != 1 || len(f.Nodes) != 3 || f.Nodes[2].Up || len(f.Shards) != 1 || f.Shards[0].Name != "other/0003" || f.Window <= 0 {
			t.Errorf("%s: %v, %.300s", stream, err, r.stdout)
		}
	}
	if r := rmatail(t, nil, "top", "--cluster", s.file); r.code != exitUsage || !strings.Contains(r.stderr, "--once") {
		t.Errorf("without a terminal: %d, %s", r.code, r.stderr)
	}
}

// TestDrawFrameIsSafe: names with escapes move no cursor, lines are cut at the width.
func TestDrawFrameIsSafe(t *testing.T) {
	evil := "\x1b[2J\x1b]0;x\a\r\n\u009b1mé\xff"
	f := &watch.Frame{Reporting: 1, Consumers: []watch.Consumer{{Name: evil, Transport: evil, Shard: evil, State: cause.ConsumerSlow, Rates: map[string]float64{"shm": 5 << 20}}}, Cluster: evil, StoreError: evil, Nodes: []watch.Node{{Name: evil, Error: evil}, {Name: "up", Up: true, Memory: watch.Memory{Cells: []byte{0, 1, 100, 200}}}},
		Shards: []watch.Shard{{Name: evil, Writer: evil, Why: evil, State: cause.ProducerSlow}}}
	for _, columns := range []int{20, 80, 300} {
		for _, l := range drawFrame(f, plainStyle, columns, 0) {
			if strings.ContainsAny(l, "\x1b\a\r\n\u009b") {
				t.Errorf("an escape is left in %q", l)
			}
			if n := len([]rune(l)); n > columns {
				t.Errorf("%d columns of %d: %q", n, columns, l)
			}
		}
	}
	if n := len(drawFrame(f, colorStyle, 80, 4)); n != 4 {
		t.Errorf("%d rows of 4", n)
	}
	if l := drawFrame(f, plainStyle, 80, 6); !strings.Contains(l[5], "lines more") {
		t.Errorf("that there is more is not told: %q", l)
	}
	text := strings.Join(drawFrame(f, plainStyle, 300, 0), "\n")
	if !strings.Contains(text, "#####+++++.....") || !strings.Contains(text, "producer slow") || !strings.Contains(text, "consumer slow  5MiB/s") || !strings.Contains(text, "é") {
		t.Errorf("frame:\n%s", text)
	}
}

// TestDrawFrameTellsCauses also where the table's last column has no room, the worst of
// them if there are many.
func TestDrawFrameTellsCauses(t *testing.T) {
	f := &watch.Frame{More: true}
	for i := range 20 {
		s := watch.Shard{Name: fmt.Sprintf("logs/%04d", i), State: cause.Fine}
		if i >= 12 {
			s.State, s.Why = cause.ProducerStopped, "no heartbeat for 7s, expected every 1s, nobody holds its lease"
		}
		s.Ended = i == 19
		f.Shards = append(f.Shards, s)
	}
	lines := drawFrame(f, plainStyle, 80, 24)
	text := strings.Join(lines, "\n")
	for _, want := range []string{"20+ shards: 8 producer stopped, 12 fine", "! logs/0012 producer stopped: no heartbeat for 7s", "! and 2 shards more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "! logs/0019") {
		t.Errorf("one that has ended is a problem:\n%s", text)
	}
}
