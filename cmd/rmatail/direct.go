package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// direct appends to a durable directory, through an Appender's queue: while a batch
// is being flushed, the next ones wait in it. Each has its offset, so that nothing
// is appended behind one that failed. One sender; its goroutine ends with close.
type direct struct {
	*dirAppender
	shard string
	done  func(b *batch, pos uint64) // b is durable at pos; called in order

	next   uint64        // where the next batch has to lie
	at     atomic.Uint64 // end of what is known to be durable
	flying chan queued   // nil: not started
	giveUp context.CancelFunc
	ended  chan struct{}
	failed struct {
		sync.Mutex
		err error // the first one; final
	}
}

// queued is a batch in the queue or on its way, or a flush that waits behind all
// before it.
type queued struct {
	b     *batch
	ack   producer.Ack
	flush chan<- struct{}
}

// find learns the length.
func (d *direct) find(ctx context.Context) error {
	i, err := d.dir.Stat(ctx, d.shard)
	if err != nil && !errors.Is(err, wire.ErrUnknownShard) {
		return err
	}
	d.at.Store(i.Length)
	return nil
}

func (d *direct) start(from uint64, _ bool) {
	d.next = from
	d.at.Store(from)
	d.flying, d.ended = make(chan queued, maxEntries), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	d.giveUp = cancel
	go d.settle(ctx)
}

// settle waits for the Acks, in order, until it is to give up: then it takes what
// has resolved.
func (d *direct) settle(ctx context.Context) {
	defer close(d.ended)
	for {
		select {
		case q := <-d.flying:
			d.landed(ctx, q)
			continue
		default:
		}
		select {
		case q := <-d.flying:
			d.landed(ctx, q)
		case <-ctx.Done():
			return
		}
	}
}

func (d *direct) landed(ctx context.Context, q queued) {
	if q.flush != nil {
		close(q.flush)
		return
	}
	pos, err := q.ack.Wait(ctx)
	switch {
	case d.err() != nil: // what comes behind a failure has no place
	case errors.Is(err, wire.ErrOffset):
		d.fail(fmt.Errorf("%w: %w", errForeign, err))
	case err != nil:
		d.fail(err)
	default:
		d.at.Store(pos + uint64(len(q.b.data)))
		d.done(q.b, pos)
	}
}

func (d *direct) err() error {
	d.failed.Lock()
	defer d.failed.Unlock()
	return d.failed.err
}

func (d *direct) fail(err error) {
	d.failed.Lock()
	defer d.failed.Unlock()
	if d.failed.err == nil {
		d.failed.err = err
	}
}

func (d *direct) send(b *batch) error {
	if err := d.err(); err != nil {
		return err
	}
	ack, err := d.AppendAt(context.Background(), d.next, b.data)
	if err != nil {
		return err
	}
	d.next += uint64(len(b.data))
	return d.hand(queued{b: b, ack: ack})
}

func (d *direct) hand(q queued) error {
	select {
	case d.flying <- q:
		return nil
	case <-d.ended:
		return producer.ErrClosed
	}
}

func (d *direct) flush() error {
	c := make(chan struct{})
	if err := d.hand(queued{flush: c}); err != nil {
		return err
	}
	select {
	case <-c:
	case <-d.ended:
	}
	return d.err()
}

func (d *direct) length() uint64  { return d.at.Load() }
func (d *direct) retries() uint64 { return 0 }

func (d *direct) readAt(ctx context.Context, pos uint64, p []byte) (int, error) {
	return d.dir.ReadAt(ctx, d.shard, pos, p)
}

func (d *direct) close(ctx context.Context) error {
	err := d.dirAppender.close(ctx) // every Ack is settled then, or its append hangs
	if d.flying != nil {
		d.giveUp()
		<-d.ended
	}
	return err
}
