package producer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// hungLog takes nothing until its gate is opened, and keeps nothing.
type hungLog struct {
	nullLog
	gate
}

func (l *hungLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.delay(ctx)
	return l.nullLog.Append(ctx, off, p)
}

// heapNow is what is alive, after two collections: pools give up theirs in the second.
func heapNow() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// heapPeak looks for the largest heap, garbage included, until it is ended.
func heapPeak() (end func() uint64) {
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		sample := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for {
			runtimemetrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}

// While the sink hangs, producers push 25 times what the queue takes: what the
// Appender keeps alive stays below what Limits says, and with the garbage of batches
// that were dropped below a small multiple of it.
func TestHeapIsBoundedByTheQueue(t *testing.T) {
	const queue, pushed = 2 << 20, 50 << 20
	for _, size := range []int{20, 200, 5000, 100_000, MaxRecord} {
		for _, policy := range []Policy{Block, DropNewest, DropOldest} {
			for _, shards := range []int{1, 4} {
				t.Run(fmt.Sprintf("%d B/%v/%d shards", size, policy, shards), func(t *testing.T) {
					g := newGate()
					var targets []Target
					for i := range shards {
						targets = append(targets, Target{Shard: layout.Shard{Stream: "logs", Number: uint32(i)}, Log: &hungLog{nullLog{info: durable.Info{Incarnation: 1}}, g}})
					}
					record := make([]byte, size)
					before := heapNow()
					a, err := Open(t.Context(), Config{Shard: targets[0].Shard, Log: targets[0].Log, More: targets[1:], Policy: policy,
						Limits: Limits{QueueBytes: queue, QueueRecords: 1 << 20}})
					if err != nil {
						t.Fatal(err)
					}
					end := heapPeak()
					hungProducers(t, a, record, pushed)
					peak, now := end()-before, heapNow()
					alive := now - min(before, now)
					s := a.Stats()
					limit := uint64(2*queue + shards*max(2*a.cfg.Limits.BatchBytes, size) + 1<<20)
					if s.QueueBytesMax > max(queue, size) || alive > limit || peak > 8*limit {
						t.Errorf("%d bytes waited, limit %d; %d are alive, limit %d; %d at most with garbage", s.QueueBytesMax, queue, alive, limit, peak)
					}
					if s.QueueBytesMax < queue*9/10 && size < queue/2 {
						t.Errorf("only %d bytes waited: the sink did not hang", s.QueueBytesMax)
					}
					g.open()
					mustClose(t, a)
				})
			}
		}
	}
}

// hungProducers push until they have pushed enough, or with Block are all blocked:
// each of them alone pushes more than the queue takes.
func hungProducers(t *testing.T, a *Appender, record []byte, pushed int) {
	t.Helper()
	const producers = 16
	n := pushed / producers / max(len(record), 200)
	if a.cfg.Policy == Block {
		n = a.cfg.Limits.QueueBytes/len(record) + 2*len(a.writers)*a.cfg.Limits.BatchRecords
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for range producers {
			wg.Go(func() {
				for range n {
					if _, err := a.Append(ctx, record); err != nil && !errors.Is(err, ErrDropped) {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		wg.Wait()
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for a.cfg.Policy == Block && a.Stats().Blocked < producers {
		select {
		case <-tick.C:
		case <-done:
			t.Error("producers do not block")
			return
		}
	}
	if a.cfg.Policy == Block {
		runtime.GC() // with all of them blocked
		cancel()
	}
	<-done
}
