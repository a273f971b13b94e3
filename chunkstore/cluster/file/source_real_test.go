package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

const patience = 30 * time.Second

// safeBuffer is a log that a test reads while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// nodesFile is a file of so many nodes.
func nodesFile(n int) string {
	var b strings.Builder
	b.WriteString("nodes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: n%d, addr: \"h%d:1\"}\n", i, i)
	}
	b.WriteString("store: {dir: /data}\n")
	return b.String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace renames a new file to path, as careful writers do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func follow(t *testing.T, path string, o Options) (*Source, *safeBuffer) {
	t.Helper()
	log := new(safeBuffer)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, log
}

// next waits for another View than that which changed belongs to.
func next(t *testing.T, s *Source, changed <-chan struct{}, what string) (*cluster.View, <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
		return s.View()
	case <-time.After(patience):
		t.Fatalf("no other view within %v: %s", patience, what)
		return nil, nil
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// never is a poll interval that no test waits for: what is noticed is noticed by
// the watch.
const never = time.Hour

// TestRealSourceFollowsEveryWayToChangeAFile: written in place, replaced by
// renaming, removed and made again, through a link, and as a Kubernetes volume.
func TestRealSourceFollowsEveryWayToChangeAFile(t *testing.T) {
	link := func(t *testing.T, old, new string) {
		t.Helper()
		if err := os.Symlink(old, new+".tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(new+".tmp", new); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		first  func(t *testing.T, dir, content string) (path string)
		change func(t *testing.T, dir string, round int, content string)
	}{
		"written in place": {
			func(t *testing.T, dir, content string) string {
				write(t, filepath.Join(dir, "c.yaml"), content)
				return filepath.Join(dir, "c.yaml")
			},
			func(t *testing.T, dir string, _ int, content string) { write(t, filepath.Join(dir, "c.yaml"), content) },
		},
		"renamed": {
			func(t *testing.T, dir, content string) string {
				write(t, filepath.Join(dir, "c.yaml"), content)
				return filepath.Join(dir, "c.yaml")
			},
			func(t *testing.T, dir string, _ int, content string) {
				replace(t, filepath.Join(dir, "c.yaml"), content)
			},
		},
		"removed and made": {
			func(t *testing.T, dir, content string) string {
				write(t, filepath.Join(dir, "c.yaml"), content)
				return filepath.Join(dir, "c.yaml")
			},
			func(t *testing.T, dir string, _ int, content string) {
				if err := os.Remove(filepath.Join(dir, "c.yaml")); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "c.yaml"), content)
			},
		},
		"behind a link": {
			func(t *testing.T, dir, content string) string {
				for _, d := range []string{"real", "etc"} {
					if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				write(t, filepath.Join(dir, "real", "c.yaml"), content)
				link(t, "../real/c.yaml", filepath.Join(dir, "etc", "c.yaml"))
				return filepath.Join(dir, "etc", "c.yaml")
			},
			func(t *testing.T, dir string, _ int, content string) {
				replace(t, filepath.Join(dir, "real", "c.yaml"), content)
			},
		},
		"as a Kubernetes volume": {
			func(t *testing.T, dir, content string) string {
				if err := os.Mkdir(filepath.Join(dir, "..v0"), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "..v0", "c.yaml"), content)
				link(t, "..v0", filepath.Join(dir, "..data"))
				link(t, "..data/c.yaml", filepath.Join(dir, "c.yaml"))
				return filepath.Join(dir, "c.yaml")
			},
			func(t *testing.T, dir string, round int, content string) {
				v := fmt.Sprintf("..v%d", round)
				if err := os.Mkdir(filepath.Join(dir, v), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, v, "c.yaml"), content)
				link(t, v, filepath.Join(dir, "..data"))
				if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", round-1))); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, log := follow(t, c.first(t, dir, nodesFile(3)), Options{Settle: 5 * time.Millisecond, Poll: never})
			v, changed := s.View()
			if len(v.Nodes) != 3 {
				t.Fatalf("%d nodes at first", len(v.Nodes))
			}
			for round, nodes := range []int{5, 4, 6, 1} {
				c.change(t, dir, round+1, nodesFile(nodes))
				// A file that was read half written is not taken, as it has no store.
				if v, changed = next(t, s, changed, fmt.Sprintf("%d nodes\n%s", nodes, log)); len(v.Nodes) != nodes {
					t.Fatalf("%d nodes after a change to %d", len(v.Nodes), nodes)
				}
				if len(s.Current().Nodes) != nodes {
					t.Errorf("the current file has %d nodes, the view %d", len(s.Current().Nodes), nodes)
				}
			}
		})
	}
}

// TestRealBrokenFileChangesNothing: it is logged once with its line, Reload returns
// why, and what is right again is taken.
func TestRealBrokenFileChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, nodesFile(3))
	s, log := follow(t, path, Options{Settle: time.Millisecond, Poll: 2 * time.Millisecond})
	before, changed := s.View()
	broken := strings.Replace(nodesFile(4), `"h2:1"`, "h2", 1)
	replace(t, path, broken)
	eventually(t, "the mistake in the log", func() bool { return strings.Contains(log.String(), path+":4:22: nodes[2].addr") })
	for range 3 {
		if err := s.Reload(); !errors.Is(err, cluster.ErrInvalid) || !strings.Contains(err.Error(), ":4:22: ") {
			t.Errorf("Reload of a broken file: %v", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file in the log", func() bool { return strings.Contains(log.String(), "no such file") })
	if err := s.Reload(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Reload without a file: %v", err)
	}
	if now, _ := s.View(); now != before || len(s.Current().Nodes) != 3 {
		t.Error("a broken file has changed the view")
	}
	replace(t, path, nodesFile(3))
	eventually(t, "that it is right again in the log", func() bool { return strings.Contains(log.String(), "right again") })
	select {
	case <-changed:
		t.Error("another view for the same nodes")
	default:
	}
	replace(t, path, nodesFile(4))
	if v, _ := next(t, s, changed, "a right file"); len(v.Nodes) != 4 {
		t.Errorf("%d nodes", len(v.Nodes))
	}
	if n := strings.Count(log.String(), "nodes[2].addr"); n != 1 {
		t.Errorf("the mistake was logged %d times\n%s", n, log)
	}
	if !strings.Contains(log.String(), "joined=[n3]") {
		t.Errorf("the log does not say who joined\n%s", log)
	}
}

// TestRealReloadReadsNow: without a watch, and without waiting.
func TestRealReloadReadsNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, nodesFile(3))
	s, err := load(path, Options{Poll: never})
	if err != nil {
		t.Fatal(err)
	}
	go s.run(nil)
	_, changed := s.View()
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	write(t, path, nodesFile(2))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if v, _ := next(t, s, changed, "two nodes"); len(v.Nodes) != 2 {
		t.Errorf("%d nodes", len(v.Nodes))
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Reload(); !errors.Is(err, ErrClosed) {
		t.Errorf("Reload after Close: %v", err)
	}
	if v, _ := s.View(); len(v.Nodes) != 2 {
		t.Error("the view ends with Close")
	}
}

// TestRealPollingAloneFollows is a file system that tells nothing.
func TestRealPollingAloneFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, nodesFile(3))
	s, err := load(path, Options{Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	go s.run(nil)
	defer s.Close()
	_, changed := s.View()
	replace(t, path, nodesFile(7))
	if v, _ := next(t, s, changed, "seven nodes"); len(v.Nodes) != 7 {
		t.Errorf("%d nodes", len(v.Nodes))
	}
}

// TestRealSettingsOfANodeWakeNobody: readers and writers do not use them.
func TestRealSettingsOfANodeWakeNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, nodesFile(3))
	s, log := follow(t, path, Options{Poll: never})
	before, changed := s.View()
	write(t, path, "# a comment\n"+strings.Replace(nodesFile(3), `"h1:1"`, `"h1:1", arena: 1GiB`, 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, n, _ := s.Current().Node("n1"); n.Arena != 1<<30 {
		t.Errorf("the current file says %+v", n)
	}
	if now, _ := s.View(); now != before {
		t.Error("another view")
	}
	select {
	case <-changed:
		t.Error("readers were woken")
	default:
	}
	if !strings.Contains(log.String(), "nodes=[n1]") || !strings.Contains(log.String(), "next start") {
		t.Errorf("the log does not say that n1 needs a restart\n%s", log)
	}
}

// TestRealWhatCannotChangeIsRefused: another cluster's file, another store.
func TestRealWhatCannotChangeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, "name: one\n"+nodesFile(3))
	s, _ := follow(t, path, Options{Poll: never})
	for _, content := range []string{"name: two\n" + nodesFile(3), nodesFile(3), "name: one\n" + strings.Replace(nodesFile(3), "/data", "/other", 1)} {
		write(t, path, content)
		if err := s.Reload(); !errors.Is(err, ErrRestart) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want ErrRestart", content, err)
		}
	}
	write(t, path, "name: one\n"+nodesFile(2))
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
}

func TestRealOpenRefusesABrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "nodes: []\n")
	if _, err := Open(path, Options{}); !errors.Is(err, cluster.ErrInvalid) {
		t.Errorf("a broken file: %v", err)
	}
}

// TestRealReadersOfTheViewAtOnce is for the race detector.
func TestRealReadersOfTheViewAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, nodesFile(1))
	s, _ := follow(t, path, Options{Settle: time.Millisecond, Poll: time.Millisecond})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			v, changed := s.View()
			for len(v.Nodes) < 20 {
				select {
				case <-changed:
					v, changed = s.View()
				case <-time.After(patience):
					t.Error("no further view")
					return
				}
			}
		})
	}
	for n := 2; n <= 20; n++ {
		replace(t, path, nodesFile(n))
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
	}
	readers.Wait()
}
