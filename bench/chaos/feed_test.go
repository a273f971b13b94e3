package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// feed appends position-determined records to one shard, one after the other.
type feed struct {
	shard layout.Shard
	sink  sink
	rng   *rand.Rand

	acked atomic.Uint64
	errs  atomic.Int64 // appends that were not acknowledged
	pause atomic.Int64 // between two records, ns
	most  atomic.Int64 // bytes of a record

	mu struct {
		sync.Mutex
		marks []mark    // of every record, by position
		took  []elapsed // of every acknowledged append
		err   error     // the last one
	}
}

// mark is when a record that ends at a position was handed to the producer.
type mark struct {
	end uint64
	at  time.Time
}

// elapsed is a duration that ended at a time.
type elapsed struct {
	at   time.Time
	took time.Duration
}

func newFeed(shard layout.Shard, s sink, seed uint64) *feed {
	f := &feed{shard: shard, sink: s, rng: rand.New(rand.NewPCG(seed, uint64(shard.Number)))}
	f.pause.Store(int64(5 * time.Millisecond))
	f.most.Store(20_000)
	return f
}

// timed returns the feed if it knows when its records were appended.
func (f *feed) timed() *feed {
	if f.sink == nil {
		return nil
	}
	return f
}

// run appends until ctx ends; the record on its way is brought to its end.
func (f *feed) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		f.one()
		timer.Reset(time.Duration(f.pause.Load()))
	}
}

// one appends one record. Trouble is counted, and the same position tried again.
func (f *feed) one() {
	pos := f.acked.Load()
	p := make([]byte, 1+f.rng.IntN(int(f.most.Load())))
	fill(p, f.shard, pos)
	at := time.Now()
	f.mu.Lock()
	if n := len(f.mu.marks); n == 0 || f.mu.marks[n-1].end < pos+uint64(len(p)) {
		f.mu.marks = append(f.mu.marks, mark{pos + uint64(len(p)), at})
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	end, err := f.sink.append(ctx, pos, p)
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Status == wire.StatusOffset && refused.Arg0 > pos {
		f.acked.Store(refused.Arg0) // an append that was given up has come through
		return
	}
	if err != nil {
		f.errs.Add(1)
		f.mu.Lock()
		f.mu.err = fmt.Errorf("append of %d at %d to %v: %w", len(p), pos, f.shard, err)
		f.mu.Unlock()
		return
	}
	f.mu.Lock()
	f.mu.took = append(f.mu.took, elapsed{time.Now(), time.Since(at)})
	f.mu.Unlock()
	f.acked.Store(end)
}

func (f *feed) lastErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.err
}

// between returns the durations of the appends that ended in a time.
func (f *feed) between(from, to time.Time) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return endedIn(f.mu.took, from, to)
}

func endedIn(all []elapsed, from, to time.Time) (d []time.Duration) {
	for _, e := range all {
		if !e.at.Before(from) && e.at.Before(to) {
			d = append(d, e.took)
		}
	}
	return d
}

// quantile of durations; 0 of none.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
