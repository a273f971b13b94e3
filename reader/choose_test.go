package reader

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestChoose draws among options of one table after another, and counts.
func TestChoose(t *testing.T) {
	const draws = 60_000
	ms := time.Millisecond
	no := option{tier: notAnOption}
	for name, c := range map[string]struct {
		options []option
		share   []float64 // of the draws; nil: none can be chosen
	}{
		"nothing":               {nil, nil},
		"nothing that may":      {[]option{no, no}, nil},
		"one":                   {[]option{{FromTCP, ms, false}}, []float64{1}},
		"one that may":          {[]option{no, {FromTCP, ms, false}, no}, []float64{0, 1, 0}},
		"best transport":        {[]option{{FromTCP, 0, false}, {FromSHM, 9 * ms, false}, {FromRDMA, ms, false}}, []float64{0, 1, 0}},
		"best of what is left":  {[]option{{FromTCP, 0, false}, no, {FromRDMA, ms, false}}, []float64{0, 0, 1}},
		"two alike":             {[]option{{FromTCP, ms, false}, {FromTCP, ms, false}}, []float64{.5, .5}},
		"three alike":           {[]option{{FromTCP, ms, false}, {FromTCP, ms, false}, {FromTCP, ms, false}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		"alike but for noise":   {[]option{{FromTCP, 10 * ms, false}, {FromTCP, 8 * ms, false}, {FromTCP, 9 * ms, false}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		"fast for what matters": {[]option{{FromTCP, 0, false}, {FromTCP, 9 * time.Microsecond, false}}, []float64{.5, .5}},
		"one slow of two":       {[]option{{FromTCP, ms, false}, {FromTCP, 2 * ms, false}}, []float64{1, 0}},
		"one slow of three":     {[]option{{FromTCP, ms, false}, {FromTCP, 9 * ms, false}, {FromTCP, ms, false}}, []float64{.5, 0, .5}},
		"one fast of three":     {[]option{{FromTCP, 5 * ms, false}, {FromTCP, ms, false}, {FromTCP, 5 * ms, false}}, []float64{1. / 6, 2. / 3, 1. / 6}},
		"all different":         {[]option{{FromTCP, ms, false}, {FromTCP, 2 * ms, false}, {FromTCP, 4 * ms, false}}, []float64{2. / 3, 1. / 3, 0}},
		"slow ones of a better": {[]option{{FromRDMA, 9 * ms, false}, {FromTCP, 0, false}, {FromRDMA, 9 * ms, false}}, []float64{.5, 0, .5}},
		"one known of three":    {[]option{{FromTCP, ms, false}, {FromTCP, ms, true}, {FromTCP, ms, false}}, []float64{0, 1, 0}},
		"known, and not slow":   {[]option{{FromTCP, ms, false}, {FromTCP, 2 * ms, true}, {FromTCP, ms, false}}, []float64{0, 1, 0}},
		"known, but slow":       {[]option{{FromTCP, ms, false}, {FromTCP, 3 * ms, true}, {FromTCP, ms, false}}, []float64{.5, 0, .5}},
		"known of no matter":    {[]option{{FromRDMA, ms, false}, {FromTCP, 0, true}, {FromRDMA, ms, false}}, []float64{.5, 0, .5}},
		"known of the better":   {[]option{{FromTCP, 0, true}, {FromRDMA, ms, false}, {FromRDMA, ms, true}}, []float64{0, 0, 1}},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		counts := make([]int, len(c.options))
		for range draws {
			i := choose(c.options, rng.Uint64())
			if (i >= 0) != (c.share != nil) {
				t.Fatalf("%s: chose %d", name, i)
			}
			if i >= 0 {
				counts[i]++
			}
		}
		for i, want := range c.share {
			if got := float64(counts[i]) / draws; got < want-.02 || got > want+.02 || want == 0 && got > 0 || want == 1 && got < 1 {
				t.Errorf("%s: option %d in %.3f of the draws, want %.3f", name, i, got, want)
			}
		}
	}
}

// TestChooseIsOfTheBestTransport, and never the slowest of three unless there is not
// much between them, whatever the dice.
func TestChooseIsOfTheBestTransport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) option {
			return option{Source(rapid.IntRange(0, sources).Draw(t, "tier")), time.Duration(rapid.IntRange(0, 1e6).Draw(t, "latency")), false}
		}), 0, 16).Draw(t, "options")
		got := choose(options, rapid.Uint64().Draw(t, "dice"))
		best, quicker, same := notAnOption, 0, 0
		for _, o := range options {
			best = min(best, o.tier)
		}
		if (got < 0) != (best == notAnOption) {
			t.Fatalf("chose %d", got)
		}
		if got < 0 {
			return
		}
		if options[got].tier != best {
			t.Fatalf("chose %v, the best is %v", options[got].tier, best)
		}
		for _, o := range options {
			if o.tier == best {
				same++
				if 4*max(o.latency, latencyNoise) < 3*options[got].latency {
					quicker++
				}
			}
		}
		if same > 1 && quicker == same-1 {
			t.Fatalf("chose the slowest of %d: %v", same, options)
		}
	})
}

// TestLatency rises fast, falls slowly, and fades while nothing is known.
func TestLatency(t *testing.T) {
	var l latency
	took := func(at, d int) { l.took(time.Duration(at)*time.Millisecond, time.Duration(d)*time.Microsecond) }
	expect := func(at, least, most int) {
		t.Helper()
		if got := l.estimate(time.Duration(at) * time.Millisecond); got < time.Duration(least)*time.Microsecond || got > time.Duration(most)*time.Microsecond {
			t.Fatalf("at %d ms: %v, want %d to %d us", at, got, least, most)
		}
	}
	expect(0, 0, 0)
	for i := range 20 {
		took(i, 100)
	}
	expect(20, 99, 100)
	took(21, 30_000)
	expect(21, 15_000, 15_100)
	took(22, 30_000)
	expect(22, 22_000, 23_000)
	for i := range 8 {
		took(23+i, 100)
	}
	expect(31, 5_000, 10_000)
	for i := range 100 {
		took(31+i, 100)
	}
	expect(131, 99, 101)
	took(200, 30_000)
	fade := int(latencyFade / time.Millisecond)
	expect(200+fade-1, 15_000, 15_100)
	expect(200+fade, 7_400, 7_600)
	expect(200+3*fade, 1_800, 1_900)
	expect(200+1000*fade, 0, 0)
	l.chosen(time.Duration(200+3*fade) * time.Millisecond) // the others wait for what comes of it
	expect(200+3*fade+1, 15_000, 15_100)
	took(200+3*fade+2, 1) // nanoseconds count to the last
	for i := range 200 {
		took(200+3*fade+3+i, 1)
	}
	expect(200+3*fade+203, 1, 1)
}

// TestPathTook: what was answered long before it was looked at says nothing but that
// reads take no longer.
func TestPathTook(t *testing.T) {
	p := &path{born: t0}
	expect := func(want time.Duration) {
		t.Helper()
		if got := p.expect(t0, 0); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	p.took(at(0).Add(4*time.Microsecond), 0, at(0), at(0))
	expect(2 * time.Microsecond)
	p.took(at(100), 0, at(0), at(90))
	expect(2 * time.Microsecond)
	if got := p.expect(t0, 1<<20); got != 0 {
		t.Fatalf("small reads tell of large ones: %v", got)
	}
	p.small = latency{}
	p.took(at(100), 0, at(0), at(70))
	expect(50 * time.Millisecond)
	p.took(at(40), 0, at(0), at(39)) // no longer than 40 ms: that is news
	if got := p.expect(t0, 0); got >= 50*time.Millisecond {
		t.Fatalf("%v", got)
	}
}

// TestLaggards are left alone for longer and longer, until they serve.
func TestLaggards(t *testing.T) {
	var l laggards
	peers := make([]*peer, 6)
	for i := range peers {
		peers[i] = &peer{}
	}
	if l.avoids(peers[0], at(0)) {
		t.Fatal("avoids a node that it knows nothing of")
	}
	for i, rest := range []int{50, 100, 200, 400, 800, 1600, 2000, 2000} {
		now := 10_000 * i
		l.lacked(peers[0], at(now))
		if !l.avoids(peers[0], at(now+rest-1)) || l.avoids(peers[0], at(now+rest)) {
			t.Fatalf("time %d: want %d ms", i, rest)
		}
	}
	l.lacked(peers[1], at(90_000))
	l.served(peers[0])
	if l.avoids(peers[0], at(70_001)) || !l.avoids(peers[1], at(90_049)) {
		t.Fatal("who serves is not left alone, others are")
	}
	l.lacked(peers[0], at(90_000))
	if l.avoids(peers[0], at(90_050)) {
		t.Fatal("after it has served the rests begin anew")
	}
	for i := range peers { // the first ones are due the soonest
		l.lacked(peers[i], at(100_000+i))
		l.lacked(peers[i], at(100_000+i))
	}
	if l.n != laggardsKept || !l.avoids(peers[5], at(100_010)) || !l.avoids(peers[4], at(100_010)) {
		t.Fatalf("%d are kept", l.n)
	}
	for _, p := range peers {
		l.served(p)
	}
	if l.n != 0 {
		t.Fatalf("%d are left", l.n)
	}
}
