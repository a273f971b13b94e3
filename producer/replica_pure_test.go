package producer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

func TestFifo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo[int]
		var want []int
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0, 1, 2, 3:
				q.push(i)
				want = append(want, i)
			case 4:
				q.unshift(i)
				want = slices.Insert(want, 0, i)
			case 5:
				if got := q.take(); !slices.Equal(got, want) {
					t.Fatalf("took %v, want %v", got, want)
				}
				want = nil
			default:
				if len(want) == 0 {
					continue
				}
				if front := *q.front(); front != want[0] {
					t.Fatalf("front %d, want %d", front, want[0])
				}
				if got := q.shift(); got != want[0] {
					t.Fatalf("got %d, want %d", got, want[0])
				}
				want = want[1:]
			}
			if q.len() != len(want) {
				t.Fatalf("length %d, want %d", q.len(), len(want))
			}
		}
	})
}

func TestBreakerRests(t *testing.T) {
	var b breaker
	now := time.Unix(1000, 0)
	rest := func() time.Duration {
		b.failed(now, 1)
		return b.until.Sub(now)
	}
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000} {
		if got := rest(); got != want*time.Millisecond {
			t.Errorf("rest %d is %v, want %v ms", i, got, int64(want))
		}
	}
	b.failed(now, 0.25)
	if got := b.until.Sub(now); got != restMax/4 {
		t.Errorf("a quarter of the rest is %v", got)
	}
	b.recovered(now)
	now = now.Add(longLife - 1)
	if got := rest(); got != restMax {
		t.Errorf("a node that failed soon again rests %v", got)
	}
	b.recovered(now)
	now = now.Add(longLife)
	if got := rest(); got != restMin {
		t.Errorf("a node that lived for long rests %v", got)
	}
}

func TestRecentWindow(t *testing.T) {
	s := &recent{ttl: 64 * time.Second} // steps of a second
	now := time.Unix(1000, 0)
	want := func(age time.Duration, from, to uint64) {
		t.Helper()
		gotFrom, gotTo, ok := s.window(now, age)
		if gotFrom != from || gotTo != to || ok != (from < to) {
			t.Errorf("[%d, %d), %v within %v, want [%d, %d)", gotFrom, gotTo, ok, age, from, to)
		}
	}
	want(s.ttl, 0, 0)
	const kilo = 16 << 10
	for i := range uint64(200) { // 16 KiB a second, from 1 MiB on
		s.note(1<<20+i*kilo, 1<<20+(i+1)*kilo, now)
		if i == 0 {
			want(s.ttl, 1<<20, 1<<20+kilo)
		}
		now = now.Add(time.Second)
	}
	end := uint64(1<<20 + 200*kilo)
	want(s.ttl, end-64*kilo+kilo, end) // the mark of 64 s ago is behind what was put then
	want(10*time.Second, end-10*kilo+kilo, end)
	if len(s.mu.marks) > recentSteps+2 {
		t.Errorf("%d marks", len(s.mu.marks))
	}
	s.note(end, end+100, now) // a piece of a chunk: it is needed from its start
	want(1, end, end+100)
	s.note(end+100, end+200, now.Add(time.Millisecond))
	now = now.Add(time.Millisecond)
	want(time.Millisecond, end, end+200)
	if s.bury(now.Add(s.ttl - time.Second)) {
		t.Error("buried before its time")
	}
	if !s.bury(now.Add(s.ttl + time.Second)) {
		t.Error("not buried")
	}
	want(s.ttl, 0, 0)
}

func TestMissingGaps(t *testing.T) {
	const x = layout.ExtentSize
	a, b := &recent{}, &recent{}
	var view cluster.View
	for _, c := range []struct {
		name   string
		gaps   []gap
		placed []uint64
		want   []gap
	}{
		{"chunks of one extent", []gap{{s: a, from: 0, to: 100}, {s: a, from: 0, to: 4096}, {s: a, from: 8192, to: 9000}}, []uint64{0}, []gap{{s: a, from: 0, to: 9000}}},
		{"the next extent", []gap{{s: a, from: 0, to: x}, {s: a, from: x, to: 2 * x}}, []uint64{0, 1}, []gap{{s: a, from: 0, to: 2 * x}}},
		{"over extents of others", []gap{{s: a, from: 0, to: x}, {s: a, from: 9 * x, to: 9*x + 1}}, []uint64{0, 9}, []gap{{s: a, from: 0, to: 9*x + 1}}},
		{"not over one that is there", []gap{{s: a, from: 0, to: x}, {s: a, from: 9 * x, to: 10 * x}}, []uint64{0, 5, 9}, []gap{{s: a, from: 0, to: x}, {s: a, from: 9 * x, to: 10 * x}}},
		{"not over many", []gap{{s: a, from: 0, to: x}, {s: a, from: 99 * x, to: 100 * x}}, nil, []gap{{s: a, from: 0, to: x}, {s: a, from: 99 * x, to: 100 * x}}},
		{"two shards", []gap{{s: a, from: 0, to: 10}, {s: b, from: 0, to: 10}, {s: a, from: 0, to: 20}, {s: b, from: 0, to: 5}}, nil, []gap{{s: a, from: 0, to: 20}, {s: b, from: 0, to: 10}}},
		{"backwards", []gap{{s: a, from: 5 * x, to: 6 * x}, {s: a, from: 0, to: x}}, nil, []gap{{s: a, from: 5 * x, to: 6 * x}, {s: a, from: 0, to: x}}},
		{"by another View", []gap{{s: a, from: 0, to: x}, {s: a, from: x, to: 2 * x, had: &view}}, nil, []gap{{s: a, from: 0, to: x}, {s: a, from: x, to: 2 * x, had: &view}}},
	} {
		var m missing
		for _, g := range c.gaps {
			m.add(g, func(extent uint64) bool { return slices.Contains(c.placed, extent) })
		}
		if !slices.Equal(m.gaps, c.want) {
			t.Errorf("%s: %+v", c.name, m.gaps)
		}
	}
	var m missing
	for i := range uint64(gapsMax + 10) {
		m.add(gap{s: &recent{}, from: 0, to: 100 + i}, func(uint64) bool { return true })
	}
	if len(m.gaps) != gapsMax || m.gaps[0].to != 110 || m.forgone != 10*100+45 {
		t.Errorf("%d gaps, the first to %d, %d bytes forgone", len(m.gaps), m.gaps[0].to, m.forgone)
	}
}

func TestSlot(t *testing.T) {
	bad := errors.New("bad")
	lease := &wire.Error{Status: wire.StatusLease}
	type answer struct {
		replica int
		err     error
	}
	ok := func(i int) answer { return answer{i, nil} }
	no := func(i int) answer { return answer{i, bad} }
	for _, c := range []struct {
		name    string
		full    int
		all     int
		strict  bool
		answers []answer
		decided int // after so many answers; 0: not yet
		want    outcome
	}{
		{"quorum", 3, 3, false, []answer{ok(2), ok(0)}, 2, taken},
		{"quorum after a failure", 3, 3, false, []answer{no(0), ok(2), ok(1)}, 3, taken},
		{"one lives", 3, 3, false, []answer{no(0), no(1), ok(2)}, 3, degraded},
		{"one lives, one is silent", 3, 3, false, []answer{no(0), ok(2)}, 0, degraded},
		{"one lives, and that is too few", 3, 3, true, []answer{no(0), no(1), ok(2)}, 3, failed},
		{"none lives", 3, 3, false, []answer{no(0), no(1), no(2)}, 3, failed},
		{"all are silent", 3, 3, false, nil, 0, failed},
		{"partial ones do not count", 3, 5, false, []answer{ok(3), ok(4), no(0), ok(1)}, 0, degraded},
		{"partial ones are not waited for", 3, 5, false, []answer{ok(0), ok(1)}, 2, taken},
		{"a single one", 1, 1, false, []answer{ok(0)}, 1, taken},
		{"refused for a newer ballot", 3, 3, false, []answer{ok(0), {1, lease}, {2, lease}}, 3, failed},
		{"refused by one", 3, 3, false, []answer{{1, lease}, ok(0), ok(2)}, 3, taken},
	} {
		s := slot{replicas: replicas{full: uint8(c.full), all: uint8(c.all)}, quorum: c.full/2 + 1, strict: c.strict}
		decided := 0
		for i, a := range c.answers {
			if s.settle(a.replica, a.err) {
				decided = i + 1
			}
		}
		if decided != c.decided || s.outcome() != c.want {
			t.Errorf("%s: decided after %d answers, outcome %d; want %d, %d", c.name, decided, s.outcome(), c.decided, c.want)
		}
		err := s.fault(wire.OpPut, time.Second)
		if len(c.answers) == 0 && !errors.Is(err, errNodeSlow) || s.lease != nil && !errors.Is(err, wire.ErrLease) || s.lease == nil && s.err != nil && !errors.Is(err, bad) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLimiter(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimiter(1000, 500, now)
	for _, c := range []struct {
		after time.Duration
		take  int
		want  time.Duration
	}{
		{0, 500, 0}, {0, 100, 100 * time.Millisecond}, {100 * time.Millisecond, 1000, time.Second},
		{time.Second, 0, 0}, {time.Hour, 500, 0}, {0, 1, time.Millisecond},
	} {
		now = now.Add(c.after)
		if got := l.take(c.take, now); got != c.want {
			t.Errorf("%d bytes after %v wait %v, want %v", c.take, c.after, got, c.want)
		}
	}
}
