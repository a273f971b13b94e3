package durable

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

func memLog(t *testing.T, m *memFS, o Options) (*Dir, *Log) {
	t.Helper()
	o.fs = m
	d := openDir(t, "/store", o)
	d.boot = 1
	return d, openLog(t, d, "logs/0001")
}

func testFS() *memFS { return newMemFS(rand.New(rand.NewPCG(7, 7))) }

// reopen opens the shard as the next process does, and checks all its bytes.
func reopen(t *testing.T, m *memFS, o Options) *Log {
	t.Helper()
	_, l := memLog(t, m, o)
	first, b := m.content(memShard)
	if i := l.Info(); i.First != first || i.Length != first+uint64(len(b)) {
		t.Fatalf("segments hold [%d, %d), log says %+v", first, first+uint64(len(b)), i)
	}
	if err := checkBytes(b, first); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFullDiskTakesTheAppendBack(t *testing.T) {
	cases := []struct {
		name, op, suffix string
		errno            syscall.Errno
		short            int
	}{
		{"no byte written", "write", ".log", syscall.ENOSPC, 0},
		{"short write", "write", ".log", syscall.ENOSPC, 33},
		{"quota", "write", ".log", syscall.EDQUOT, 1},
		{"file size limit", "write", ".log", syscall.EFBIG, 99},
		{"mark", "write", "/length", syscall.ENOSPC, 0},
		{"torn mark", "write", "/length", syscall.ENOSPC, 30},
		{"new segment", "create", ".log", syscall.ENOSPC, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := testFS()
			_, l := memLog(t, m, Options{SegmentBytes: 200})
			pos := mustAppend(t, l, 0, 150)
			m.failOn(c.op, c.suffix, c.errno, c.short)
			_, err := l.Append(ctxOf(t), pos, bytesAt(pos, 100))
			if !errors.Is(err, wire.ErrFull) || !errors.Is(err, c.errno) || !strings.Contains(err.Error(), memShard) {
				t.Fatalf("append on a full disk: %v", err)
			}
			if got := l.Info().Length; got != pos {
				t.Fatalf("length %d after a failed append, want %d", got, pos)
			}
			if e := wire.ErrorOf(err); e.Status != wire.StatusFull {
				t.Fatalf("status %v for %v", e.Status, err)
			}
			reopen(t, m.afterKill(), Options{SegmentBytes: 200})
			m.hook(nil)
			for range 5 {
				pos = mustAppend(t, l, pos, 100)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := reopen(t, m, Options{}).Info().Length; got != pos {
				t.Fatalf("reopened at %d, want %d", got, pos)
			}
		})
	}
}

func TestFailedFlushIsFinal(t *testing.T) {
	cases := []struct {
		name, op, suffix string
		errno            syscall.Errno
	}{
		{"segment", "sync", ".log", syscall.EIO},
		{"segment, out of space", "sync", ".log", syscall.ENOSPC},
		{"mark", "sync", "/length", syscall.EIO},
		{"directory", "syncdir", "", syscall.EIO},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := testFS()
			_, l := memLog(t, m, Options{SegmentBytes: 200})
			pos := mustAppend(t, l, 0, 150)
			m.failOn(c.op, c.suffix, c.errno, 0)
			size := 20
			if c.op == "syncdir" {
				size = 100 // rolls over
			}
			_, err := l.Append(ctxOf(t), pos, bytesAt(pos, size))
			for range 2 {
				if !errors.Is(err, ErrFailed) || !errors.Is(err, c.errno) || errors.Is(err, wire.ErrFull) {
					t.Fatalf("append after a failed flush: %v", err)
				}
				m.hook(nil)
				_, err = l.Append(ctxOf(t), NoOffset, []byte("x"))
			}
			if err := l.Close(); !errors.Is(err, ErrFailed) {
				t.Fatalf("close of a failed log: %v", err)
			}
			l = reopen(t, m, Options{})
			if got := l.Info().Length; got != pos {
				t.Fatalf("reopened at %d, want %d", got, pos)
			}
			mustAppend(t, l, pos, 30)
		})
	}
}

// A failed fdatasync leaves pages that look clean. When the process dies before
// it can leave word, the group is whole in the page cache: keeping it must not
// rely on a second fdatasync of the same pages.
func TestFailedFlushThenKillThenPowerFailure(t *testing.T) {
	for seed := range uint64(50) {
		m := newMemFS(rand.New(rand.NewPCG(seed, 3)))
		_, l := memLog(t, m, Options{})
		pos := mustAppend(t, l, 0, 700)
		m.hook(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				m.crashAt = m.steps + 1 // nothing after this
				return syscall.EIO
			}
			return nil
		})
		if _, err := l.Append(ctxOf(t), pos, bytesAt(pos, 1500)); err == nil {
			t.Fatal("append was acknowledged")
		}
		l = reopen(t, m.afterKill(), Options{})
		kept := l.Info().Length
		if kept != pos && kept != pos+1500 {
			t.Fatalf("length %d", kept)
		}
		after := l.o.fs.(*memFS).afterPowerFailure()
		if got := reopen(t, after, Options{}).Info().Length; got != kept {
			t.Fatalf("length %d after the power failure, %d was readable before", got, kept)
		}
	}
}

func TestTakeBackThatFailsIsFinal(t *testing.T) {
	m := testFS()
	_, l := memLog(t, m, Options{})
	pos := mustAppend(t, l, 0, 10)
	m.hook(func(op, path string) error {
		switch {
		case op == "write" && strings.HasSuffix(path, ".log"):
			return syscall.ENOSPC
		case op == "truncate":
			return syscall.EIO
		}
		return nil
	})
	m.short = 5
	_, err := l.Append(ctxOf(t), pos, bytesAt(pos, 10))
	if !errors.Is(err, ErrFailed) || errors.Is(err, wire.ErrFull) {
		t.Fatal(err)
	}
	m.hook(nil)
	l.Close()
	if got := reopen(t, m, Options{}).Info().Length; got != pos {
		t.Fatalf("reopened at %d, want %d", got, pos)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		m := testFS()
		m.failOn("mkdir", "", errno, 0)
		d := openDir(t, "/store", Options{fs: m})
		if _, err := d.Log("logs/0001"); !errors.Is(err, wire.ErrReadOnly) || !errors.Is(err, errno) {
			t.Fatalf("log on a read-only disk: %v", err)
		}
		m.hook(nil)
		l := openLog(t, d, "logs/0001")
		pos := mustAppend(t, l, 0, 10)
		m.failOn("write", ".log", errno, 0)
		if _, err := l.Append(ctxOf(t), pos, []byte("x")); !errors.Is(err, wire.ErrReadOnly) {
			t.Fatalf("append on a read-only disk: %v", err)
		}
	}
}

func TestFullDiskAtCreation(t *testing.T) {
	for at := 1; ; at++ {
		m := testFS()
		m.hook(func(op, _ string) error {
			if m.steps+1 == at && op != "sync" && op != "syncdir" {
				return syscall.ENOSPC
			}
			return nil
		})
		d := openDir(t, "/store", Options{fs: m})
		l, err := d.Log("logs/0001")
		if err == nil && m.steps < at {
			t.Logf("%d steps", at-1)
			return
		}
		if err != nil && !errors.Is(err, wire.ErrFull) {
			t.Fatalf("step %d: %v", at, err)
		}
		m.hook(nil)
		if err != nil {
			l = openLog(t, d, "logs/0001")
		}
		mustAppend(t, l, 0, 10)
	}
}

// In policy interval a flush that fails later takes readable bytes back: the
// shard must not go on as the same one.
func TestFailedLateFlushRenewsTheShard(t *testing.T) {
	m := testFS()
	o := Options{Policy: Interval, Interval: time.Hour}
	_, l := memLog(t, m, o)
	pos := mustAppend(t, l, 0, 100)
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, pos, 50)
	inc := l.Info().Incarnation
	m.failOn("sync", ".log", syscall.EIO, 0)
	if err := l.Flush(ctxOf(t)); !errors.Is(err, ErrFailed) {
		t.Fatalf("flush: %v", err)
	}
	m.hook(nil)
	if err := l.Close(); !errors.Is(err, ErrFailed) {
		t.Fatalf("close: %v", err)
	}
	if i := reopen(t, m, o).Info(); i.Length != pos || i.Incarnation == inc {
		t.Fatalf("reopened as %+v, want length %d and another incarnation than %d", i, pos, inc)
	}
}

// After a clean close a power failure takes nothing, whatever the policy, and the
// shard goes on as the same one.
func TestCleanCloseThenPowerFailure(t *testing.T) {
	for _, policy := range []Policy{Always, Interval, Never} {
		for seed := range uint64(20) {
			m := newMemFS(rand.New(rand.NewPCG(seed, 9)))
			_, l := memLog(t, m, Options{Policy: policy, SegmentBytes: 500, Interval: time.Hour})
			pos := mustAppend(t, l, 0, 1000)
			pos = mustAppend(t, l, pos, 300)
			before := l.Info()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			d := openDir(t, "/store", Options{fs: m.afterPowerFailure()})
			d.boot = 2
			if after := openLog(t, d, "logs/0001").Info(); after != before {
				t.Fatalf("policy %v: %+v, before %+v", policy, after, before)
			}
		}
	}
}

// stall blocks the flush of segments until the returned function is called. Other
// steps do what then says.
func stall(m *memFS, then func(op, path string) error) (stalled <-chan struct{}, release func()) {
	in, out := make(chan struct{}, 1), make(chan struct{})
	m.hook(func(op, path string) error {
		if op == "sync" && strings.HasSuffix(path, ".log") {
			select {
			case in <- struct{}{}:
			default:
			}
			<-out
			return nil
		}
		return then(op, path)
	})
	return in, func() { close(out) }
}

func TestContextEndsWhileAppendWaits(t *testing.T) {
	m := testFS()
	_, l := memLog(t, m, Options{QueueBytes: MaxAppend})
	stalled, release := stall(m, func(string, string) error { return nil })
	ctx, cancel := context.WithCancel(ctxOf(t))
	errs := make(chan error)
	try := func(ctx context.Context, n int) {
		_, err := l.Append(ctx, NoOffset, make([]byte, n))
		errs <- err
	}
	go try(ctx, 10)
	<-stalled
	cancel()
	if err := <-errs; !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Fatalf("append that was under way: %v", err)
	}

	// The queue takes a whole append; what comes on top waits for room.
	last := make(chan error)
	go func() {
		_, err := l.Append(ctxOf(t), 10, make([]byte, MaxAppend))
		last <- err
	}()
	deadline, stop := context.WithTimeout(ctxOf(t), 30*time.Millisecond)
	defer stop()
	waitTail(t, l, 10+MaxAppend)
	go try(deadline, 1)
	if err := <-errs; errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("append that waited for room: %v", err)
	}
	go try(ctxOf(t), 7)
	release()
	if err := errors.Join(<-last, <-errs); err != nil {
		t.Fatal(err)
	}
	if got := l.Info().Length; got != 10+MaxAppend+7 {
		t.Fatalf("length %d", got)
	}
	if _, err := l.Append(ctx, NoOffset, []byte("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("append with a context that has ended: %v", err)
	}
}

// waitTail waits until appends up to tail are queued.
func waitTail(t *testing.T, l *Log, tail uint64) {
	t.Helper()
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mu.tail == tail
	})
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := ctxOf(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("waited in vain")
		}
	}
}

// All that was queued behind a failed append fails with it, and the offsets are
// free again.
func TestFailureVoidsWhatIsQueued(t *testing.T) {
	m := testFS()
	_, l := memLog(t, m, Options{})
	writes := 0
	stalled, release := stall(m, func(op, path string) error {
		if op == "write" && strings.HasSuffix(path, ".log") {
			if writes++; writes == 2 {
				return syscall.ENOSPC
			}
		}
		return nil
	})
	m.short = 3
	first := make(chan error, 1)
	go func() {
		_, err := l.Append(ctxOf(t), 0, bytesAt(0, 10))
		first <- err
	}()
	<-stalled
	errs := make(chan error, 3)
	for i := range uint64(3) {
		waitTail(t, l, 10+i*10)
		go func() {
			_, err := l.Append(ctxOf(t), 10+i*10, make([]byte, 10))
			errs <- err
		}()
	}
	waitTail(t, l, 40)
	release()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, wire.ErrFull) {
			t.Fatalf("queued append: %v", err)
		}
	}
	mustAppend(t, l, 10, 100)
}
