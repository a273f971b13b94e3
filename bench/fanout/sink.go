package fanout

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A record begins with the moment when the producer had it, by clock, and its
// number in its shard. The first one of a shard has no moment: it says that the
// shard is being followed.
const headBytes = 16

func putHead(rec []byte, stamp int64, number uint64) {
	binary.LittleEndian.PutUint64(rec, uint64(stamp))
	binary.LittleEndian.PutUint64(rec[8:], number)
}

// longest is the longest delivery that is told from others.
const longest = int64(time.Minute)

// newHistogram counts ns.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1000, longest, 3) }

// tally is what all consumers of a process have got.
type tally struct {
	clock    clock
	from, to atomic.Int64
	samples  atomic.Int64 // of records that were produced in the window
	bytes    atomic.Int64 // that were delivered in it
	waiting  atomic.Int64 // shards, of all consumers, that have not delivered yet
	primed   chan struct{}

	mu struct {
		sync.Mutex
		times *hdrhistogram.Histogram
	}
}

func newTally(shards int) *tally {
	t := &tally{clock: newClock(), primed: make(chan struct{})}
	t.from.Store(1<<63 - 1)
	t.to.Store(1<<63 - 1)
	t.waiting.Store(int64(shards))
	t.mu.times = newHistogram()
	return t
}

// sink takes what one consumer gets. One goroutine a shard.
type sink struct {
	t      *tally
	shards []cut
}

// cut cuts a shard into records.
type cut struct {
	size   int
	have   int // bytes of the next record
	head   [headBytes]byte
	number uint64 // of the next record
	fresh  []int64
}

const freshMost = 256

func newSink(t *tally, shards, record int) *sink {
	s := &sink{t: t, shards: make([]cut, shards)}
	for i := range s.shards {
		s.shards[i].size = record
	}
	return s
}

// take takes the next bytes of a shard.
func (s *sink) take(shard int, b []byte) error {
	now := s.t.clock.now()
	from, to := s.t.from.Load(), s.t.to.Load()
	if now >= from && now < to {
		s.t.bytes.Add(int64(len(b)))
	}
	c := &s.shards[shard]
	for len(b) > 0 {
		if c.have < headBytes {
			copy(c.head[c.have:], b)
		}
		n := min(c.size-c.have, len(b))
		c.have += n
		b = b[n:]
		if c.have < c.size {
			break
		}
		c.have = 0
		stamp, number := int64(binary.LittleEndian.Uint64(c.head[:])), binary.LittleEndian.Uint64(c.head[8:])
		if number != c.number {
			return fmt.Errorf("%w: record %d of shard %d, want %d", errOrder, number, shard, c.number)
		}
		c.number++
		switch {
		case stamp == 0:
			if s.t.waiting.Add(-1) == 0 {
				close(s.t.primed)
			}
		case stamp >= from && stamp < to:
			c.fresh = append(c.fresh, now-stamp)
			if len(c.fresh) == freshMost {
				s.t.record(c)
			}
		}
	}
	if len(c.fresh) > 0 {
		s.t.record(c)
	}
	return nil
}

func (t *tally) record(c *cut) {
	t.mu.Lock()
	for _, ns := range c.fresh {
		_ = t.mu.times.RecordValue(min(max(ns, 0), longest)) // fails only above it
	}
	t.mu.Unlock()
	t.samples.Add(int64(len(c.fresh)))
	c.fresh = c.fresh[:0]
}
