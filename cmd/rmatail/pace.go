package main

import (
	"context"
	"time"
)

// pace holds a stream of bytes to a rate, on average: what was not used is not
// saved up for longer than a moment.
type pace struct {
	perSecond float64
	free      time.Time
}

// credit is how far a pace may run ahead after a rest.
const credit = 100 * time.Millisecond

// wait waits until n further bytes may go. Once ctx is done it does not wait: a
// command that was told to end hurries.
func (c *pace) wait(ctx context.Context, n int) {
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if oldest := now.Add(-credit); c.free.Before(oldest) {
		c.free = oldest
	}
	if d := c.free.Sub(now); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	c.free = c.free.Add(time.Duration(float64(n) / c.perSecond * float64(time.Second)))
}

// paced is a sink that takes batches at a pace, until hurry is done.
type paced struct {
	sink
	hurry context.Context
	pace
}

func (s *paced) send(b *batch) error {
	s.wait(s.hurry, len(b.data))
	return s.sink.send(b)
}
