package reader

import (
	"maps"
	"sync"
	"sync/atomic"
)

// trace is what a Reader leaves behind for the observer, which looks now and then: its
// own path costs an atomic addition or two a Batch, and no look at a clock.
type trace struct {
	// turns is odd while the Reader works or waits for bytes, and even while the
	// consumer has the turn.
	turns                atomic.Uint64
	fromCache, fromStore atomic.Uint64 // bytes
	holes                atomic.Uint64 // reads of full replicas that lacked published bytes
	failed               atomic.Uint64 // reads that failed with their transport
	refused              atomic.Uint64 // questions to the store that it did not answer
	born                 atomic.Uint64 // as tail.born
	// capped: the last wait was for the rate of the Reader's own.
	capped atomic.Bool
}

func (t *trace) turn() { t.turns.Add(1) }

func (t *trace) delivered(from Source, n int) {
	if from == FromDurable {
		t.fromStore.Add(uint64(n))
	} else {
		t.fromCache.Add(uint64(n))
	}
}

func (t *trace) fail(why reason) {
	if why == reasonDeadline || why == reasonTransport {
		t.failed.Add(1)
	}
}

// traceCounts are a trace's counts at one moment, or the difference of two.
type traceCounts struct{ fromCache, fromStore, holes, failed, refused uint64 }

func (t *trace) counts() traceCounts {
	return traceCounts{t.fromCache.Load(), t.fromStore.Load(), t.holes.Load(), t.failed.Load(), t.refused.Load()}
}

func (s traceCounts) minus(o traceCounts) traceCounts {
	return traceCounts{s.fromCache - o.fromCache, s.fromStore - o.fromStore, s.holes - o.holes, s.failed - o.failed, s.refused - o.refused}
}

func (s traceCounts) plus(o traceCounts) traceCounts {
	return traceCounts{s.fromCache + o.fromCache, s.fromStore + o.fromStore, s.holes + o.holes, s.failed + o.failed, s.refused + o.refused}
}

// rootCounts counts lost connections by rdma.Root: rare.
type rootCounts struct {
	mu struct {
		sync.Mutex
		by map[string]uint64
	}
}

func (r *rootCounts) add(root string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.by == nil {
		r.mu.by = map[string]uint64{}
	}
	r.mu.by[root]++
}

func (r *rootCounts) snapshot() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mu.by)
}
