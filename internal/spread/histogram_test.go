package spread

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every duration is in the first bucket whose bound is not below it.
func TestHistogramBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "d")) >> rapid.IntRange(0, 30).Draw(t, "shift")
		var h Histogram
		h.Add(d)
		s := h.Snapshot()
		for i, n := range s.Below {
			if want := d <= Bound(i); (n == 1) != want {
				t.Fatalf("%v is below %v: %d", d, Bound(i), n)
			}
		}
		if s.Count != 1 || s.Sum != max(d, 0) {
			t.Fatalf("count %d, sum %v of one %v", s.Count, s.Sum, d)
		}
	})
	for i := range Buckets {
		if bucketOf(Bound(i)) != i || bucketOf(Bound(i)+1) != i+1 {
			t.Errorf("bound %d, %v: buckets %d and %d", i, Bound(i), bucketOf(Bound(i)), bucketOf(Bound(i)+1))
		}
	}
}

func TestHistogramAtOnce(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				h.Add(time.Duration(i) * time.Microsecond)
			}
		})
	}
	all.Wait()
	s := h.Snapshot()
	if s.Count != 4000 || s.Sum != 4*999*500*time.Microsecond || s.Seconds()[0.001024] != 4000 || s.Seconds()[0.000001] != 8 {
		t.Errorf("%+v", s)
	}
	old := s
	h.Add(time.Second)
	if s = h.Snapshot(); s.Mean(&old) != time.Second || s.Mean(&s) != 0 {
		t.Errorf("mean %v, want 1 s", s.Mean(&old))
	}
}

func TestHistogramDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
