package sink

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// watchEvery is how often the peaks are looked for. Package runtime/metrics does
// not stop the world, as runtime.ReadMemStats would. Its number of goroutines is
// not used: it has the runtime's own in it.
const watchEvery = 2 * time.Millisecond

// peaks looks for the most memory and goroutines, in a goroutine of its own.
type peaks struct {
	stop, done chan struct{}
	samples    []metrics.Sample
	before     [3]uint64 // at the beginning
	most       [3]uint64 // heap, stacks, goroutines
}

func watch() *peaks {
	p := &peaks{stop: make(chan struct{}), done: make(chan struct{}), samples: []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
	}}
	p.look()
	p.most[2]++ // what looks for them
	p.before = p.most
	go p.run()
	return p
}

func (p *peaks) run() {
	defer close(p.done)
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		p.look()
		select {
		case <-t.C:
		case <-p.stop:
			return
		}
	}
}

func (p *peaks) look() {
	metrics.Read(p.samples)
	for i, s := range p.samples {
		p.most[i] = max(p.most[i], s.Value.Uint64())
	}
	p.most[2] = max(p.most[2], uint64(runtime.NumGoroutine()))
}

func (p *peaks) end() (heap, stacks, goroutines uint64) {
	close(p.stop)
	<-p.done
	return p.most[0], p.most[1], p.most[2]
}
