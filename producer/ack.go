package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// Ack is the receipt of a record that was queued. It is a small value, to be
// copied at will; any number of goroutines may wait on it. The zero Ack belongs
// to no record.
type Ack struct {
	b   *batch
	off uint32 // of the record in its batch
	n   uint32 // its bytes
}

// Shard returns the shard that the record is in, once Done is closed: an Appender
// of several shards decides late. It is zero if the record was never on its way.
func (k Ack) Shard() layout.Shard { return k.b.shard }

// Done is closed when the record is durable and was offered to the cache, or
// when it is known that it will not be.
func (k Ack) Done() <-chan struct{} { return k.b.done }

// Wait returns the record's position once it is durable by the log's policy and
// was offered to the cache. When ctx ends first, the record stays queued, and the
// error matches durable.ErrUnknownOutcome and ctx's.
//
// After an error that matches durable.ErrUnknownOutcome or durable.ErrFailed the
// record may be durable all the same; after any other it is not.
func (k Ack) Wait(ctx context.Context) (pos uint64, err error) {
	if k.b == nil {
		return 0, fmt.Errorf("%w: the Ack of no record", ErrRecord)
	}
	select {
	case <-k.b.done:
		return k.result()
	default:
	}
	select {
	case <-k.b.done:
		return k.result()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: record of %d bytes to %v, still queued or on its way: %w", durable.ErrUnknownOutcome, k.n, k.b.name, ctx.Err())
	}
}

func (k Ack) result() (pos uint64, err error) {
	if k.b.err != nil {
		return 0, k.b.err
	}
	return k.b.base + uint64(k.off), nil
}

// batch is a whole number of records that become durable together, or not.
type batch struct {
	name string    // of the queue, for errors
	at   uint64    // where it has to go; wire.NoOffset: at the end
	buf  []byte    // the records, back to back; the queue's again once resolved
	n    int       // records
	born time.Time // when the first record came

	// These are written before done is closed, and do not change then.
	shard layout.Shard
	base  uint64
	err   error
	done  chan struct{}
}

// takes reports whether a record of n bytes that has to go to off may join.
func (b *batch) takes(off uint64, n int, l Limits) bool {
	if b.n >= l.BatchRecords || len(b.buf)+n > l.BatchBytes {
		return false
	}
	if b.at == wire.NoOffset {
		return off == wire.NoOffset
	}
	return off == b.at+uint64(len(b.buf))
}

// outcome is noted before done is closed.
func (b *batch) outcome(shard layout.Shard, base uint64, err error) {
	b.shard, b.base, b.err = shard, base, err
}

func (b *batch) resolve(shard layout.Shard, base uint64, err error) {
	b.outcome(shard, base, err)
	close(b.done)
}
