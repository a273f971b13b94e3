package fanout

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestSinkCutsRecords gives a sink a shard's bytes in pieces of any length.
func TestSinkCutsRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{lineBytes, blockBytes}).Draw(t, "record")
		count := rapid.IntRange(1, 20).Draw(t, "records")
		tl := newTally(1)
		now := tl.clock.now()
		tl.from.Store(now)
		tl.to.Store(now + longest)
		s := newSink(tl, 1, size)
		all := make([]byte, size*count)
		for i := range count {
			stamp := now
			if i == 0 {
				stamp = 0
			}
			putHead(all[i*size:], stamp, uint64(i))
		}
		for rest := all; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 3*size)).Draw(t, "piece")
			if err := s.take(0, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := tl.samples.Load(); got != int64(count-1) || tl.mu.times.TotalCount() != got || tl.bytes.Load() != int64(len(all)) {
			t.Fatalf("%d records, %d times, %d bytes of %d records of %d B", got, tl.mu.times.TotalCount(), tl.bytes.Load(), count, size)
		}
		select {
		case <-tl.primed:
		default:
			t.Fatal("the first record was not seen")
		}
	})
}

func TestSinkSeesGaps(t *testing.T) {
	s := newSink(newTally(1), 1, lineBytes)
	rec := make([]byte, lineBytes)
	for _, number := range []uint64{0, 1} {
		putHead(rec, 1, number)
		if err := s.take(0, rec); err != nil {
			t.Fatal(err)
		}
	}
	putHead(rec, 1, 3)
	if err := s.take(0, rec); !errors.Is(err, errOrder) {
		t.Fatalf("record 3 after 1: %v", err)
	}
}

func TestSinkIgnoresOtherTimes(t *testing.T) {
	tl := newTally(1)
	now := tl.clock.now()
	tl.from.Store(now + longest)
	tl.to.Store(now + 2*longest)
	s := newSink(tl, 1, lineBytes)
	rec := make([]byte, lineBytes)
	putHead(rec, now, 0)
	if err := s.take(0, rec); err != nil || tl.samples.Load() != 0 || tl.bytes.Load() != 0 {
		t.Fatalf("%v: %d records, %d bytes before the window", err, tl.samples.Load(), tl.bytes.Load())
	}
}
