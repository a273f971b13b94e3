package producer

import (
	"context"
	"time"
)

// beats publishes again while the Appender is idle, until Close.
func (a *Appender) beats() {
	defer close(a.done)
	t := time.NewTicker(a.cfg.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-t.C:
		}
		select {
		case <-a.stop:
			return
		case a.turn <- struct{}{}:
		}
		a.beat()
		a.give()
	}
}

func (a *Appender) beat() {
	if a.ended != nil {
		return
	}
	if a.unsure {
		// What was given up and came through is published here at the latest.
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Heartbeat)
		err := a.settle(ctx)
		cancel()
		if err != nil {
			return
		}
	}
	if a.m.current && a.cfg.Clock().Sub(a.m.lastBeat) < a.cfg.Heartbeat/2 {
		return // an append has just published
	}
	a.refill()
}
