package producer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// writer is the one goroutine that touches the log and the mirror of a shard, and
// so owns their order.
type writer struct {
	a      *Appender
	cfg    Config
	log    Log
	m      *mirror
	seat   *seat           // at the queue
	orders chan chan error // to seal
	// unsure: an append has failed or was given up, and may become durable yet.
	unsure bool
	// sinking is since when the log has had an append under way, in Unix nanoseconds; 0:
	// it has none. See Appender.Pulse.
	sinking atomic.Int64
	ended   error // ErrFenced or ErrLeaseLost: nothing is written any more

	behind [1]byte // scratch of overtaken

	closeErr error // of the log; read after Appender.done
}

// run ends when the queue was closed and is empty, with everything closed.
func (w *writer) run() {
	defer w.a.ended()
	beat := time.NewTicker(w.cfg.Heartbeat)
	defer beat.Stop()
	linger := time.NewTimer(0)
	linger.Stop()
	defer linger.Stop()
	for {
		select { // a busy Appender heeds it, too: the cache may be back
		case <-beat.C:
			w.beat()
		default:
		}
		b, wait, ended := w.a.q.next(w.seat, time.Now())
		switch {
		case b != nil:
			w.write(b)
			continue
		case ended:
			w.close()
			return
		case wait > 0:
			linger.Reset(wait)
		}
		select {
		case <-w.seat.wake:
		case <-linger.C:
		case <-beat.C:
			w.beat()
		case o := <-w.orders:
			o <- w.seal()
		}
		linger.Stop()
	}
}

// write brings one batch through: durable, then put, then published, then its
// producers know.
func (w *writer) write(b *batch) {
	base, took, err := w.patiently(b)
	w.count(b, took, err)
	w.a.q.landed(w.seat, base, err, took, time.Now())
	if err != nil && len(w.a.writers) > 1 {
		w.pause() // a sink that fails at once must not get what others would take
	}
	// Those who waited come back with their next records now, unless this
	// goroutine goes on before they could.
	runtime.Gosched()
}

// pause waits a little, and says whether nobody wants to close.
func (w *writer) pause() bool {
	t := time.NewTimer(pauseTime)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.a.stop:
		return false
	}
}

// pauseTime is how long a sink is left alone that has failed.
const pauseTime = 100 * time.Millisecond

// patiently tries again while the disk is full, as long as Config.WaitForSpace
// allows and nobody wants to close.
func (w *writer) patiently(b *batch) (base uint64, took time.Duration, err error) {
	var until time.Time
	for {
		base, took, err = w.once(b)
		if !errors.Is(err, wire.ErrFull) || w.cfg.WaitForSpace <= 0 {
			return base, took, err
		}
		now := time.Now()
		if until.IsZero() {
			until = now.Add(w.cfg.WaitForSpace)
			w.cfg.Logger.Warn("no room for a batch, waiting for some", "shard", w.cfg.Shard, "records", b.n, "err", err, "at_most", w.cfg.WaitForSpace)
		}
		if now.Add(pauseTime).After(until) || !w.pause() {
			return base, took, err
		}
	}
}

func (w *writer) once(b *batch) (base uint64, took time.Duration, err error) {
	w.cfg.Workers.take()
	defer w.cfg.Workers.give()
	base, took, err = w.durably(b)
	if err == nil {
		w.m.extend(b.buf)
		w.m.flush()
		w.heed()
	}
	return base, took, err
}

func (w *writer) count(b *batch, took time.Duration, err error) {
	m := w.a.metrics
	if took > 0 {
		m.appendSeconds.Observe(took.Seconds())
	}
	if err != nil {
		m.appendErrors.Inc()
		return
	}
	m.batches.Observe(float64(b.n))
	m.batchBytes.Observe(float64(len(b.buf)))
	m.appends.Add(float64(b.n))
	m.appendBytes.Add(float64(len(b.buf)))
}

// durably appends to the log. took is zero when it did not come to that.
func (w *writer) durably(b *batch) (base uint64, took time.Duration, err error) {
	if w.ended != nil {
		return 0, 0, w.ended
	}
	if err := w.settle(context.Background()); err != nil {
		return 0, 0, err
	}
	base = w.m.length
	if b.at != wire.NoOffset && b.at != base {
		return 0, 0, &wire.Error{Status: wire.StatusOffset, Arg0: base, Arg1: b.at, Message: fmt.Sprintf("append to %v at %d", w.cfg.Shard, b.at)}
	}
	began := time.Now()
	w.sinking.Store(began.UnixNano())
	end, err := w.log.Append(context.Background(), base, b.buf)
	w.sinking.Store(0)
	took = max(time.Since(began), 1)
	switch {
	case errors.Is(err, wire.ErrOffset):
		return 0, took, w.fence("expected length %d: %w", base, err)
	case err != nil:
		w.unsure = true
		return 0, took, err
	case end != base+uint64(len(b.buf)):
		return 0, took, w.fence("append at %d of %d bytes ended at %d", base, len(b.buf), end)
	}
	return base, took, nil
}

// settle finds out what became of an append that failed: after Flush nothing is
// under way any more.
func (w *writer) settle(ctx context.Context) error {
	if !w.unsure {
		return nil
	}
	if err := w.log.Flush(ctx); err != nil {
		return fmt.Errorf("outcome of an earlier append to %v: %w", w.cfg.Shard, err)
	}
	info := w.log.Info()
	if info.Length < w.m.length || info.Incarnation != w.m.incarnation {
		return w.fence("length %d of incarnation %x, was %d of %x", info.Length, info.Incarnation, w.m.length, w.m.incarnation)
	}
	w.unsure = false
	if info.Length == w.m.length {
		return nil
	}
	if err := w.load(ctx, info); err != nil {
		w.cfg.Logger.Warn("the cache skips a chunk whose beginning cannot be read back", "shard", w.cfg.Shard, "length", info.Length, "err", err)
		w.m.jump(info.Length, nil)
	}
	return nil
}

// fence ends the Appender: another writer has the shard.
func (w *writer) fence(format string, args ...any) error {
	w.ended = fmt.Errorf("%w: %v: %w", ErrFenced, w.cfg.Shard, fmt.Errorf(format, args...))
	w.a.q.end(w.ended, refuse)
	return w.ended
}

func (w *writer) seal() error {
	if w.ended != nil {
		return w.ended
	}
	if err := w.settle(context.Background()); err != nil {
		return err
	}
	if err := w.log.Seal(); err != nil {
		return err
	}
	w.m.sealed = true
	w.m.refill()
	w.heed()
	return nil
}

// beat publishes again while the Appender is idle, and tidies up.
func (w *writer) beat() {
	w.a.q.tidy(time.Now())
	if w.ended != nil {
		return
	}
	if w.unsure {
		// What was given up and came through is published here at the latest.
		ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Heartbeat)
		err := w.settle(ctx)
		cancel()
		if err != nil {
			return
		}
	}
	if w.m.current && w.cfg.Clock().Sub(w.m.lastBeat) < w.cfg.Heartbeat/2 {
		return // an append has just published
	}
	if w.overtaken() {
		return
	}
	w.acquire(Wait)
	w.m.refill()
	w.heed()
}

// overtaken looks whether the store has more of the shard than this Appender
// knows, and ends it then. Its heartbeat would tell consumers that what it has
// published is all there is, while another writer, one that did not know of this
// one yet, has appended. An append would notice; an idle Appender has none.
func (w *writer) overtaken() bool {
	length := w.m.length
	if info := w.log.Info(); info.Length > length {
		w.fence("length %d, expected %d", info.Length, length)
		return true
	}
	if w.cfg.ReadTail == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Heartbeat)
	defer cancel()
	// What the log knows is its own memory; the store is asked for a byte behind.
	if n, _ := w.cfg.ReadTail(ctx, length, w.behind[:]); n > 0 {
		w.fence("a byte behind the expected length %d", length)
		return true
	}
	return false
}

// close publishes once more if the cache is behind, and closes the log.
func (w *writer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if w.ended == nil && w.settle(ctx) == nil && !w.m.current {
		w.m.refill()
	}
	w.release()
	w.a.q.tidy(time.Now().Add(time.Second))
	w.closeErr = w.log.Close()
}

// load makes the mirror continue a log of the given length.
func (w *writer) load(ctx context.Context, info durable.Info) error {
	chunk, valid := layout.Tail(info.Length)
	start := chunk * layout.ChunkSize
	if w.cfg.Cache == nil || valid == 0 || start < info.First || w.cfg.ReadTail == nil {
		w.m.jump(info.Length, nil)
		return nil
	}
	buf := make([]byte, valid)
	for n := 0; n < valid; {
		k, err := w.cfg.ReadTail(ctx, start+uint64(n), buf[n:])
		if err != nil {
			return err
		}
		if k <= 0 {
			return fmt.Errorf("%d of %d bytes read", n, valid)
		}
		n += k
	}
	w.m.jump(info.Length, buf)
	return nil
}
