package reader

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// peer keeps the connections to one node: the control connection, which carries
// tcp reads and durable requests too, and the memory paths that hang on it. One
// goroutine, run, owns and repairs them; any goroutine may look at them.
type peer struct {
	c          *Cluster
	name, addr string
	client     atomic.Pointer[wire.Client] // nil while the node is away
	live       atomic.Pointer[[]*path]     // those that are connected, best first
	status     atomic.Pointer[pathStatus]
	reads      atomic.Uint64 // data reads that it has answered
	best       atomic.Int32  // the best transport that it could have: see had
	rng        *rand.Rand    // of run; jitter
	// changed is whether a transport, or that there is none, was logged before; of run.
	changed bool
	ready   chan struct{}   // closed when the first round of connecting is over
	ctx     context.Context // ends when the node leaves the cluster, and with the Cluster
	leave   context.CancelFunc

	// err is why the first round found no node; read after ready.
	err error
}

// pathStatus is the transport in use and why, for people.
type pathStatus struct{ transport, why string }

const (
	dialTimeout = 3 * time.Second
	// dialSpread is the time over which the processes of a site dial a node that has
	// joined: all learn of it at once.
	dialSpread = time.Second
	// steady is how long a connection must have lasted for its loss to be the first
	// one: then the back-off begins anew, and a path whose memory handle went stale
	// is dialled again at once. One that comes up only to fail waits ever longer.
	steady = time.Second
)

func newPeer(c *Cluster, node cluster.Node) *peer {
	p := &peer{c: c, name: node.Name, addr: node.Addr, ready: make(chan struct{}), rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	p.live.Store(new([]*path))
	p.status.Store(&pathStatus{"none", "not connected yet"})
	p.ctx, p.leave = context.WithCancel(c.ctx)
	return p
}

// run connects after a while, and connects again with full jitter, until the node
// leaves or the Cluster stops.
func (p *peer) run(after time.Duration) {
	defer p.leave()
	var backoff rdma.Backoff
	if !p.sleep(after) {
		return
	}
	for first := true; ; first = false {
		ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
		client, err := wire.Dial(ctx, p.addr, wire.Options{Name: "rmatail-reader", Credentials: p.c.cfg.Credentials})
		cancel()
		if err != nil {
			if first { // Open says so, if nobody answers
				p.status.Store(&pathStatus{"none", err.Error()})
				p.err = err
				close(p.ready)
			} else {
				p.note("none", err.Error())
			}
		} else {
			up := time.Now()
			p.serve(client, first)
			if time.Since(up) >= steady {
				backoff.Reset()
			}
		}
		if !p.sleep(backoff.Next(p.rng)) {
			return
		}
	}
}

// sleep reports whether the node is still wanted after d.
func (p *peer) sleep(d time.Duration) bool {
	if p.ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// serve keeps the memory paths of a connected node until the connection ends.
func (p *peer) serve(client *wire.Client, first bool) {
	p.client.Store(client)
	var tries [FromDurable]attempt
	for i := range tries {
		tries[i].why = "not tried yet"
	}
	defer func() {
		p.client.Store(nil)
		p.live.Store(new([]*path))
		for i := range tries {
			if tries[i].path != nil {
				tries[i].path.Close()
			}
		}
		client.Close()
		p.note("none", fmt.Sprintf("node %s: %v", p.name, client.Err()))
		p.c.pathsChanged()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.connect(client, &tries)
		if first {
			first = false
			close(p.ready)
		}
		timer.Reset(time.Until(nextTry(&tries)))
		select {
		case <-p.ctx.Done():
			p.linger(client)
			return
		case <-client.Lost():
			return
		case <-timer.C:
		case <-lost(&tries[FromSHM]):
		case <-lost(&tries[FromRDMA]):
		case <-lost(&tries[FromTCP]):
		}
		p.bury(&tries)
	}
}

// linger lets the reads end that were begun before the node left the cluster.
func (p *peer) linger(client *wire.Client) {
	timer := time.NewTimer(p.c.cfg.ReadTimeout)
	defer timer.Stop()
	select {
	case <-p.c.stop:
	case <-client.Lost():
	case <-timer.C:
	}
}

// paths returns the memory paths that are up, best first. The result is shared:
// it is not to be changed.
func (p *peer) paths(now time.Time) []*path {
	live := *p.live.Load()
	for i, path := range live {
		if path.up(now) {
			continue
		}
		up := slices.Clone(live[:i]) // rare: something is wrong
		for _, path := range live[i+1:] {
			if path.up(now) {
				up = append(up, path)
			}
		}
		return up
	}
	return live
}

// up reports whether any memory path is.
func (p *peer) up(now time.Time) bool {
	for _, path := range *p.live.Load() {
		if path.up(now) {
			return true
		}
	}
	return false
}

// backAt returns when the first of the paths that rest is up again; zero if none
// is connected.
func (p *peer) backAt(now time.Time) (at time.Time) {
	for _, path := range *p.live.Load() {
		select {
		case <-path.Lost():
		default:
			until := path.restUntil.Load()
			if until == nil { // it has come since it was asked for
				return now
			}
			at = earliest(at, *until)
		}
	}
	return at
}

// note records the transport in use, and logs it when it changes: the first one
// for information, none at first and each later change, down or up, as a warning.
func (p *peer) note(transport, why string) {
	old := p.status.Swap(&pathStatus{transport, why})
	if old.transport == transport && p.changed {
		return
	}
	level := slog.LevelInfo
	switch {
	case p.ctx.Err() != nil: // closing
		level = slog.LevelDebug
	case p.changed || transport == "none":
		level = slog.LevelWarn
	}
	p.changed = true
	p.c.cfg.Logger.Log(p.c.ctx, level, "memory transport", "node", p.name, "transport", transport, "was", old.transport, "why", why)
}
