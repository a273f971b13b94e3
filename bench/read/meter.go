package read

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// patience bounds one batch.
	patience = 10 * time.Second
	// clockEvery is how much reading goes on between two looks at the clock when
	// steps are not timed, at least: a look costs as much as a short copy.
	clockEvery = 100 * time.Microsecond
	// askEvery is how often a measurement asks whether it is to end.
	askEvery = 10 * time.Millisecond
	// blocks of a measurement, the fastest of which is the peak.
	blocks = 20
	// warmUp is the part of a cell that is read before it is measured.
	warmUp = 10
	// longest is the longest time that the histograms tell from others.
	longest = int64(2 * patience)
)

// stepper reads. One goroutine.
type stepper interface {
	// step posts what is to be on its way, waits for one batch and checks it, and
	// returns the number of its reads; 0: rewind first. Its time counts.
	step(deadline time.Time) (reads int, err error)
	// rewind goes back to the first read; its time does not count.
	rewind(deadline time.Time) error
	// drain waits for what is still on its way.
	drain() error
}

// meter measures one stepper.
type meter struct {
	reads int
	took  time.Duration // without rewinding
	peak  float64       // reads a second
	times *hdrhistogram.Histogram
	fresh []int64 // ns, not yet in times: recording one takes longer than a short read
}

// freshMost is how many times are kept aside.
const freshMost = 4096

// newMeter makes a meter that times each step, or one that does not.
func newMeter(t timing) *meter {
	if t == timed {
		return &meter{times: hdrhistogram.New(1, longest, 3), fresh: make([]int64, 0, freshMost)}
	}
	return &meter{}
}

// timing is whether each step is timed.
type timing int

const (
	timed timing = iota
	untimed
)

// timing of a cell: copies take less time than timing them does.
func (c cell) timing() timing {
	if c.mode == Rate && c.transport == SHM || c.kind == Backlog {
		return untimed
	}
	return timed
}

// run reads for d. It looks at the monotonic clock alone, once a step, as the
// floors do: time.Now looks at two.
func (m *meter) run(ctx context.Context, s stepper, d time.Duration) error {
	var last, block, paused, asked time.Duration // since begin
	begin := time.Now()
	deadline := begin.Add(patience) // at most askEvery older than a step
	blockReads, stride := 0, 1
	away := func(since time.Duration) {
		pause := time.Since(begin) - since
		paused, block = paused+pause, block+pause
	}
	for {
		got := 0
		for range stride {
			n, err := s.step(deadline)
			if err != nil {
				return err
			}
			if n == 0 {
				since := time.Since(begin)
				if err := s.rewind(begin.Add(since + patience)); err != nil {
					return err
				}
				away(since)
			}
			got += n
		}
		now := time.Since(begin)
		if m.times != nil {
			m.fresh = append(m.fresh, int64(now-last))
		} else if now-last < clockEvery {
			stride *= 2
		}
		m.reads += got
		blockReads += got
		if took := now - block; took >= d/blocks {
			m.peak = max(m.peak, float64(blockReads)/took.Seconds())
			block, blockReads = now, 0
		}
		if m.took = now - paused; m.took >= d {
			m.record()
			return ctx.Err()
		}
		if now-asked >= askEvery {
			asked, deadline = now, begin.Add(now+patience)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		last = now
		if len(m.fresh) == freshMost {
			m.record()
			away(now)
			last = time.Since(begin)
		}
	}
}

func (m *meter) record() {
	for _, ns := range m.fresh {
		_ = m.times.RecordValue(min(ns, longest)) // fails only above it
	}
	m.fresh = m.fresh[:0]
}

// readers measures steppers at once, each by a goroutine.
type readers struct {
	steppers []stepper
	server   func() (time.Duration, bool) // its processor time, if that is known; nil: there is no server
	allocs   bool                         // whether they are ours
}

// measure warms up, and then reads for d.
func (r readers) measure(ctx context.Context, l cell, d time.Duration) (Figures, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	meters := make([]*meter, len(r.steppers))
	var warm, done sync.WaitGroup
	start := make(chan struct{})
	warm.Add(len(r.steppers))
	for i, s := range r.steppers {
		meters[i] = newMeter(l.timing())
		done.Go(func() {
			err := newMeter(l.timing()).run(ctx, s, d/warmUp)
			if err != nil {
				cancel(err)
			}
			warm.Done()
			<-start
			if err != nil {
				return
			}
			if err := meters[i].run(ctx, s, d); err != nil {
				cancel(err)
			}
		})
	}
	warm.Wait()
	before := r.costs()
	close(start)
	done.Wait()
	after := r.costs()
	if err := context.Cause(ctx); err != nil {
		return Figures{}, err
	}
	for _, s := range r.steppers {
		if err := s.drain(); err != nil {
			return Figures{}, err
		}
	}
	return figures(meters, before, after, l.kind.bytes()), nil
}

// costs are sums up to now.
type costs struct {
	client, server time.Duration
	hasServer      bool
	allocs         *uint64
}

func (r readers) costs() (c costs) {
	if r.allocs {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.allocs = &m.Mallocs
	}
	c.client = ownCPU()
	if r.server != nil {
		c.server, c.hasServer = r.server()
	}
	return c
}

func figures(meters []*meter, before, after costs, bytes int) (f Figures) {
	for _, m := range meters {
		rate := float64(m.reads) / m.took.Seconds()
		f.Reads += float64(m.reads)
		f.Seconds = max(f.Seconds, m.took.Seconds())
		f.MsgRate += rate / 1e6
		f.BWAverage += rate * float64(bytes) / mib
		f.BWPeak += max(m.peak, rate) * float64(bytes) / mib
	}
	if meters[0].times != nil {
		f.latency(meters)
	}
	f.ClientCPU = micros(after.client-before.client) / f.Reads
	if after.hasServer && before.hasServer {
		f.ServerCPU = new(micros(after.server-before.server) / f.Reads)
	}
	if after.allocs != nil {
		f.Allocs = new(float64(*after.allocs-*before.allocs) / f.Reads)
	}
	f.perMB(bytes)
	return f
}

func (f *Figures) latency(meters []*meter) {
	h := hdrhistogram.New(1, longest, 3)
	for _, m := range meters {
		h.Merge(m.times)
	}
	us := func(ns float64) float64 { return ns / 1e3 }
	at := func(p float64) float64 { return us(float64(h.ValueAtPercentile(p))) }
	f.TMin, f.TMax, f.TTypical = us(float64(h.Min())), us(float64(h.Max())), at(50)
	f.TAvg, f.TStdev = us(h.Mean()), us(h.StdDev())
	f.P10, f.P90, f.P99, f.P999 = at(10), at(90), at(99), at(99.9)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
