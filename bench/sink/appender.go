package sink

import (
	"context"
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
// connection; records go to them in turn. A record counts as written when its
// Ack says so.
type appender struct {
	r       *run
	shards  []shard
	readers sync.WaitGroup
}

type shard struct {
	*producer.Appender
	acks chan receipt
}

type receipt struct {
	rec record
	ack producer.Ack
}

func newAppender(r *run) (path, error) {
	a := &appender{r: r}
	for i := range r.sink.all {
		ap, err := producer.Open(r.ctx, producer.Config{Shard: layout.Shard{Stream: "bench", Number: uint32(i)}, Log: &pooled{pool: r.sink}})
		if err != nil {
			a.drain()
			return nil, err
		}
		// All records under way have room: the channel must not be the queue.
		s := shard{ap, make(chan receipt, appenderRoom+2*appenderBatch)}
		a.shards = append(a.shards, s)
		a.readers.Go(func() { a.reader(s.acks) })
	}
	return a, nil
}

func (a *appender) submit(rec record) bool {
	s := a.shards[rec.id%len(a.shards)]
	ack, err := s.Append(a.r.ctx, a.r.payload)
	if err != nil {
		a.r.fail(err)
		return false
	}
	s.acks <- receipt{rec, ack}
	return true
}

// reader notes when the records of a shard are written. Acks come in order.
func (a *appender) reader(acks chan receipt) {
	for r := range acks {
		if _, err := r.ack.Wait(a.r.ctx); err != nil {
			a.r.fail(err)
			continue
		}
		a.r.wrote([]record{r.rec})
	}
}

func (a *appender) drain() {
	for _, s := range a.shards {
		close(s.acks)
	}
	a.readers.Wait()
	for _, s := range a.shards {
		if err := s.Close(context.WithoutCancel(a.r.ctx)); err != nil {
			a.r.fail(err)
		}
	}
}
