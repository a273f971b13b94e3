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
				a, err := Open(b.Context(), Config{Shard: testShard, Log: log, Cache: newArena(b, 64<<20), CacheTimeout: -1, Limits: Limits{Linger: linger}})
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
