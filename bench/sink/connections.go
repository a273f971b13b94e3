package sink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connections = 4
	usual       = 200 * time.Microsecond
	spike       = 5 * time.Millisecond
	spikeEvery  = 100 // one write in so many
)

// connection writes one batch at a time.
type connection interface {
	// write returns when the records are written. bytes are theirs, concatenated.
	write(ctx context.Context, bytes []byte) error
	close() error
}

// pool is the sink: whoever has a connection writes.
type pool struct {
	free chan connection
	all  []connection
	took struct {
		sync.Mutex
		times []time.Duration
	}
}

func newPool(all []connection) *pool {
	p := &pool{free: make(chan connection, len(all)), all: all}
	for _, c := range all {
		p.free <- c
	}
	return p
}

// write takes a connection for one write.
func (p *pool) write(ctx context.Context, bytes []byte) error {
	var c connection
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	err := c.write(ctx, bytes)
	p.note(time.Since(began))
	p.free <- c
	return err
}

func (p *pool) note(d time.Duration) {
	p.took.Lock()
	p.took.times = append(p.took.times, d)
	p.took.Unlock()
}

// simulated is a connection that only takes time.
type simulated struct {
	clock
	writes *atomic.Uint64 // of all connections
}

// clock is one connection's.
type clock interface {
	wait(d time.Duration) error
	close() error
}

// sleeper is a clock that needs nothing.
type sleeper func(time.Duration)

func (s sleeper) wait(d time.Duration) error {
	s(d)
	return nil
}

func (s sleeper) close() error { return nil }

// simulate returns connections whose writes last as the package comment says.
func simulate(w Wait) (all []connection, err error) {
	var writes atomic.Uint64
	for range connections {
		var c clock = sleeper(time.Sleep)
		switch w {
		case Exact:
			if c, err = newAlarm(); err != nil {
				for _, c := range all {
					err = errors.Join(err, c.close())
				}
				return nil, err
			}
		case Held:
			c = sleeper(hold)
		}
		all = append(all, &simulated{c, &writes})
	}
	return all, nil
}

func (s *simulated) write(ctx context.Context, _ []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.wait(lasting(s.writes.Add(1)))
}

// lasting says how long the nth write takes. Spikes are spread as if by chance,
// the same in every run, and each hundred has one.
func lasting(n uint64) time.Duration {
	block := (n - 1) / spikeEvery
	x := block + 0x9e3779b97f4a7c15 // splitmix64's finalizer
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if (n-1)%spikeEvery == (x^x>>31)%spikeEvery {
		return spike
	}
	return usual
}
