package read

import (
	"context"
	"errors"
	"testing"
	"time"
)

// script is a stepper: its steps return at once, every so many it has to be
// rewound, which takes rest.
type script struct {
	every, rest int // steps; milliseconds
	steps       int
	rewound     int
	drained     bool
	fails       error // after 1,000 steps
}

func (s *script) step(deadline time.Time) (int, error) {
	switch {
	case time.Until(deadline) <= 0:
		return 0, errors.New("deadline has passed")
	case s.fails != nil && s.steps == 1000:
		return 0, s.fails
	case s.every > 0 && s.steps > 0 && s.steps%s.every == 0 && s.rewound < s.steps/s.every:
		return 0, nil
	}
	s.steps++
	return 3, nil
}

func (s *script) rewind(time.Time) error {
	s.rewound++
	<-time.After(time.Duration(s.rest) * time.Millisecond)
	return nil
}

func (s *script) drain() error {
	s.drained = true
	return nil
}

func TestMeterCountsReads(t *testing.T) {
	for _, timing := range []timing{timed, untimed} {
		s, m := &script{}, newMeter(timing)
		if err := m.run(t.Context(), s, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if m.reads != 3*s.steps || m.took < 20*time.Millisecond || m.peak <= 0 {
			t.Errorf("%d reads in %d steps, %v, peak %v", m.reads, s.steps, m.took, m.peak)
		}
		if timing == timed && (m.times.TotalCount() != int64(s.steps) || len(m.fresh) > 0) {
			t.Errorf("%d of %d steps timed", m.times.TotalCount(), s.steps)
		}
	}
}

// TestMeterDoesNotCountRewinding: 10 rewinds of 5 ms in a measurement of 20 ms.
func TestMeterDoesNotCountRewinding(t *testing.T) {
	s, m := &script{every: 100, rest: 5}, newMeter(untimed)
	began := time.Now()
	if err := m.run(t.Context(), s, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	all := time.Since(began)
	if s.rewound == 0 || m.took > all-time.Duration(s.rewound*s.rest)*time.Millisecond {
		t.Errorf("%v of %v counted, with %d rewinds of %d ms", m.took, all, s.rewound, s.rest)
	}
}

func TestMeterStops(t *testing.T) {
	broken := errors.New("broken")
	r := readers{steppers: []stepper{&script{}, &script{fails: broken}}}
	if _, err := r.measure(t.Context(), cell{SHM, Raw, Rate, 1}, time.Hour); !errors.Is(err, broken) {
		t.Errorf("a failed reader: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.measure(ctx, cell{SHM, Raw, Rate, 1}, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled measurement: %v", err)
	}
}

func TestMeasureAddsReadersUp(t *testing.T) {
	a, b := &script{}, &script{}
	r := readers{steppers: []stepper{a, b}, allocs: true, server: func() (time.Duration, bool) { return 0, false }}
	f, err := r.measure(t.Context(), cell{SHM, Raw, Latency, 1}, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if !a.drained || !b.drained || f.Reads <= 0 || f.MsgRate <= 0 || f.Allocs == nil || f.ServerCPU != nil {
		t.Errorf("%+v", f)
	}
	if f.TMin > f.P10 || f.P10 > f.TTypical || f.TTypical > f.P90 || f.P90 > f.P99 || f.P99 > f.P999 || f.P999 > f.TMax || f.TMax <= 0 {
		t.Errorf("percentiles are not in order: %+v", f)
	}
	// Both readers took the time of the cell: the rate is that of both.
	if one := f.Reads / f.Seconds / 1e6; f.MsgRate < one*0.99 {
		t.Errorf("%v million a second, want at least %v", f.MsgRate, one)
	}
}
