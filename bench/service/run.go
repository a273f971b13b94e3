package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/rmatail/rmatail/bench"
)

// ErrConfig is returned when a setting is out of bounds.
var ErrConfig = errors.New("logging experiment")

// Config is an experiment. Zero values mean the defaults.
type Config struct {
	Lines    int           // 5,500
	Clients  int           // 64
	For      time.Duration // 2 s, of each phase
	Rounds   int           // 1; all phases, then all phases again
	Dir      string        // where the files of lines are made; the temporary directory
	Phases   []Phase       // Phases(Lines)
	Progress func(round int, p Phase)
}

func (c Config) withDefaults() (Config, error) {
	c.Lines = cmp.Or(c.Lines, 5500)
	c.Clients = cmp.Or(c.Clients, 64)
	c.For = cmp.Or(c.For, 2*time.Second)
	c.Rounds = cmp.Or(c.Rounds, 1)
	if c.Phases == nil {
		c.Phases = Phases(c.Lines)
	}
	switch {
	case c.Lines < 1 || c.Lines > 1e6:
		return c, fmt.Errorf("%w: %d lines a request, want 1 to 1,000,000", ErrConfig, c.Lines)
	case c.Clients < 1 || c.Clients > 4096:
		return c, fmt.Errorf("%w: %d clients, want 1 to 4,096", ErrConfig, c.Clients)
	case c.For < 10*time.Millisecond || c.For > time.Hour:
		return c, fmt.Errorf("%w: phases of %s, want 10ms to 1h", ErrConfig, c.For)
	case c.Rounds < 1 || c.Rounds > 100:
		return c, fmt.Errorf("%w: %d rounds, want 1 to 100", ErrConfig, c.Rounds)
	}
	return c, nil
}

// Run measures all phases. The profiles of blocking and of mutexes are on
// meanwhile, in every phase alike.
func Run(ctx context.Context, c Config) (*Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	defer startProfiles()()
	res := &Result{Environment: bench.ThisEnvironment(), Clients: c.Clients, Seconds: c.For.Seconds()}
	for n := range c.Rounds {
		round := slices.Clone(c.Phases)
		for i := range round {
			if n%2 == 1 { // the other way round: what the first one warms up helps neither
				i = len(round) - 1 - i
			}
			if round[i], err = measure(ctx, c, round[i]); err != nil {
				return nil, fmt.Errorf("phase %q of %d lines: %w", round[i].Name, round[i].Lines, err)
			}
			if c.Progress != nil {
				c.Progress(n+1, round[i])
			}
		}
		for i := range round {
			round[i].compare(round)
		}
		res.Rounds = append(res.Rounds, round)
	}
	res.medians()
	res.Claims = claims(res.Phases)
	res.Environment.End()
	return res, nil
}

func measure(ctx context.Context, c Config, p Phase) (Phase, error) {
	lines, err := openLines(p, c.Dir)
	if err != nil {
		return p, err
	}
	defer lines.close()
	var t target
	switch {
	case p.HTTP:
		t, err = newShown(ctx, p)
	case p.Node:
		t, err = newNode(lines)
	default:
		t, err = newSmall(lines)
	}
	if err != nil {
		return p, err
	}
	l, err := startLoad(ctx, t.addr(), c.Clients)
	if err != nil {
		return p, errors.Join(err, t.close())
	}
	err = l.pause(c.For / 4)
	lines.reset()
	runtime.GC()
	before, stats, cpu, began := readProfiles(), lines.stats(), usage(), time.Now()
	l.counted.Store(true)
	if err == nil {
		err = l.pause(c.For)
	}
	l.counted.Store(false)
	seconds, used, after := time.Since(began).Seconds(), usage().minus(cpu), lines.stats()
	p.Waits = readProfiles().since(before)
	handlers, logged := lines.inHandlers.Load(), lines.inLogging.Load()
	took := l.end()
	if err = errors.Join(err, t.close()); err != nil {
		return p, err
	}
	p.count(took, seconds)
	p.Dropped, p.Held = after.Dropped-stats.Dropped, after.Held-stats.Held
	if handlers > 0 {
		p.LogShare = float64(logged) / float64(handlers)
	}
	p.Processors = used.total() / seconds
	p.PerProcessor = float64(p.Requests) / max(used.total(), 1e-3)
	if used.total() > 0 {
		p.SystemShare = used.system / used.total()
	}
	return p, nil
}

func (p *Phase) count(took []time.Duration, seconds float64) {
	s := bench.Sorted(took)
	p.Requests = len(s)
	p.RequestsPerSecond = float64(len(s)) / seconds
	p.LinesPerSecond = p.RequestsPerSecond * float64(p.Lines)
	ms := func(q float64) float64 { return bench.Micros(bench.Quantile(s, q)) / 1e3 }
	p.P50, p.P95, p.P99 = ms(0.50), ms(0.95), ms(0.99)
}

// compare sets OfOff by the phase of the same kind without logging, and the words.
func (p *Phase) compare(round []Phase) {
	p.OfOff, p.OfOffProcessor = 1, 1
	for _, b := range round {
		if b.Node == p.Node && b.HTTP == p.HTTP && !b.Watched && b.Path == Nowhere && b.Calls == None && b.RequestsPerSecond > 0 {
			p.OfOff = p.RequestsPerSecond / b.RequestsPerSecond
			p.OfOffProcessor = p.PerProcessor / max(b.PerProcessor, 1e-9)
		}
	}
	p.Words = p.words()
}

// medians chooses each phase's median round. Ratios are those of the medians.
func (r *Result) medians() {
	for i := range r.Rounds[0] {
		p := r.median(i, func(p Phase) float64 { return p.RequestsPerSecond })
		p.PerProcessor = r.median(i, func(p Phase) float64 { return p.PerProcessor }).PerProcessor
		p.Pairs = r.quartiles(i, func(p Phase) float64 { return p.OfOff })
		p.PairsProcessor = r.quartiles(i, func(p Phase) float64 { return p.OfOffProcessor })
		r.Phases = append(r.Phases, p)
	}
	for i := range r.Phases {
		r.Phases[i].compare(r.Phases)
	}
}

// quartiles are those of phase i over all rounds; nil: there is one round.
func (r *Result) quartiles(i int, of func(Phase) float64) *Quartiles {
	n := len(r.Rounds)
	if n < 2 {
		return nil
	}
	var all []float64
	for _, round := range r.Rounds {
		all = append(all, of(round[i]))
	}
	slices.Sort(all)
	return &Quartiles{all[n/4], all[n/2], all[n-1-n/4]}
}

// median returns phase i of the round that is the median by a value.
func (r *Result) median(i int, by func(Phase) float64) Phase {
	var all []Phase
	for _, round := range r.Rounds {
		all = append(all, round[i])
	}
	slices.SortFunc(all, func(a, b Phase) int { return cmp.Compare(by(a), by(b)) })
	return all[len(all)/2]
}

// processorTime is that of the process, in seconds.
type processorTime struct{ user, system float64 }

func (t processorTime) minus(o processorTime) processorTime {
	return processorTime{t.user - o.user, t.system - o.system}
}

func (t processorTime) total() float64 { return t.user + t.system }

func usage() processorTime {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return processorTime{}
	}
	return processorTime{time.Duration(u.Utime.Nano()).Seconds(), time.Duration(u.Stime.Nano()).Seconds()}
}
