package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// openLog is a shard's log in memory, open once at a time as a locked file is.
type openLog struct {
	mu     *sync.Mutex
	open   *map[layout.Shard]int
	shard  layout.Shard
	length uint64
	fail   func() error // of Append
	wait   chan struct{}
}

func (l *openLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	if l.wait != nil {
		select {
		case <-l.wait:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return 0, err
		}
	}
	l.length = off + uint64(len(p))
	return l.length, nil
}
func (l *openLog) Info() durable.Info          { return durable.Info{Incarnation: 1, Length: l.length} }
func (l *openLog) Flush(context.Context) error { return nil }
func (l *openLog) Seal() error                 { return nil }
func (l *openLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	(*l.open)[l.shard]--
	return nil
}

// pool is appenders over logs in memory.
type pool struct {
	*appenders
	mu     sync.Mutex
	open   map[layout.Shard]int
	opened int
	most   int                                  // shards open at once
	change func(*openLog)                       // of each log
	refuse func(shard layout.Shard) (err error) // to open
}

func newPool(t *testing.T, limit int, idle time.Duration) *pool {
	p := &pool{open: make(map[layout.Shard]int)}
	l := Limits{Appenders: limit, AppenderIdle: idle}.withDefaults()
	p.appenders = newAppenders(l, testConfig(t).Logger, func(ctx context.Context, shard layout.Shard) (*producer.Appender, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refuse != nil {
			if err := p.refuse(shard); err != nil {
				return nil, err
			}
		}
		if p.open[shard]++; p.open[shard] > 1 {
			t.Errorf("%v is open twice", shard)
		}
		p.opened++
		n := 0
		for _, k := range p.open {
			n += k
		}
		p.most = max(p.most, n)
		log := &openLog{mu: &p.mu, open: &p.open, shard: shard}
		if p.change != nil {
			p.change(log)
		}
		return producer.Open(ctx, producer.Config{Shard: shard, Log: log, Heartbeat: time.Hour})
	})
	t.Cleanup(func() {
		if err := p.close(context.Background()); err != nil {
			t.Error(err)
		}
		for shard, n := range p.open {
			if n != 0 {
				t.Errorf("%v is still open", shard)
			}
		}
	})
	return p
}

// append appends and waits.
func (p *pool) append(ctx context.Context, shard layout.Shard, off uint64, b []byte) (uint64, error) {
	return p.end(ctx, p.begin(ctx, shard, off, b))
}

func numbered(i int) layout.Shard { return layout.Shard{Stream: "s", Number: uint32(i)} }

func TestAppendersAreBounded(t *testing.T) {
	p := newPool(t, 3, time.Hour)
	for i := range 30 {
		if _, err := p.append(t.Context(), numbered(i%10), wire.NoOffset, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if p.most > 3 {
		t.Errorf("%d shards open at once, the limit is 3", p.most)
	}
}

// The shard that was used the longest ago leaves.
func TestAppendersLeaveByLastUse(t *testing.T) {
	p := newPool(t, 2, time.Hour)
	for _, step := range []struct{ shard, opened int }{{0, 1}, {1, 2}, {0, 2}, {2, 3}, {0, 3}, {1, 4}, {0, 4}, {2, 5}} {
		if _, err := p.append(t.Context(), numbered(step.shard), wire.NoOffset, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if p.opened != step.opened {
			t.Fatalf("%d shards opened at shard %d, want %d", p.opened, step.shard, step.opened)
		}
	}
}

func TestAppendersBusy(t *testing.T) {
	p := newPool(t, 2, time.Hour)
	hold := make(chan struct{})
	p.change = func(l *openLog) { l.wait = hold }
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if _, err := p.append(t.Context(), numbered(i), wire.NoOffset, []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "both places are in use", func() bool { return p.count() == 2 })
	if _, err := p.append(t.Context(), numbered(2), wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("a third shard: %v", err)
	}
	close(hold)
	wg.Wait()
	if _, err := p.append(t.Context(), numbered(2), wire.NoOffset, []byte("x")); err != nil {
		t.Errorf("a third shard, when a place is free: %v", err)
	}
}

func TestIdleAppendersClose(t *testing.T) {
	p := newPool(t, 10, time.Nanosecond)
	for i := range 5 {
		if _, err := p.append(t.Context(), numbered(i), wire.NoOffset, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	p.sweep()
	eventually(t, "all are closed", func() bool { return p.count() == 0 })
	if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); err != nil {
		t.Error(err)
	}
}

func TestAppenderThatCannotOpen(t *testing.T) {
	p := newPool(t, 10, time.Hour)
	locked := &wire.Error{Status: wire.StatusLocked}
	p.refuse = func(layout.Shard) error { return locked }
	if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrLocked) {
		t.Errorf("a shard that is locked: %v", err)
	}
	p.mu.Lock()
	p.refuse = nil
	p.mu.Unlock()
	if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); err != nil {
		t.Errorf("after it was unlocked: %v", err)
	}
}

// A log that failed, or a foreign writer: the shard is opened anew for the next.
func TestBrokenAppenderIsReplaced(t *testing.T) {
	for _, tc := range []struct{ fail, want error }{
		{fmt.Errorf("%w: flush", durable.ErrFailed), durable.ErrFailed},
		{&wire.Error{Status: wire.StatusOffset, Arg0: 7}, wire.ErrLocked},
	} {
		p := newPool(t, 10, time.Hour)
		first := true
		p.change = func(l *openLog) {
			if first {
				l.fail = func() error { return tc.fail }
			}
			first = false
		}
		if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); !errors.Is(err, tc.want) {
			t.Errorf("%v: %v", tc.fail, err)
		}
		if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); err != nil {
			t.Errorf("%v: the next append: %v", tc.fail, err)
		}
		if p.opened != 2 {
			t.Errorf("%v: opened %d times", tc.fail, p.opened)
		}
	}
}

// A full disk is not a broken log: the shard stays open.
func TestFullDiskKeepsTheShardOpen(t *testing.T) {
	p := newPool(t, 10, time.Hour)
	full := true
	p.change = func(l *openLog) {
		l.fail = func() error {
			if full {
				return &wire.Error{Status: wire.StatusFull}
			}
			return nil
		}
	}
	if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrFull) {
		t.Error(err)
	}
	full = false
	if _, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x")); err != nil {
		t.Error(err)
	}
	if p.opened != 1 {
		t.Errorf("opened %d times", p.opened)
	}
}

func TestAppendersClose(t *testing.T) {
	p := newPool(t, 10, time.Hour)
	hold := make(chan struct{})
	p.change = func(l *openLog) { l.wait = hold }
	done := make(chan error, 1)
	go func() {
		_, err := p.append(t.Context(), numbered(0), wire.NoOffset, []byte("x"))
		done <- err
	}()
	eventually(t, "an append hangs", func() bool { return p.count() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close while an append hangs: %v", err)
	}
	if _, err := p.append(t.Context(), numbered(1), wire.NoOffset, []byte("x")); !errors.Is(err, wire.ErrClosing) {
		t.Errorf("append after close: %v", err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Errorf("the append that hung: %v", err)
	}
}

// Many appenders to many shards with few places, opening and leaving all the time.
func TestAppendersChurn(t *testing.T) {
	p := newPool(t, 3, time.Nanosecond)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := p.append(ctx, numbered((w*7+i)%12), wire.NoOffset, []byte("x"))
				cancel()
				if err != nil && !errors.Is(err, wire.ErrBusy) {
					t.Error(err)
				}
				if i%50 == 0 {
					p.sweep()
				}
			}
		})
	}
	wg.Wait()
	if p.most > 3 {
		t.Errorf("%d shards open at once", p.most)
	}
}
