package rdma

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	bounds := []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}
	longest := make([]time.Duration, len(bounds))
	var sum time.Duration
	const runs = 2000
	for range runs {
		var b Backoff
		for i, bound := range bounds {
			d := b.Next(r)
			if d < 0 || d >= bound*time.Millisecond {
				t.Fatalf("delay %d is %v, bound %v", i, d, bound*time.Millisecond)
			}
			longest[i] = max(longest[i], d)
			if i == len(bounds)-1 {
				sum += d
			}
		}
		b.Reset()
		if d := b.Next(r); d >= 50*time.Millisecond {
			t.Fatalf("%v after Reset", d)
		}
	}
	for i, bound := range bounds {
		if longest[i] < bound*time.Millisecond*95/100 {
			t.Errorf("delay %d never above %v of %v: not full jitter", i, longest[i], bound*time.Millisecond)
		}
	}
	if mean := sum / runs; mean < 2400*time.Millisecond || mean > 2600*time.Millisecond {
		t.Errorf("mean %v of 5 s", mean)
	}
	b := Backoff{Min: time.Second, Max: 10 * time.Millisecond}
	for range 5 {
		if d := b.Next(nil); d < 0 || d >= 10*time.Millisecond {
			t.Errorf("%v with Max 10ms", d)
		}
	}
}

func TestSpinner(t *testing.T) {
	s := spinner{max: 50 * time.Microsecond}
	for range 50 {
		s.took(4 * time.Microsecond)
	}
	if b := s.budget(); b < 4*time.Microsecond || b > 20*time.Microsecond {
		t.Errorf("reads of 4 us: spins for %v", b)
	}
	for range 50 {
		s.took(10 * time.Millisecond)
	}
	spins := 0
	for range 10 * probeEvery {
		if b := s.budget(); b > 0 {
			spins++
			if b != s.max {
				t.Errorf("probe of %v", b)
			}
		}
	}
	if spins != 10 {
		t.Errorf("slow reads: %d of %d waits spin", spins, 10*probeEvery)
	}
	s.took(4 * time.Microsecond) // a probe found a fast one
	if s.budget() == 0 {
		t.Error("does not believe a fast read")
	}
	never := spinner{}
	never.took(time.Microsecond)
	if never.budget() != 0 {
		t.Error("spins although told not to")
	}
}

// TestSpinnerLooksAtTheClockNowAndThen: short waits are timed seldom, long ones
// always.
func TestSpinnerLooksAtTheClockNowAndThen(t *testing.T) {
	s := spinner{max: 50 * time.Microsecond, usual: 4 * time.Microsecond}
	looks := 0
	for range 10 * lookEvery {
		if s.due() {
			looks++
		}
	}
	if looks != 10 {
		t.Errorf("%d looks in %d short waits, want 10", looks, 10*lookEvery)
	}
	s.usual = 60 * time.Microsecond
	for range lookEvery {
		if !s.due() {
			t.Error("a wait in a time of long ones is not timed")
		}
	}
}
