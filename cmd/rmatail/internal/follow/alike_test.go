package follow

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// following collects what a Follower gives, by file.
type following struct {
	t   *testing.T
	f   *Follower
	now time.Time
	got []string
	why []Why
}

// drain takes what there is, and lets so much time pass that what was rotated ends.
func (g *following) drain() {
	g.t.Helper()
	buf := make([]byte, 512)
	for range 4 {
		for e := g.f.Next(g.now, buf); e.Kind != Idle; e = g.f.Next(g.now, buf) {
			switch e.Kind {
			case Begin:
				g.got = append(g.got, "")
			case Data:
				g.got[len(g.got)-1] += string(buf[:e.N])
			case End:
				g.why = append(g.why, e.Why)
			}
		}
		g.now = g.now.Add(time.Second)
	}
}

// TestFilesThatBeginAlike: nothing about a file's first bytes says that it is another
// one: logs begin with the same header, and some are empty. Nor is a compressed file a
// copy, though it lies beside and is as old.
func TestFilesThatBeginAlike(t *testing.T) {
	header := strings.Repeat("# the same header of every file\n", 100) // 3,200 bytes
	for _, c := range []struct {
		name   string
		rotate func(d *disk)
		want   []string
		why    []Why
	}{
		{"renamed, and the new one has the same header", func(d *disk) {
			d.rename("log", "log.1")
			d.create("log").data = []byte(header + "second\n")
		}, []string{header + "first\n", header + "second\n"}, []Why{Rotated}},
		{"renamed, and the new one is the same so far", func(d *disk) {
			d.rename("log", "log.1")
			d.create("log").data = []byte(header + "first\n")
		}, []string{header + "first\n", header + "first\n"}, []Why{Rotated}},
		{"renamed, and the new one is empty", func(d *disk) {
			d.rename("log", "log.1")
			d.create("log")
		}, []string{header + "first\n", ""}, []Why{Rotated}},
		{"truncated, and longer again with the same header at the next look", func(d *disk) {
			d.names["log"].data = []byte(header + "second, and longer than the first\n")
		}, []string{header + "first\n", header + "second, and longer than the first\n"}, []Why{Truncated}},
		{"copied with more, then truncated, and longer again", func(d *disk) {
			d.create("log.1").data = []byte(header + "first\nunread\n")
			d.names["log"].data = []byte(header + "second, and longer than the first\n")
		}, []string{header + "first\nunread\n", header + "second, and longer than the first\n"}, []Why{Copied}},
		{"copied and compressed, then truncated", func(d *disk) {
			d.create("log.1.gz").data = bytes.Repeat([]byte{0x1f, 0x8b, 8, 0}, 1000)
			d.names["log"].data = []byte("new\n")
		}, []string{header + "first\n", "new\n"}, []Why{Truncated}},
		{"removed, and made again with less in it", func(d *disk) {
			d.remove("log")
			d.create("log").data = []byte(header)
		}, []string{header + "first\n", header}, []Why{Rotated}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone = nil
			d := &disk{names: map[string]*inode{}}
			d.create("log").data = []byte(header + "first\n")
			g := &following{t: t, f: New(Config{Path: "log", FS: d}), now: time.Unix(0, 0)}
			g.drain()
			c.rotate(d)
			g.drain()
			g.drain()
			if !slices.Equal(g.got, c.want) || !slices.Equal(g.why, c.why) {
				t.Errorf("%s came (%v), want %s (%v)", lengths(g.got), g.why, lengths(c.want), c.why)
			}
			g.f.Close()
		})
	}
}

// TestInodesAreUsedAgain: while nobody follows, a file is removed and another one gets
// its inode number. It is not taken for the file of the mark, however alike they begin;
// what was renamed, copied or only grew is.
func TestInodesAreUsedAgain(t *testing.T) {
	header := strings.Repeat("# the same header of every file\n", 100)
	for _, c := range []struct {
		name  string
		apart func(d *disk)
		rest  string // of the file of the mark; "lost": none continues it
	}{
		{"grew", func(d *disk) { d.names["log"].data = append(d.names["log"].data, "more\n"...) }, "more\n"},
		{"another one, shorter", func(d *disk) { d.remove("log"); d.create("log").data = []byte("x\n") }, "lost"},
		{"another one, longer, same header", func(d *disk) {
			d.remove("log")
			d.create("log").data = []byte(header + "second, and longer than the first\n")
		}, "lost"},
		{"renamed, and another one", func(d *disk) {
			d.names["log"].data = append(d.names["log"].data, "more\n"...)
			d.rename("log", "log.1")
			d.create("log").data = []byte(header + "second, and longer than the first\n")
		}, "more\n"},
		{"copied, and emptied", func(d *disk) {
			d.create("log.1").data = append(bytes.Clone(d.names["log"].data), "more\n"...)
			d.names["log"].data = nil
		}, "more\n"},
		{"emptied", func(d *disk) { d.names["log"].data = nil }, "lost"},
		{"removed", func(d *disk) { d.remove("log") }, "lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone = nil
			d := &disk{names: map[string]*inode{}}
			d.create("log").data = []byte(header + "first\n")
			cfg := Config{Path: "log", FS: d}
			g := &following{t: t, f: New(cfg), now: time.Unix(0, 0)}
			g.drain()
			mark := Mark{ID: g.f.id, Offset: g.f.Offset(), Tail: []byte(g.got[0])}
			g.f.Close()
			old := d.names["log"].ino
			c.apart(d)
			if n := d.names["log"]; n != nil && d.names["log.1"] == nil && n.ino != old {
				t.Fatalf("the inode number was not used again: %d, %d", old, n.ino)
			}
			f, err := Resume(cfg, mark)
			if lost := errors.Is(err, ErrLost); lost != (c.rest == "lost") || err != nil && !lost {
				t.Fatalf("%v", err)
			}
			defer f.Close()
			if err != nil {
				return
			}
			buf := make([]byte, 100)
			if e := f.Next(g.now, buf); e.Kind != Data || string(buf[:e.N]) != c.rest {
				t.Errorf("%+v, %q, want %q", e, buf[:e.N], c.rest)
			}
		})
	}
}

func lengths(files []string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "[%d bytes, ...%q]", len(f), f[max(0, len(f)-30):])
	}
	return b.String()
}

// TestStaleHandlesAreNotAskedForInALoop: a file that a server has forgotten (ESTALE) is
// looked for once a poll, whether it comes back or not, and nothing that was read is
// read again.
func TestStaleHandlesAreNotAskedForInALoop(t *testing.T) {
	gone = nil
	d := &disk{names: map[string]*inode{}}
	d.create("log").data = []byte("some lines that were read before\n")
	g := &following{t: t, f: New(Config{Path: "log", FS: d}), now: time.Unix(0, 0)}
	g.drain()
	for range 50 {
		d.stale = true
		if e := g.f.Next(g.now, make([]byte, 100)); e.Kind != Idle || e.Err == nil {
			t.Fatalf("%+v at a stale handle, want to be asked later", e)
		}
		d.names["log"].data = append(d.names["log"].data, "more\n"...)
		g.drain()
	}
	if want := "some lines that were read before\n" + strings.Repeat("more\n", 50); len(g.got) != 1 || g.got[0] != want {
		t.Errorf("%q came", g.got)
	}
	if n := d.names["log"].open; n != 1 {
		t.Errorf("the file is open %d times", n)
	}
	d.stale = true
	d.remove("log")
	g.drain()
	if !slices.Equal(g.why, []Why{Vanished}) {
		t.Errorf("%v after the file has gone for good", g.why)
	}
	d.create("log").data = []byte("new\n")
	g.drain()
	if len(g.got) != 2 || g.got[1] != "new\n" {
		t.Errorf("%q came", g.got)
	}
	g.f.Close()
}
