package producer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Appender is the one writer of a shard. Its methods may be called at once. It
// has one goroutine, which Close ends.
type Appender struct {
	cfg      Config
	metrics  *metrics
	q        *queue
	orders   chan chan error // to seal
	stop     chan struct{}   // closed by the first Close
	stopOnce sync.Once
	done     chan struct{} // closed when the goroutine has ended
	closeErr error         // of the log; read after done

	w writer // the goroutine's
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
		cfg: cfg, metrics: newMetrics(cfg.Registerer),
		orders: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{}),
	}
	a.q = newQueue(cfg, a.metrics)
	a.w = writer{a: a, cfg: cfg, log: cfg.Log, m: newMirror(cfg, a.metrics, info.Incarnation)}
	a.w.m.sealed = info.Sealed
	if err := a.w.load(ctx, info); err != nil {
		return nil, fmt.Errorf("tail chunk of %v at length %d: %w", cfg.Shard, info.Length, err)
	}
	a.w.acquire(Preempt)
	a.w.m.refill()
	a.w.heed()
	a.metrics.open(a)
	go a.w.run()
	return a, nil
}

// Append queues a record of 1 to MaxRecord bytes. When the queue is full it does
// what Config.Policy says. record is copied, and the caller's again on return.
//
// An error means that nothing was queued: ErrRecord, ErrDropped (DropNewest),
// ErrClosed, ErrFenced, ErrLeaseLost, or ctx's while it waited for room. What becomes of a
// queued record the Ack tells.
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
// *wire.Error of StatusOffset with the length.
func (a *Appender) AppendAt(ctx context.Context, off uint64, record []byte) (Ack, error) {
	if err := checkRecord(record); err != nil {
		return Ack{}, err
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
	if b := a.q.tail(); b != nil {
		select {
		case <-b.done:
		case <-ctx.Done():
			return fmt.Errorf("flush of %v: %w", a.cfg.Shard, ctx.Err())
		}
	}
	return a.q.failure()
}

// Seal ends the shard once what is queued is settled: no more can be appended to
// it, and consumers see its end.
func (a *Appender) Seal(ctx context.Context) error {
	if b := a.q.tail(); b != nil {
		select {
		case <-b.done:
		case <-ctx.Done():
			return fmt.Errorf("seal of %v: %w", a.cfg.Shard, ctx.Err())
		}
	}
	o := make(chan error, 1)
	select {
	case a.orders <- o:
	case <-a.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("seal of %v: %w", a.cfg.Shard, ctx.Err())
	}
	select {
	case err := <-o:
		return err
	case <-ctx.Done():
		return fmt.Errorf("seal of %v, under way: %w", a.cfg.Shard, ctx.Err())
	}
}

// Stats returns what was measured since Open.
func (a *Appender) Stats() Stats { return a.q.stats(time.Now()) }

// Close lets in no more records, brings through what is queued, publishes once
// more if the cache is behind, and closes the log. If ctx ends before that, what
// is not yet on its way is given up, its Acks resolve with ErrClosed, and the
// error says how much it was; the batch on its way is left to the sink, and the
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
			return fmt.Errorf("close of %v, %d records given up, a batch is under way: %w", a.cfg.Shard, n, ctx.Err())
		}
	}
	if !first {
		return nil
	}
	a.metrics.closed(a)
	return a.closeErr
}
