package rdma

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// instantQueue completes each list before post returns: what is left is the
// engine's own time.
type instantQueue struct{}

func (instantQueue) post(reads []ibverbs.Read, wcs []ibverbs.WC, spin time.Duration) (ibverbs.Counts, error) {
	c := ibverbs.Counts{Posted: len(reads)}
	if spin >= 0 {
		wcs[0] = ibverbs.WC{ID: reads[len(reads)-1].ID}
		c.Polled = 1
	}
	return c, nil
}

func (instantQueue) poll([]ibverbs.WC, time.Duration) (int, error) { return 0, nil }
func (instantQueue) armPoll([]ibverbs.WC) (int, error)             { return 0, nil }
func (instantQueue) wait(time.Time, *atomic.Bool) (bool, error)    { return false, nil }
func (instantQueue) wake()                                         {}
func (instantQueue) toErr() error                                  { return nil }
func (instantQueue) destroyQP() error                              { return nil }
func (instantQueue) close() error                                  { return nil }

// BenchmarkDo measures planning, posting and settling of a batch without a
// device: what a READ costs beside the call to it.
func BenchmarkDo(b *testing.B) {
	for _, reads := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", reads), func(b *testing.B) {
			e := newEngine(engineConfig{queue: instantQueue{}, depth: 512, stuck: time.Second, spin: 50 * time.Microsecond,
				length: 1 << 20, mem: make([]byte, 1<<20)})
			defer e.close()
			batch := newTestBatch(b, e, reads*4096)
			defer batch.Release()
			deadline := time.Now().Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				for i := range reads {
					batch.Add(uint64(i)*4096, 4096)
				}
				if err := batch.Do(deadline); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
