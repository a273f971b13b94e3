package producer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Appender is the one writer of its shards, usually one. Its methods may be called
// at once. It has a goroutine for each shard, which Close ends.
type Appender struct {
	cfg      Config
	metrics  *metrics
	q        *queue
	stop     chan struct{} // closed by the first Close
	stopOnce sync.Once
	running  atomic.Int32  // writers
	done     chan struct{} // closed when they have ended

	writers []*writer // each its goroutine's
}

// Open returns an Appender that continues the logs. It reads their tail chunks
// back from the durable store and brings the cache up to date. ctx bounds Open
// alone. The logs are the Appender's from a nil error on; they are not closed
// otherwise.
func Open(ctx context.Context, cfg Config) (*Appender, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Appender{cfg: cfg, metrics: newMetrics(cfg.Registerer), stop: make(chan struct{}), done: make(chan struct{})}
	a.q = newQueue(cfg, a.metrics)
	for _, t := range cfg.targets() {
		w, err := a.writer(ctx, cfg.of(t))
		if err != nil {
			return nil, err
		}
		a.writers = append(a.writers, w)
	}
	a.metrics.open(a)
	a.running.Store(int32(len(a.writers)))
	for _, w := range a.writers {
		go w.run()
	}
	return a, nil
}

// writer returns the writer of a shard, which continues its log.
func (a *Appender) writer(ctx context.Context, cfg Config) (*writer, error) {
	w := &writer{a: a, cfg: cfg, log: cfg.Log, seat: newSeat(cfg.Shard), orders: make(chan chan error), m: newMirror(cfg, a.metrics, cfg.Log.Info().Incarnation)}
	// The lease first: what an older writer appends until it learns of it is part
	// of the length that is looked at then.
	w.acquire(Preempt)
	info := cfg.Log.Info()
	w.m.sealed = info.Sealed
	if err := w.load(ctx, info); err != nil {
		w.release()
		return nil, fmt.Errorf("tail chunk of %v at length %d: %w", cfg.Shard, info.Length, err)
	}
	w.m.refill()
	w.heed()
	return w, nil
}

// ended is called by each writer at its end.
func (a *Appender) ended() {
	if a.running.Add(-1) == 0 {
		a.q.late.Stop()
		close(a.done)
	}
}

// Append queues a record of 1 to MaxRecord bytes. When the queue is full it does
// what Config.Policy says. record is copied, and the caller's again on return.
//
// An error means that nothing was queued: ErrRecord, ErrDropped (DropNewest),
// ErrClosed, ErrFenced, ErrLeaseLost, or ctx's while it waited for room. What
// becomes of a queued record the Ack tells.
func (a *Appender) Append(ctx context.Context, record []byte) (Ack, error) {
	return a.AppendAt(ctx, wire.NoOffset, record)
}

// TryAppend is Append that never waits: with Block it returns ErrQueueFull when
// there is no room, and the record is still the caller's to append.
func (a *Appender) TryAppend(record []byte) (Ack, error) {
	if err := checkRecord(record); err != nil {
		return Ack{}, err
	}
	return a.q.put(context.Background(), wire.NoOffset, record, noWait)
}

// AppendAt is Append for a caller that knows where the record has to go, so that
// it can repeat an append without doubling it: if off is not the length once all
// that was queued before is settled, nothing is written, and the Ack's error is a
// *wire.Error of StatusOffset with the length. An Appender of several shards
// refuses every offset but wire.NoOffset with ErrConfig.
func (a *Appender) AppendAt(ctx context.Context, off uint64, record []byte) (Ack, error) {
	if err := checkRecord(record); err != nil {
		return Ack{}, err
	}
	if off != wire.NoOffset && len(a.writers) > 1 {
		return Ack{}, fmt.Errorf("%w: an offset in one of %d shards", ErrConfig, len(a.writers))
	}
	if err := ctx.Err(); err != nil {
		return Ack{}, err
	}
	return a.q.put(ctx, off, record, mayWait)
}

func checkRecord(record []byte) error {
	if len(record) == 0 || len(record) > MaxRecord {
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrRecord, len(record), MaxRecord)
	}
	return nil
}

// Flush returns when every record that was queued before is settled, without
// lingering. Its error is the first of a record since the Flush before, or ctx's;
// the records stay queued then.
func (a *Appender) Flush(ctx context.Context) error {
	if err := a.settled(ctx); err != nil {
		return fmt.Errorf("flush of %v: %w", a.q.name, err)
	}
	return a.q.failure()
}

// settled waits until every record that is queued now is settled.
func (a *Appender) settled(ctx context.Context) error {
	for _, b := range a.q.hurry() {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Seal ends the shards once what is queued is settled: no more can be appended to
// them, and consumers see their end.
func (a *Appender) Seal(ctx context.Context) error {
	if err := a.settled(ctx); err != nil {
		return fmt.Errorf("seal of %v: %w", a.q.name, err)
	}
	var errs []error
	for _, w := range a.writers {
		errs = append(errs, a.seal(ctx, w))
	}
	return errors.Join(errs...)
}

func (a *Appender) seal(ctx context.Context, w *writer) error {
	o := make(chan error, 1)
	select {
	case w.orders <- o:
	case <-a.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("seal of %v: %w", w.cfg.Shard, ctx.Err())
	}
	select {
	case err := <-o:
		return err
	case <-ctx.Done():
		return fmt.Errorf("seal of %v, under way: %w", w.cfg.Shard, ctx.Err())
	}
}

// Stats returns what was measured since Open.
func (a *Appender) Stats() Stats { return a.q.stats(time.Now()) }

// Close lets in no more records, brings through what is queued, publishes once
// more if the cache is behind, and closes the logs. If ctx ends before that, what
// is not yet on its way is given up, its Acks resolve with ErrClosed, and the
// error says how much it was; what is on its way is left to the sink, and its
// log is closed behind it: call Close again to wait for that. Once all is closed,
// further calls return nil.
func (a *Appender) Close(ctx context.Context) error {
	first := false
	a.stopOnce.Do(func() {
		first = true
		close(a.stop)
		a.q.end(ErrClosed, drain)
	})
	select {
	case <-a.done:
	default:
		select {
		case <-a.done:
			first = true // it saw the end
		case <-ctx.Done():
			n := a.q.end(ErrClosed, refuse)
			return fmt.Errorf("close of %v, %d records given up, a batch is under way: %w", a.q.name, n, ctx.Err())
		}
	}
	if !first {
		return nil
	}
	a.metrics.closed(a)
	var errs []error
	for _, w := range a.writers {
		errs = append(errs, w.closeErr)
	}
	return errors.Join(errs...)
}
