package reader

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// idleReaderBytes bounds the heap of one Reader that waits, without its goroutine.
const idleReaderBytes = 6 << 10

// TestRealTenThousandReaders of one process, all in Next on one shard: each costs a
// few KiB, none holds memory of the connection while it waits, and all get what is
// published without the path being blamed.
func TestRealTenThousandReaders(t *testing.T) {
	const readers = 10_000
	c, w := shmCluster(t, 8<<20)
	w.append(100)
	w.publish(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := heap()
	var all []*Reader
	for range readers {
		r, err := c.Reader(ctx, "fabric/3", Earliest())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for _, r := range all[:100] { // these have read, and wait
		if _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
		short, end := context.WithTimeout(ctx, time.Millisecond)
		if _, err := r.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		end()
	}
	each := int(heap()-before) / readers
	t.Logf("%d bytes of heap a Reader", each)
	if each > idleReaderBytes {
		t.Errorf("%d bytes of heap a Reader, want at most %d", each, idleReaderBytes)
	}
	w.append(100)
	w.publish(0)
	var done sync.WaitGroup
	for _, r := range all {
		done.Go(func() {
			for r.Position() < 200 {
				// On a busy host those that were lent memory and do not run may starve the
				// others for the second after which the store is asked.
				b, err := r.Next(ctx)
				if err != nil || wrongAt(b.Data, b.Position) >= 0 {
					t.Errorf("%d bytes from %v, %v", len(b.Data), b.Source, err)
					return
				}
			}
			short, end := context.WithTimeout(ctx, 100*time.Millisecond)
			defer end()
			if _, err := r.Next(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if s := c.Stats(); s.Failures["shm"] != 0 || s.DeliveredBy["shm"] < s.DeliveredBy["durable"] {
		t.Errorf("by source %v, failures %v, retries %v", s.DeliveredBy, s.Failures, s.Retries)
	}
	start := time.Now()
	for _, r := range all {
		r.Close()
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("closing took %v", d)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
