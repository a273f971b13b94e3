package bench

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var values []time.Duration
	for i := 100; i >= 1; i-- {
		values = append(values, time.Duration(i))
	}
	sorted := Sorted(values)
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.95: 95, 0.99: 99, 0.991: 100, 1: 100} {
		if got := Quantile(sorted, q); got != want {
			t.Errorf("quantile %v of 1..100 is %d, want %d", q, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 || Mean(nil) != 0 || Mean(values) != 50 || values[0] != 100 {
		t.Error("nothing has no quantile, the mean of 1..100 is 50, and Sorted changed its argument or not")
	}
}

func TestEnvironment(t *testing.T) {
	e := ThisEnvironment()
	e.End()
	if e.Go == "" || e.CPUs < 1 || e.GOMAXPROCS < 1 || e.Kernel == "" || e.LoadBefore == "" || e.LoadAfter == "" || e.Revision == "" {
		t.Errorf("not all is described: %+v", e)
	}
}
