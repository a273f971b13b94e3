package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// openTime bounds opening a shard (recovery reads its files) and closing it
// (which flushes them), whoever waits for it.
const openTime = time.Minute

// appenders are the shards that are open for append: one producer.Appender
// each, opened with the first append, closed when idle or when another shard
// needs its place. Any goroutine.
type appenders struct {
	open  func(context.Context, layout.Shard) (*producer.Appender, error)
	log   *slog.Logger
	limit int
	idle  time.Duration
	mu    struct {
		sync.Mutex
		closed bool
		errs   []error // of closing, since closed
		places map[layout.Shard]*place
	}
	work *stopper // what opens and closes
}

// place is one shard: being opened, open, or being closed.
type place struct {
	shard layout.Shard
	// opened is closed when appender or err is set.
	opened   chan struct{}
	appender *producer.Appender
	err      error

	// Guarded by appenders.mu.
	users   int
	last    time.Time     // of the last use
	leaving bool          // to be closed with the last user, or being closed
	left    chan struct{} // closed when the place is free again
}

func newAppenders(l Limits, log *slog.Logger, open func(context.Context, layout.Shard) (*producer.Appender, error)) *appenders {
	a := &appenders{open: open, log: log, limit: l.Appenders, idle: l.AppenderIdle, work: newStopper(context.Background())}
	a.mu.places = make(map[layout.Shard]*place)
	return a
}

// begun is an append that is in its shard's queue, or the error that kept it out.
type begun struct {
	place *place // in use until end; nil: none
	ack   producer.Ack
	err   error
}

// begin puts an append, at an offset or at the end, into its shard's queue, and
// waits for room there. Every begin needs an end.
func (a *appenders) begin(ctx context.Context, shard layout.Shard, off uint64, p []byte) begun {
	pl, err := a.acquire(ctx, shard)
	if err != nil {
		return begun{err: err}
	}
	b := begun{place: pl}
	b.ack, b.err = pl.appender.AppendAt(ctx, off, p)
	return b
}

// end waits until an append is settled, and returns where it lies.
func (a *appenders) end(ctx context.Context, b begun) (pos uint64, err error) {
	if b.place == nil {
		return 0, b.err
	}
	defer a.release(b.place)
	if err = b.err; err == nil {
		pos, err = b.ack.Wait(ctx)
	}
	switch {
	case errors.Is(err, producer.ErrFenced), errors.Is(err, producer.ErrLeaseLost):
		a.retire(b.place)
		return 0, &wire.Error{Status: wire.StatusLocked, Message: err.Error()}
	case errors.Is(err, producer.ErrClosed), errors.Is(err, durable.ErrFailed):
		a.retire(b.place) // opening the shard anew recovers it
	}
	return pos, err
}

// acquire returns the shard's place, opened, with the caller as a user.
func (a *appenders) acquire(ctx context.Context, shard layout.Shard) (*place, error) {
	for {
		pl, leaving, err := a.find(shard)
		if err != nil {
			return nil, err
		}
		if pl == nil {
			select {
			case <-leaving:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("close of the shard that has %v's place: %w", shard, ctx.Err())
			}
		}
		select {
		case <-pl.opened:
		case <-ctx.Done():
			a.release(pl)
			return nil, fmt.Errorf("open of %v: %w", shard, ctx.Err())
		}
		if pl.err != nil {
			defer a.release(pl)
			return nil, pl.err
		}
		return pl, nil
	}
}

// find returns the shard's place with one more user, and begins to open it when
// it is new; or what to wait for when a place has to become free first.
func (a *appenders) find(shard layout.Shard) (pl *place, leaving <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed {
		return nil, nil, errClosing
	}
	if pl := a.mu.places[shard]; pl != nil {
		if pl.leaving {
			return nil, pl.left, nil
		}
		pl.users++
		return pl, nil, nil
	}
	if len(a.mu.places) >= a.limit {
		old := a.leastRecent()
		if old == nil {
			return nil, nil, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d shards are being appended to, the limit of this node", a.limit)}
		}
		a.leave(old)
		return nil, old.left, nil
	}
	pl = &place{shard: shard, opened: make(chan struct{}), left: make(chan struct{}), users: 1}
	if !a.work.start(func() { a.fill(pl) }) {
		return nil, nil, errClosing
	}
	a.mu.places[shard] = pl
	return pl, nil, nil
}

// leastRecent returns the unused place whose last use is the longest ago.
func (a *appenders) leastRecent() (old *place) {
	for _, pl := range a.mu.places {
		if pl.users == 0 && !pl.leaving && (old == nil || pl.last.Before(old.last)) {
			old = pl
		}
	}
	return old
}

// fill opens a place. One that could not be opened leaves again.
func (a *appenders) fill(pl *place) {
	ctx, cancel := context.WithTimeout(a.work, openTime)
	defer cancel()
	pl.appender, pl.err = a.open(ctx, pl.shard)
	if pl.err != nil {
		a.retire(pl) // before anybody learns of it: the next append opens anew
	}
	close(pl.opened)
}

// release undoes acquire.
func (a *appenders) release(pl *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pl.users--
	pl.last = time.Now()
	if pl.leaving && pl.users == 0 {
		a.leave(pl)
	}
}

// retire makes a place leave with its last user.
func (a *appenders) retire(pl *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pl.leaving {
		return
	}
	pl.leaving = true
	if pl.users == 0 {
		a.leave(pl)
	}
}

// leave closes an unused place. Until that is done nobody can open its shard:
// the lock file is held. The lock of a is held.
func (a *appenders) leave(pl *place) {
	pl.leaving = true
	a.work.start(func() {
		<-pl.opened
		var err error
		if pl.appender != nil {
			ctx, cancel := context.WithTimeout(context.Background(), openTime)
			defer cancel()
			err = pl.appender.Close(ctx)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case err != nil && a.mu.closed:
			a.mu.errs = append(a.mu.errs, fmt.Errorf("close of %v: %w", pl.shard, err))
		case err != nil:
			a.log.Error("shard was not closed cleanly", "shard", pl.shard, "err", err)
		}
		delete(a.mu.places, pl.shard)
		close(pl.left)
	})
}

// unused returns the shards that are open and not in use.
func (a *appenders) unused() (shards []layout.Shard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for shard, pl := range a.mu.places {
		if pl.users == 0 && !pl.leaving {
			shards = append(shards, shard)
		}
	}
	return shards
}

// forsake closes a shard, if it is open, with its last user.
func (a *appenders) forsake(shard layout.Shard) {
	a.mu.Lock()
	pl := a.mu.places[shard]
	a.mu.Unlock()
	if pl != nil {
		a.retire(pl)
	}
}

// sweep closes the places that were idle for too long.
func (a *appenders) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pl := range a.mu.places {
		if pl.users == 0 && !pl.leaving && time.Since(pl.last) >= a.idle {
			a.leave(pl)
		}
	}
}

func (a *appenders) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.mu.places)
}

// stats is what the open appenders have measured, merged.
func (a *appenders) stats() *producer.Stats {
	a.mu.Lock()
	var open []*producer.Appender
	for _, pl := range a.mu.places {
		select {
		case <-pl.opened:
			if pl.appender != nil {
				open = append(open, pl.appender)
			}
		default:
		}
	}
	a.mu.Unlock()
	sum := new(producer.Stats)
	for _, p := range open {
		s := p.Stats()
		sum.Merge(&s)
	}
	return sum
}

// close refuses further appends, and flushes and closes every shard once those
// under way have ended. Its error is ctx's; see failures for what went wrong.
func (a *appenders) close(ctx context.Context) error {
	a.mu.Lock()
	a.mu.closed = true
	for _, pl := range a.mu.places {
		if !pl.leaving {
			pl.leaving = true
			if pl.users == 0 {
				a.leave(pl)
			}
		}
	}
	a.mu.Unlock()
	for {
		pl := a.any()
		if pl == nil {
			break
		}
		select {
		case <-pl.left:
		case <-ctx.Done():
			a.work.cancel() // opening stops
			return fmt.Errorf("close of %v and %d other shards: %w", pl.shard, a.count()-1, ctx.Err())
		}
	}
	a.work.close()
	return a.work.wait(ctx)
}

// failures are the errors of the shards that close has closed.
func (a *appenders) failures() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.mu.errs...)
}

func (a *appenders) any() *place {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pl := range a.mu.places {
		return pl
	}
	return nil
}
