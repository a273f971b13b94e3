package fanout

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// readyTime is how long consumers may take to connect and get a first record.
	readyTime = 20 * time.Second
	// settleTime bounds one request of the preparations.
	settleTime = 10 * time.Second
)

// traffic is what consumers have sent and received, up to now.
type traffic struct {
	Moved    uint64 `json:"moved"`    // bytes
	Requests uint64 `json:"requests"` // of consumers
	Pages    uint64 `json:"pages"`    // of these, polls of length pages; of ours alone
	Durable  uint64 `json:"durable"`  // bytes that came from the store; of ours alone
	News     uint64 `json:"news"`     // deliveries; of ours alone
}

func (t traffic) since(b traffic) traffic {
	return traffic{t.Moved - b.Moved, t.Requests - b.Requests, t.Pages - b.Pages, t.Durable - b.Durable, t.News - b.News}
}

func (t traffic) add(b traffic) traffic {
	return traffic{t.Moved + b.Moved, t.Requests + b.Requests, t.Pages + b.Pages, t.Durable + b.Durable, t.News + b.News}
}

// crowd is the consumers of one process.
type crowd interface {
	// follow has one consumer follow all shards from their beginning until ctx ends.
	follow(ctx context.Context, consumer int, s *sink) error
	traffic() traffic
	close() error
}

// consumed is what a process of consumers says at its end.
type consumed struct {
	Samples int64                  `json:"samples"`
	Bytes   int64                  `json:"bytes"`
	Traffic traffic                `json:"traffic"` // in the window
	Times   *hdrhistogram.Snapshot `json:"times"`
}

// expected says how many records were produced in the window.
type expected struct {
	Records int64 `json:"records"`
}

func newCrowd(ctx context.Context, s spec) (crowd, error) {
	switch s.Program {
	case SHM, RDMA, TCP:
		return newReaders(ctx, s)
	case Naive:
		return newNaive(ctx, s)
	case Pread:
		return newPreads(s)
	}
	return newClients(ctx, s)
}

// consume is a process of consumers.
func consume(ctx context.Context, s spec, in *bufio.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opening, opened := context.WithTimeout(ctx, readyTime)
	defer opened()
	all, err := newCrowd(opening, s)
	if err != nil {
		return err
	}
	t := newTally(s.Shards * s.Consumers)
	var running sync.WaitGroup
	defer func() {
		cancel(nil)
		running.Wait()
		err = errors.Join(err, all.close())
	}()
	for i := range s.Consumers {
		to := newSink(t, s.Shards, s.Workload.record())
		running.Go(func() {
			if err := all.follow(ctx, i, to); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("consumer %d: %w", i, err))
			}
		})
	}
	select {
	case <-t.primed:
	case <-opening.Done():
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: %d of %d shards without a first record", opening.Err(), t.waiting.Load(), s.Shards*s.Consumers)
	}
	if err := say(out, up{Ready: true}); err != nil {
		return err
	}
	return measure(ctx, t, all, s, in, out)
}

// measure counts what comes in the window.
func measure(ctx context.Context, t *tally, all crowd, s spec, in *bufio.Reader, out io.Writer) error {
	var w window
	if err := readLine(in, &w); err != nil {
		return err
	}
	t.from.Store(w.From)
	t.to.Store(w.To)
	if err := pause(ctx, time.Duration(w.From-t.clock.now())); err != nil {
		return err
	}
	before := all.traffic()
	if err := pause(ctx, time.Duration(w.To-t.clock.now())); err != nil {
		return err
	}
	result := consumed{Traffic: all.traffic().since(before), Bytes: t.bytes.Load()}
	var e expected
	if err := readLine(in, &e); err != nil {
		return err
	}
	for t.samples.Load() < e.Records*int64(s.Consumers) && t.clock.now() < w.To+w.Grace {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	t.mu.Lock()
	result.Samples, result.Times = t.mu.times.TotalCount(), t.mu.times.Export()
	t.mu.Unlock()
	if err := say(out, result); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in) // until the benchmark has what it wants
	return err
}

// pause waits for d, if it is positive.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
