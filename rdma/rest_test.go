package rdma

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestFabricBusyCallerRests: a caller whose reads never make it sleep lets other
// goroutines run, long before the runtime would force it to after 10 ms.
func TestFabricBusyCallerRests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := newEngine(engineConfig{queue: instantQueue{}, depth: MaxReads, stuck: time.Second, spin: 50 * time.Microsecond, length: 1 << 20, mem: make([]byte, 1<<20)})
	defer e.close()
	b := newTestBatch(t, e, 4096)
	defer b.Release()
	deadline := time.Now().Add(time.Minute)
	rested := 0
	const tries = 20
	for range tries {
		var ran atomic.Bool
		go ran.Store(true)
		for range restAfter {
			b.Reset()
			plan(t, b, 0, 8)
			if err := b.Do(deadline); err != nil {
				t.Fatal(err)
			}
		}
		if ran.Load() {
			rested++
		}
	}
	if rested < tries/2 { // the scheduler does not always take the one that has waited longest
		t.Errorf("others ran in %d of %d times %d reads", rested, tries, restAfter)
	}
}
