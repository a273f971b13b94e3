package sink

import (
	"context"
	"errors"
	"sync"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/producer"
)

// The room and the batch that a producer.Appender has by default.
const (
	appenderRoom  = 1024
	appenderBatch = 64
)

// appender has a producer.Appender with its defaults, and so a shard, for each
// connection; records go to them in turn. A record is written when its Ack says
// so, which one goroutine for each Appender waits for, in order.
type appender struct {
	r       *run
	shards  []*producer.Appender
	acks    []chan acked
	writers sync.WaitGroup
}

type acked struct {
	record
	producer.Ack
}

// acksKept is more than a queue and two batches hold: the loop waits for the
// Appender, never for what counts its Acks.
const acksKept = 2 * appenderRoom

func newAppender(r *run) (path, error) {
	a := &appender{r: r}
	for i := range r.sink.all {
		ap, err := producer.Open(r.ctx, producer.Config{Shard: layout.Shard{Stream: "bench", Number: uint32(i)}, Log: &pooled{pool: r.sink}})
		if err != nil {
			a.drain()
			return nil, err
		}
		acks := make(chan acked, acksKept)
		a.shards, a.acks = append(a.shards, ap), append(a.acks, acks)
		a.writers.Go(func() { a.count(acks) })
	}
	return a, nil
}

func (a *appender) submit(rec record) bool {
	i := rec.id % len(a.shards)
	ack, err := a.shards[i].Append(a.r.ctx, a.r.payload)
	if err != nil {
		a.r.fail(err)
		return false
	}
	a.acks[i] <- acked{rec, ack}
	return true
}

func (a *appender) count(acks chan acked) {
	for w := range acks {
		if _, err := w.Wait(a.r.ctx); err != nil {
			a.r.fail(err)
			continue
		}
		a.r.wrote([]record{w.record})
	}
}

func (a *appender) drain() {
	for _, acks := range a.acks {
		close(acks)
	}
	a.writers.Wait()
	var err error
	for _, ap := range a.shards {
		err = errors.Join(err, ap.Close(context.WithoutCancel(a.r.ctx)))
	}
	if err != nil {
		a.r.fail(err)
	}
}
