package rdma

import (
	"fmt"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// BenchmarkRxe compares a batch through a Conn with the same reads posted and
// polled directly on its queue pair: what leading, counting and matching cost.
func BenchmarkRxe(b *testing.B) {
	from, to := requireRxe(b)
	to2, from2 := to.config(b), from.config(b)
	to2.Logger, from2.Logger = nil, nil
	from2.Spin = 5 * time.Millisecond
	e := newRxeExport(b, to2, 4<<20)
	c := connect(b, from2, e)
	sleeper := from2
	sleeper.Spin = -1
	s := connect(b, sleeper, e)
	for _, size := range []int{8, 4096} {
		for _, reads := range []int{1, 16, 64} {
			name := fmt.Sprintf("size=%d/batch=%d", size, reads)
			fill := func(batch *Batch) {
				batch.Reset()
				for i := range reads {
					if batch.Add(uint64(i*size), size) == nil {
						b.Fatal("no room")
					}
				}
			}
			report := func(b *testing.B) {
				b.ReportMetric(float64(reads)*float64(b.N)/b.Elapsed().Seconds(), "reads/s")
				b.SetBytes(int64(size * reads))
				b.ReportAllocs()
			}
			b.Run(name+"/direct", func(b *testing.B) {
				batch := newBatch(b, c, size*reads)
				defer batch.Release()
				fill(batch)
				plan := batch.s.reads
				plan[len(plan)-1].Signaled = 1
				wcs := make([]ibverbs.WC, 8)
				for b.Loop() {
					counts, err := c.e.q.post(plan, wcs, time.Second)
					if err != nil || counts.Polled != 1 || wcs[0].Status != ibverbs.Success {
						b.Fatal(counts, err, wcs[0])
					}
				}
				report(b)
			})
			for kind, conn := range map[string]*Conn{"spin": c, "sleep": s} {
				b.Run(name+"/"+kind, func(b *testing.B) {
					batch := newBatch(b, conn, size*reads)
					defer batch.Release()
					deadline := time.Now().Add(time.Minute)
					for b.Loop() {
						fill(batch)
						if err := batch.Do(deadline); err != nil {
							b.Fatal(err)
						}
					}
					report(b)
				})
			}
		}
	}
}
