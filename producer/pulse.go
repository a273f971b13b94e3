package producer

import "time"

// Pulse is how an Appender does at the moment: what tells whether it is slow, and
// whether that is the durable store's fault.
type Pulse struct {
	QueueBytes int
	// Queued is for how long something has waited for the sink without a break.
	Queued time.Duration
	// Append is what a durable append takes: the one that is under way, so far, or the
	// last one, whichever is longer.
	Append time.Duration
	// Refused counts batches that the durable store did not take.
	Refused uint64
}

// Pulse returns how the Appender does now. It is cheap: for a caller that asks every
// second about each of many.
func (a *Appender) Pulse() Pulse {
	now := time.Now()
	a.q.mu.Lock()
	g := &a.q.mu.gauge
	p := Pulse{QueueBytes: a.q.mu.bytes, Append: g.lastSink, Refused: g.refused}
	if !g.filled.IsZero() {
		p.Queued = now.Sub(g.filled)
	}
	a.q.mu.Unlock()
	for _, w := range a.writers {
		if since := w.sinking.Load(); since != 0 {
			p.Append = max(p.Append, time.Duration(now.UnixNano()-since))
		}
	}
	return p
}
