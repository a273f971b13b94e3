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

// appender has a producer.Appender with its defaults, and a shard for each
// connection. A record is written when its Ack says so. One goroutine waits for
// the Acks: those of a batch resolve together, and as many batches are on their
// way at once as there are shards.
type appender struct {
	r       *run
	to      *producer.Appender
	open    batch // that records are being added to
	batches chan batch
	counted sync.WaitGroup
}

// batch is records whose Acks resolve together.
type batch struct {
	records []record
	producer.Ack
}

// batchesKept is more than a queue holds: the loop waits for the Appender, never
// for what counts its Acks.
const batchesKept = 2 * appenderRoom

func newAppender(r *run) (path, error) {
	var targets []producer.Target
	for i := range r.sink.all {
		targets = append(targets, producer.Target{Shard: layout.Shard{Stream: "bench", Number: uint32(i)}, Log: &pooled{pool: r.sink}})
	}
	to, err := producer.Open(r.ctx, producer.Config{Shard: targets[0].Shard, Log: targets[0].Log, More: targets[1:]})
	if err != nil {
		return nil, err
	}
	a := &appender{r: r, to: to, batches: make(chan batch, batchesKept)}
	a.counted.Go(a.count)
	return a, nil
}

func (a *appender) submit(rec record) bool {
	ack, err := a.to.Append(a.r.ctx, a.r.payload)
	if err != nil {
		a.r.fail(err)
		return false
	}
	if len(a.open.records) > 0 && ack.Done() != a.open.Done() {
		a.batches <- a.open
		a.open.records = make([]record, 0, appenderBatch)
	}
	a.open.records, a.open.Ack = append(a.open.records, rec), ack
	return true
}

// count waits for the oldest batches, as many as are on their way at most, in
// whatever order they are settled.
func (a *appender) count() {
	var flying [connections]batch // those with records are waited for
	var done [connections]<-chan struct{}
	in := a.batches
	for left := 0; in != nil || left > 0; {
		next := in
		if left == connections {
			next = nil
		}
		i := 0
		select {
		case b, ok := <-next:
			if !ok {
				in = nil
				continue
			}
			for done[i] != nil {
				i++
			}
			flying[i], done[i], left = b, b.Done(), left+1
			continue
		case <-done[0]:
		case <-done[1]:
			i = 1
		case <-done[2]:
			i = 2
		case <-done[3]:
			i = 3
		}
		if _, err := flying[i].Wait(context.Background()); err != nil {
			a.r.fail(err)
		} else {
			a.r.wrote(flying[i].records)
		}
		done[i], left = nil, left-1
	}
}

func (a *appender) drain() {
	if len(a.open.records) > 0 {
		a.batches <- a.open
	}
	close(a.batches)
	a.counted.Wait()
	if err := a.to.Close(context.WithoutCancel(a.r.ctx)); err != nil {
		a.r.fail(err)
	}
}
