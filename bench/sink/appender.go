package sink

import (
	"context"
	"sync"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/producer"
)

// appender has a producer.Appender with its defaults, and so a shard, for each
// connection; records go to them in turn.
type appender struct {
	r       *run
	inputs  []chan record
	writers sync.WaitGroup
}

func newAppender(r *run) (path, error) {
	a := &appender{r: r}
	for i := range r.sink.all {
		ap, err := producer.Open(r.ctx, producer.Config{Shard: layout.Shard{Stream: "bench", Number: uint32(i)}, Log: &pooled{pool: r.sink}})
		if err != nil {
			a.drain()
			return nil, err
		}
		in := make(chan record)
		a.inputs = append(a.inputs, in)
		a.writers.Go(func() { a.writer(ap, in) })
	}
	return a, nil
}

func (a *appender) submit(rec record) bool {
	a.inputs[rec.id%len(a.inputs)] <- rec
	return true
}

func (a *appender) writer(ap *producer.Appender, in chan record) {
	for rec := range in {
		if a.r.ctx.Err() != nil {
			continue
		}
		if _, err := ap.Append(a.r.ctx, a.r.payload); err != nil {
			a.r.fail(err)
			continue
		}
		a.r.wrote([]record{rec})
	}
	if err := ap.Close(context.WithoutCancel(a.r.ctx)); err != nil {
		a.r.fail(err)
	}
}

func (a *appender) drain() {
	for _, in := range a.inputs {
		close(in)
	}
	a.writers.Wait()
}
