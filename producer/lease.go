package producer

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Claim says what to do about a lease that another writer holds.
type Claim int

const (
	// Preempt takes it: the caller is the newer writer.
	Preempt Claim = iota
	// Wait leaves it until it has expired: the caller may be the older one.
	Wait
)

// leaser is a Cache that knows who writes a shard. Its calls are bounded as those
// of a Cache are.
type leaser interface {
	// Acquire returns the ballot under which the shard is published from now on.
	Acquire(shard layout.Shard, claim Claim) (layout.Ballot, error)
	// Release gives the lease back, best effort.
	Release(shard layout.Shard, b layout.Ballot)
}

// acquire takes the shard's lease, unless there is one already, or the cache has
// none. Without it the Appender runs on: what it publishes is refused while
// another writer holds the lease, and it tries again at the next heartbeat.
func (w *writer) acquire(claim Claim) {
	l, ok := w.cfg.Cache.(leaser)
	if !ok || w.m.ballot != (layout.Ballot{}) {
		return
	}
	b, err := l.Acquire(w.cfg.Shard, claim)
	if err != nil {
		w.a.metrics.leaseFailures.Inc()
		w.cfg.Logger.Info("writing without a lease for now", "shard", w.cfg.Shard, "err", err, "again_in", w.cfg.Heartbeat)
		return
	}
	w.m.ballot = b
}

// heed ends the Appender once a newer writer has its lease.
func (w *writer) heed() {
	if w.m.lost != nil && w.ended == nil {
		w.ended = fmt.Errorf("%w: %v: %w", ErrLeaseLost, w.cfg.Shard, w.m.lost)
		w.a.q.end(w.ended, refuse)
	}
}

// release gives the lease back, so that who comes next need not wait for it.
func (w *writer) release() {
	if l, ok := w.cfg.Cache.(leaser); ok && w.m.ballot != (layout.Ballot{}) && w.m.lost == nil {
		l.Release(w.cfg.Shard, w.m.ballot)
	}
}
