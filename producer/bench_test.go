package producer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
)

// BenchmarkTwoUnderWay is what one or two batches of 64 records under way give on
// a durable log with a flush each: why an Appender has one.
func BenchmarkTwoUnderWay(b *testing.B) {
	for _, under := range []int{1, 2} {
		b.Run(fmt.Sprintf("batches=%d", under), func(b *testing.B) {
			dir, err := durable.Open(b.TempDir(), durable.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer dir.Close()
			log, err := dir.Log(testShard.String())
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 64*200)
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range under {
				wg.Go(func() {
					for n := i; n < b.N; n += under {
						if _, err := log.Append(context.Background(), durable.NoOffset, p); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// exactLog is a sink that takes exactly as long as it says, whatever it is given:
// 200 us, and 5 ms each hundredth time. (time.Sleep would make 200 us more than 1 ms.)
type exactLog struct {
	nullLog
	calls int
}

func (l *exactLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	d := 200 * time.Microsecond
	if l.calls++; l.calls%100 == 0 {
		d = 5 * time.Millisecond
	}
	for began := time.Now(); time.Since(began) < d; {
	}
	return l.nullLog.Append(ctx, off, p)
}

// BenchmarkBatch appends from one producer that never waits for an Ack: what the
// batch is worth before a sink with a fixed cost.
func BenchmarkBatch(b *testing.B) {
	for _, records := range []int{1, 64} {
		for _, queue := range []int{256, 1024} {
			b.Run(fmt.Sprintf("batch=%d/queue=%d", records, queue), func(b *testing.B) {
				a, err := Open(b.Context(), Config{Shard: testShard, Log: &exactLog{nullLog: nullLog{info: durable.Info{Incarnation: 1}}},
					Limits: Limits{BatchRecords: records, QueueRecords: queue}})
				if err != nil {
					b.Fatal(err)
				}
				record := make([]byte, 200)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.Append(context.Background(), record); err != nil {
						b.Fatal(err)
					}
				}
				if err := a.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				s := a.Stats()
				b.ReportMetric(float64(s.Records)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(s.AckP99.Microseconds()), "p99-us")
			})
		}
	}
}

// BenchmarkClosedLoop has producers that wait for each Ack, on a durable log with
// a flush for each batch: what the linger is worth.
func BenchmarkClosedLoop(b *testing.B) {
	for _, linger := range []time.Duration{-1, 2 * time.Millisecond} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("linger=%v/producers=%d", max(linger, 0), n), func(b *testing.B) {
				dir, err := durable.Open(b.TempDir(), durable.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer dir.Close()
				log, err := dir.Log(testShard.String())
				if err != nil {
					b.Fatal(err)
				}
				a, err := Open(b.Context(), Config{Shard: testShard, Log: log, Cache: newArena(b, 64<<20), Limits: Limits{Linger: linger}})
				if err != nil {
					b.Fatal(err)
				}
				p := make([]byte, 200)
				var wg sync.WaitGroup
				b.ResetTimer()
				for i := range n {
					wg.Go(func() {
						for k := i; k < b.N; k += n {
							ack, err := a.Append(context.Background(), p)
							if err == nil {
								_, err = ack.Wait(context.Background())
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				s := a.Stats()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(s.Records)/float64(s.Batches), "records/batch")
				b.ReportMetric(float64(s.AckP99.Microseconds()), "p99-us")
				a.Close(context.Background())
			})
		}
	}
}

// BenchmarkQueue appends to a log that takes no time: what a record costs beside
// the sink, with producers that never wait for an Ack.
func BenchmarkQueue(b *testing.B) {
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			a, err := Open(b.Context(), Config{Shard: testShard, Log: &nullLog{info: durable.Info{Incarnation: 1}}})
			if err != nil {
				b.Fatal(err)
			}
			record := make([]byte, 200)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range producers {
				wg.Go(func() {
					for n := i; n < b.N; n += producers {
						if _, err := a.Append(context.Background(), record); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if err := a.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			s := a.Stats()
			b.ReportMetric(float64(s.Records)/float64(s.Batches), "records/batch")
		})
	}
}
