package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/fallback/wire"
)

// process starts this test binary in a role.
func process(t *testing.T, role, dir string, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(ctxOf(t), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), append(env, roleEnv+"="+role, dirEnv+"="+dir)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	o, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(o)
}

// writerLog is what a killed writer had said.
type writerLog struct {
	borders map[uint64]bool
	acked   uint64
	acks    int
}

// follow reads a writer's words until it has acknowledged n appends, or has no
// more to say.
func (w *writerLog) follow(out *bufio.Reader, n int) error {
	for n > 0 {
		line, err := out.ReadString('\n')
		if err == io.EOF {
			return nil // a line may be cut short
		}
		if err != nil {
			return err
		}
		var what string
		var pos uint64
		if _, err := fmt.Sscanf(line, "%s %d\n", &what, &pos); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		w.borders[pos] = true
		if what == "a" {
			w.acked = max(w.acked, pos)
			w.acks++
			n--
		}
	}
	return nil
}

func TestRealKilledWriters(t *testing.T) {
	const kills = 20
	dir := t.TempDir()
	reader, stop, said := process(t, "reader", dir)
	d := openDir(t, dir, Options{SegmentBytes: 20000})
	w := writerLog{borders: map[uint64]bool{0: true}}
	beyond, kept, incarnation, length := 0, 0, uint64(0), uint64(0)
	for kill := range kills {
		policy := Policy(kill % 3)
		cmd, _, out := process(t, "writer", dir, policyEnv+"="+policy.String())
		if err := w.follow(out, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Log(roleShard); !errors.Is(err, wire.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d ", cmd.Process.Pid)) {
			t.Fatalf("second writer, the first is %d: %v", cmd.Process.Pid, err)
		}
		if err := w.follow(out, rand.IntN(300)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := w.follow(out, 1<<30); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed

		before := sizeOf(t, dir)
		l := openLog(t, d, roleShard)
		i := l.Info()
		switch {
		case i.Length < w.acked:
			t.Fatalf("kill %d, policy %v: length %d, %d was acknowledged", kill, policy, i.Length, w.acked)
		case !w.borders[i.Length]:
			t.Fatalf("kill %d, policy %v: length %d is no border of an append", kill, policy, i.Length)
		case i.Length != sizeOf(t, dir):
			t.Fatalf("kill %d: length %d, files have %d bytes", kill, i.Length, sizeOf(t, dir))
		case kill > 0 && i.Incarnation != incarnation:
			t.Fatalf("kill %d, policy %v: another incarnation", kill, policy)
		}
		if before > i.Length {
			beyond++
		}
		if i.Length > w.acked {
			kept++
		}
		checkRange(t, d, roleShard, length, i.Length)
		incarnation, length = i.Incarnation, i.Length
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	stop.Close()
	line, _ := said.ReadString('\n')
	var seen uint64
	var polls int
	fmt.Sscan(line, &seen, &polls)
	if err := reader.Wait(); err != nil || seen != length {
		t.Fatalf("reader: %v, saw %d of %d", err, seen, length)
	}
	t.Logf("%d kills, %d acknowledged appends, %d bytes, %d torn tails cut off, %d times more than acknowledged, %d polls by the reader", kills, w.acks, length, beyond, kept, polls)
}

func sizeOf(t *testing.T, dir string) (n uint64) {
	t.Helper()
	for _, s := range segmentsOf(t, filepath.Join(dir, roleShard)) {
		fi, err := os.Stat(filepath.Join(dir, roleShard, s.name))
		if err != nil {
			t.Fatal(err)
		}
		n += uint64(fi.Size())
	}
	return n
}

func TestRealFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	cmd, _, out := process(t, "limited", dir)
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, dir, Options{})
	checkRange(t, d, roleShard, 0, 66000)
}
