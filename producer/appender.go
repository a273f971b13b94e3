package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// Appender is the one writer of a shard. Its methods may be called at once; they
// take turns. It has one goroutine, which Close ends.
type Appender struct {
	cfg     Config
	log     Log
	metrics *metrics
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the goroutine has ended

	// turn (capacity 1) is the lock of all below: waiting for it ends with ctx.
	turn  chan struct{}
	m     *mirror
	ended error // every call returns it: ErrClosed, ErrFenced
	shut  bool  // Close has done its part
	// unsure: an append has failed or was given up, and may become durable yet.
	unsure bool
}

// Open returns an Appender that continues the log. It reads the tail chunk back
// from the durable store and brings the cache up to date. ctx bounds Open alone.
// The log is the Appender's from a nil error on; it is not closed otherwise.
func Open(ctx context.Context, cfg Config) (*Appender, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	info := cfg.Log.Info()
	a := &Appender{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer),
		stop: make(chan struct{}), done: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	a.m = newMirror(cfg, a.metrics, info.Incarnation)
	a.m.sealed = info.Sealed
	if err := a.load(ctx, info); err != nil {
		return nil, fmt.Errorf("tail chunk of %v at length %d: %w", cfg.Shard, info.Length, err)
	}
	a.refill()
	go a.beats()
	return a, nil
}

// load makes the mirror continue a log of the given length.
func (a *Appender) load(ctx context.Context, info durable.Info) error {
	chunk, valid := layout.Tail(info.Length)
	start := chunk * layout.ChunkSize
	if a.cfg.Cache == nil || valid == 0 || start < info.First || a.cfg.ReadTail == nil {
		a.m.jump(info.Length, nil)
		return nil
	}
	buf := make([]byte, valid)
	for n := 0; n < valid; {
		k, err := a.cfg.ReadTail(ctx, start+uint64(n), buf[n:])
		if err != nil {
			return err
		}
		if k <= 0 {
			return fmt.Errorf("%d of %d bytes read", n, valid)
		}
		n += k
	}
	a.m.jump(info.Length, buf)
	return nil
}

// Append appends a record of 1 to MaxRecord bytes and returns the position of
// its first byte. It returns once the record is durable by the log's policy and
// the cache was offered it. record is borrowed until then.
//
// After an error that matches durable.ErrUnknownOutcome or durable.ErrFailed the
// record may be durable all the same; after any other it is not.
func (a *Appender) Append(ctx context.Context, record []byte) (pos uint64, err error) {
	return a.AppendAt(ctx, wire.NoOffset, record)
}

// AppendAt is Append for a caller that knows where the record has to go, so that
// it can repeat an append without doubling it: if off is not the length, nothing
// is written, and the error is a *wire.Error of StatusOffset with the length.
func (a *Appender) AppendAt(ctx context.Context, off uint64, record []byte) (pos uint64, err error) {
	if len(record) == 0 || len(record) > MaxRecord {
		return 0, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrRecord, len(record), MaxRecord)
	}
	if err := a.take(ctx); err != nil {
		return 0, err
	}
	defer a.give()
	if pos, err = a.durably(ctx, off, record); err != nil {
		a.metrics.appendErrors.Inc()
		return 0, err
	}
	a.metrics.appends.Inc()
	a.metrics.appendBytes.Add(float64(len(record)))
	a.m.extend(record)
	a.flush()
	return pos, nil
}

// durably appends to the log.
func (a *Appender) durably(ctx context.Context, off uint64, record []byte) (pos uint64, err error) {
	if err := a.settle(ctx); err != nil {
		return 0, err
	}
	pos = a.m.length
	if off != wire.NoOffset && off != pos {
		return 0, &wire.Error{Status: wire.StatusOffset, Arg0: pos, Arg1: off, Message: fmt.Sprintf("append to %v at %d", a.cfg.Shard, off)}
	}
	began := time.Now()
	end, err := a.log.Append(ctx, pos, record)
	a.metrics.appendSeconds.Observe(time.Since(began).Seconds())
	switch {
	case errors.Is(err, wire.ErrOffset):
		return 0, a.fence("expected length %d: %w", pos, err)
	case err != nil:
		a.unsure = true
		return 0, err
	case end != pos+uint64(len(record)):
		return 0, a.fence("append at %d of %d bytes ended at %d", pos, len(record), end)
	}
	return pos, nil
}

// settle finds out what became of an append that failed: after Flush nothing is
// under way any more.
func (a *Appender) settle(ctx context.Context) error {
	if !a.unsure {
		return nil
	}
	if err := a.log.Flush(ctx); err != nil {
		return fmt.Errorf("outcome of an earlier append to %v: %w", a.cfg.Shard, err)
	}
	info := a.log.Info()
	if info.Length < a.m.length || info.Incarnation != a.m.incarnation {
		return a.fence("length %d of incarnation %x, was %d of %x", info.Length, info.Incarnation, a.m.length, a.m.incarnation)
	}
	a.unsure = false
	if info.Length == a.m.length {
		return nil
	}
	if err := a.load(ctx, info); err != nil {
		a.cfg.Logger.Warn("the cache skips a chunk whose beginning cannot be read back", "shard", a.cfg.Shard, "length", info.Length, "err", err)
		a.m.jump(info.Length, nil)
	}
	return nil
}

// fence ends the Appender: another writer has the shard.
func (a *Appender) fence(format string, args ...any) error {
	a.ended = fmt.Errorf("%w: %v: %w", ErrFenced, a.cfg.Shard, fmt.Errorf(format, args...))
	return a.ended
}

// Seal ends the shard: no more can be appended to it, and consumers see its end.
func (a *Appender) Seal(ctx context.Context) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.give()
	if err := a.settle(ctx); err != nil {
		return err
	}
	if err := a.log.Seal(); err != nil {
		return err
	}
	a.m.sealed = true
	a.refill()
	return nil
}

// Length returns the durable end that this Appender knows.
func (a *Appender) Length(ctx context.Context) (uint64, error) {
	if err := a.take(ctx); err != nil {
		return 0, err
	}
	defer a.give()
	return a.m.length, nil
}

// Close ends the goroutine, publishes once more if the cache is behind, and
// closes the log. If ctx ends while an append is under way, nothing is closed:
// call it again. Further calls return nil.
func (a *Appender) Close(ctx context.Context) error {
	if err := a.acquire(ctx); err != nil {
		return fmt.Errorf("close of %v, an append is under way: %w", a.cfg.Shard, err)
	}
	if a.shut {
		a.give()
		return nil
	}
	a.shut = true
	close(a.stop)
	if a.ended == nil && a.settle(ctx) == nil && !a.m.current {
		a.refill()
	}
	a.ended = ErrClosed
	err := a.log.Close()
	a.give()
	<-a.done
	return err
}

// take waits for the turn, and gives it back if the Appender has ended.
func (a *Appender) take(ctx context.Context) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	if a.ended != nil {
		defer a.give()
		return a.ended
	}
	return nil
}

func (a *Appender) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Appender) give() { <-a.turn }

// flush and refill run the mirror within the time that the cache may take. The
// caller's context has no say here: its record is durable, and belongs in the cache.
func (a *Appender) flush() {
	ctx, cancel := a.cacheContext()
	defer cancel()
	a.m.flush(ctx)
}

func (a *Appender) refill() {
	ctx, cancel := a.cacheContext()
	defer cancel()
	a.m.refill(ctx)
}

func (a *Appender) cacheContext() (context.Context, context.CancelFunc) {
	if a.cfg.CacheTimeout < 0 || a.cfg.Cache == nil {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), a.cfg.CacheTimeout)
}
