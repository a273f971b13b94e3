package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// output keeps lines; while it is shut, a write waits.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer
	open chan struct{}
}

func newOutput() *output {
	o := &output{open: make(chan struct{})}
	close(o.open)
	return o
}

func (o *output) shut()   { o.open = make(chan struct{}) }
func (o *output) reopen() { close(o.open) }

func (o *output) Write(p []byte) (int, error) {
	<-o.open
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(strings.TrimSuffix(o.b.String(), "\n"), "\n")
}

func start(t *testing.T, cfg Config) *Logs {
	t.Helper()
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func end(t *testing.T, l *Logs) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLinesArriveInOrderAndWhole(t *testing.T) {
	o := newOutput()
	l := start(t, Config{Out: o, Format: JSON, PerMessage: -1, Buffer: 8 << 20})
	var callers sync.WaitGroup
	for c := range 8 {
		log := l.Logger().With("caller", c)
		callers.Go(func() {
			for i := range 1000 {
				log.Info("line", "i", i)
			}
		})
	}
	callers.Wait()
	end(t, l)
	next := [8]int{}
	for _, s := range o.lines() {
		var line struct{ Caller, I int }
		if err := json.Unmarshal([]byte(s), &line); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if line.I != next[line.Caller] {
			t.Fatalf("caller %d: line %d after %d", line.Caller, line.I, next[line.Caller]-1)
		}
		next[line.Caller]++
	}
	if got := l.Stats(); got != (Stats{Lines: 8000}) {
		t.Errorf("stats %+v, want 8,000 lines and nothing else", got)
	}
}

// An output that hangs must not hold up anybody, and memory stays bounded.
func TestAnOutputThatHangsNeverBlocksACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput()
		o.shut()
		l := start(t, Config{Out: o, Buffer: leastBuffer, PerMessage: -1})
		for i := range 10_000 { // synctest fails with a deadlock if one of these waits
			l.Logger().Info("line", "i", i)
		}
		l.queue.mu.Lock()
		n := cap(l.queue.mu.filling)
		l.queue.mu.Unlock()
		if n > 4*leastBuffer {
			t.Errorf("%d B are buffered, the limit is %d", n, leastBuffer)
		}
		dropped := l.Stats().Dropped
		if dropped < 9000 {
			t.Errorf("%d dropped of 10,000 lines of 50 B for a buffer of 4 KiB", dropped)
		}
		o.reopen()
		time.Sleep(1100 * time.Millisecond) // in the bubble's time: no real wait
		synctest.Wait()
		lines := o.lines()
		if last := lines[len(lines)-1]; !strings.Contains(last, "log lines dropped") || !strings.HasSuffix(last, "lines="+strconv.FormatUint(dropped, 10)) {
			t.Errorf("the last line does not tell of %d dropped lines: %s", dropped, last)
		}
		l.Logger().Info("again")
		end(t, l)
		if lines := o.lines(); !strings.Contains(lines[len(lines)-1], "again") {
			t.Errorf("not logged after the output came back: %s", lines[len(lines)-1])
		}
		if s := l.Stats(); s.Lines+s.Dropped != 10_001 {
			t.Errorf("%d lines and %d dropped do not make 10,001", s.Lines, s.Dropped)
		}
	})
}

func TestWarningsAreHeldBackAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput()
		l := start(t, Config{Out: o, PerMessage: 3})
		l.Level.Set(slog.LevelDebug)
		for i := range 100 {
			l.Logger().Warn("disk is slow", "ms", i)
			l.Logger().Debug("detail", "i", i)
		}
		l.Logger().Warn("another")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		all := strings.Join(o.lines(), "\n")
		for text, want := range map[string]int{`msg="disk is slow"`: 3, "msg=detail": 100, "msg=another": 1, `msg="held back" message="disk is slow" times=97`: 1} {
			if got := strings.Count(all, text); got != want {
				t.Errorf("%d times %s, want %d", got, text, want)
			}
		}
		if got := l.Stats().Held; got != 97 {
			t.Errorf("%d held, want 97", got)
		}
		l.Logger().Warn("disk is slow", "ms", 100)
		end(t, l)
		if lines := o.lines(); !strings.HasSuffix(lines[len(lines)-1], "ms=100") {
			t.Errorf("held back in the next second too: %s", lines[len(lines)-1])
		}
	})
}

func TestTheTableOfMessagesIsBounded(t *testing.T) {
	l := newLimiter(1)
	for i := range 10 * maxMessages {
		l.allow(slog.LevelWarn, strconv.Itoa(i))
	}
	n := 0
	l.seen.Range(func(any, any) bool { n++; return true })
	if n > maxMessages {
		t.Errorf("%d messages are remembered", n)
	}
	if held := l.turn(); len(held) != 1 || held[0].times != 9*maxMessages-1 {
		t.Errorf("held back: %v", held)
	}
}

func TestTheLevelChangesAtRunTime(t *testing.T) {
	o := newOutput()
	l := start(t, Config{Out: o})
	derived := l.Logger().WithGroup("g").With("k", 1)
	derived.Debug("first")
	l.Level.Set(slog.LevelDebug)
	derived.Debug("second")
	l.Level.Set(slog.LevelError)
	derived.Warn("third")
	end(t, l)
	if lines := o.lines(); len(lines) != 1 || !strings.Contains(lines[0], "msg=second g.k=1") {
		t.Errorf("logged: %q", lines)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestCloseReturnsWhatTheOutputSaid(t *testing.T) {
	l := start(t, Config{Out: refusing{io.ErrClosedPipe}})
	l.Logger().Info("x")
	if err := l.Close(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("close: %v", err)
	}
	if s := l.Stats(); s.Lines != 0 || s.Dropped != 1 {
		t.Errorf("stats %+v, want 1 dropped", s)
	}
	l.Logger().Info("late")
	if s := l.Stats(); s.Dropped != 2 {
		t.Errorf("stats %+v, want 2 dropped", s)
	}
}

func TestCloseIsBounded(t *testing.T) {
	o := newOutput()
	o.shut()
	l := start(t, Config{Out: o})
	l.Logger().Info("x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	o.reopen()
	end(t, l)
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no output": {}, "format": {Out: io.Discard, Format: "xml"}, "buffer": {Out: io.Discard, Buffer: 1}, "time": {Out: io.Discard, Every: -1},
	} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkDisabled(b *testing.B) {
	l, err := New(Config{Out: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	log := l.Logger()
	ctx := context.Background()
	b.Run("guarded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if log.Enabled(ctx, slog.LevelDebug) {
				log.Debug("read", "off", b.N, "bytes", 4096)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			log.Debug("read", "off", b.N, "bytes", 4096)
		}
	})
	if err := l.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
