package follow

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// disk is a file system in memory. Inode numbers are used again as soon as they
// can be.
type disk struct {
	names map[string]*inode
	stale bool  // open files are forgotten
	fail  error // of opens
}

type inode struct {
	ino  uint64
	data []byte
	open int
}

func (d *disk) create(name string) *inode {
	used := map[uint64]bool{}
	for _, n := range d.names {
		used[n.ino] = true
	}
	for _, n := range gone {
		if n.open > 0 {
			used[n.ino] = true
		}
	}
	n := &inode{ino: 1}
	for used[n.ino] {
		n.ino++
	}
	d.remove(name)
	d.names[name] = n
	return n
}

// gone are the inodes without a name, of the running example.
var gone []*inode

func (d *disk) remove(name string) {
	if n := d.names[name]; n != nil {
		gone = append(gone, n)
		delete(d.names, name)
	}
}

func (d *disk) rename(from, to string) {
	d.remove(to)
	d.names[to] = d.names[from]
	delete(d.names, from)
}

func (d *disk) Open(path string) (File, error) {
	n := d.names[path]
	switch {
	case d.fail != nil:
		return nil, d.fail
	case n == nil:
		return nil, fs.ErrNotExist
	}
	n.open++
	return &handle{d: d, n: n}, nil
}

func (d *disk) Stat(path string) (Info, error) {
	n := d.names[path]
	if n == nil {
		return Info{}, fs.ErrNotExist
	}
	return Info{ID{1, n.ino}, int64(len(n.data))}, nil
}

func (d *disk) Beside(path string) ([]string, error) {
	var names []string
	for _, n := range slices.Sorted(maps.Keys(d.names)) {
		if n != path {
			names = append(names, n)
		}
	}
	return names, nil
}

type handle struct {
	d *disk
	n *inode
}

func (h *handle) Info() (Info, error) {
	if h.d.stale {
		h.d.stale = false
		return Info{}, &fs.PathError{Op: "stat", Path: "x", Err: syscall.ESTALE}
	}
	return Info{ID{1, h.n.ino}, int64(len(h.n.data))}, nil
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Close() error {
	h.n.open--
	return nil
}

// TestWhatIsWrittenIsWhatComes writes, renames, copies and truncates at random,
// and stops and resumes the Follower; the bytes of every file come, in order and
// once.
func TestWhatIsWrittenIsWhatComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gone = nil
		d := &disk{names: map[string]*inode{}}
		now := time.Unix(0, 0)
		cfg := Config{Path: "log", FS: d, RotateWait: 2 * time.Second}
		f := New(cfg)
		var want, got [][]byte // of each file, or of what it held between truncations
		var lossy []bool
		var why []Why
		var writer, old *inode // old: before the last reopen
		var reopened time.Time
		line, copies := 0, 0

		write := func(t *rapid.T) {
			if writer == nil {
				return
			}
			for range rapid.IntRange(1, 5).Draw(t, "lines") {
				line++
				s := fmt.Sprintf("%05d %s\n", line, strings.Repeat("é", rapid.IntRange(0, 20).Draw(t, "length")))
				s = s[:rapid.IntRange(5, len(s)).Draw(t, "written")] // torn now and then
				writer.data = append(writer.data, s...)
				want[len(want)-1] = append(want[len(want)-1], s...)
			}
		}
		seen := func() bool { return len(got) == len(want) && f.f != nil && !f.copy }
		next := func(t *rapid.T) Kind {
			buf := make([]byte, rapid.SampledFrom([]int{1, 7, 64, 4096}).Draw(t, "buffer"))
			e := f.Next(now, buf)
			switch e.Kind {
			case Begin:
				got = append(got, nil)
			case Data:
				got[len(got)-1] = append(got[len(got)-1], buf[:e.N]...)
			case End:
				why = append(why, e.Why)
			}
			return e.Kind
		}
		reopen := func() {
			writer = d.create("log")
			want, lossy = append(want, nil), append(lossy, false)
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": write,
			"next":  func(t *rapid.T) { next(t) },
			"catch up": func(t *rapid.T) {
				for next(t) != Idle {
				}
			},
			"time": func(t *rapid.T) { now = now.Add(time.Second) },
			"create": func(t *rapid.T) {
				if writer == nil {
					reopen()
				}
			},
			"rename": func(t *rapid.T) {
				if writer == nil || !seen() || d.names["log"] != writer {
					return
				}
				copies++
				d.rename("log", fmt.Sprint("log.", copies))
				write(t)
			},
			"reopen": func(t *rapid.T) {
				if writer != nil && seen() && d.names["log"] == nil {
					old, reopened = writer, now
					reopen()
				}
			},
			"late": func(t *rapid.T) { // by a process that has not reopened its log
				if old == nil || now.Sub(reopened) >= cfg.RotateWait {
					return
				}
				old.data = append(old.data, "late\n"...)
				want[len(want)-2] = append(want[len(want)-2], "late\n"...)
			},
			"copytruncate": func(t *rapid.T) {
				if writer == nil || !seen() || d.names["log"] != writer {
					return
				}
				if len(writer.data) == 0 || f.off > 0 && f.off < 5 {
					return // what begins anew may look the same so far
				}
				copies++
				unread := f.off < int64(len(writer.data))
				if rapid.Bool().Draw(t, "keep") {
					d.create(fmt.Sprint("log.", copies)).data = bytes.Clone(writer.data)
					unread = unread && f.off < minCopy
				}
				if f.off == 0 { // to the Follower it is as if nothing had been there
					want[len(want)-1] = nil
					writer.data = nil
					return
				}
				lossy[len(lossy)-1] = unread
				old = nil
				writer.data = nil
				want, lossy = append(want, nil), append(lossy, false)
			},
			"stale": func(t *rapid.T) {
				if seen() && f.off > 0 && d.names["log"] == writer {
					d.stale = true
				}
			},
			"resume": func(t *rapid.T) {
				if !seen() || f.off < minCopy {
					return
				}
				d.stale = false
				m := Mark{f.id, f.off, bytes.Clone(got[len(got)-1])}
				f.Close()
				var err error
				if f, err = Resume(cfg, m); err != nil {
					t.Fatal(err)
				}
			},
			"denied": func(t *rapid.T) {
				if f.f == nil && !f.stale {
					d.fail = fs.ErrPermission
					if k := next(t); k != Idle {
						t.Fatalf("%v where nothing can be opened", k)
					}
					d.fail = nil
				}
			},
		})
		for i := 0; i < 100; i++ { // the rest
			for next(t) != Idle {
			}
			now = now.Add(time.Second)
		}
		if len(got) != len(want) {
			t.Fatalf("%d files came, %d were written (%v)\n%q\n%q", len(got), len(want), why, got, want)
		}
		for i := range want {
			if lossy[i] && bytes.HasPrefix(want[i], got[i]) && why[i] != Rotated {
				continue
			}
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("file %d: %q came, %q was written (%v)", i, got[i], want[i], why)
			}
		}
		f.Close()
		for _, n := range append(gone, slices.Collect(maps.Values(d.names))...) {
			if n.open != 0 {
				t.Fatalf("inode %d is open %d times", n.ino, n.open)
			}
		}
	})
}
