package reader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

// connect dials the nodes of a View, starts the poller, and follows later Views.
// It returns when each node has been tried, or when one is there and the others
// have had openGrace since.
func (c *Cluster) connect(ctx context.Context, view *cluster.View, changed <-chan struct{}) error {
	c.adopt(view, 0)
	poll := newPoller(c)
	c.tasks.Go(poll.run)
	if changed != nil {
		c.tasks.Go(func() { c.followViews(changed) })
	}
	return c.awaitNodes(ctx, c.roster.Load())
}

// openGrace is how long Open waits for the other nodes when one has answered.
const openGrace = time.Second / 2

// errNobody is why no node is there.
var errNobody = errors.New("no node answers; start it with 'rmatail serve', or set a durable directory to read without it")

func (c *Cluster) awaitNodes(ctx context.Context, ro *roster) error {
	tried := make(chan *peer, len(ro.peers))
	for _, p := range ro.peers {
		c.spawn(func() {
			select {
			case <-p.ready:
				tried <- p
			case <-p.ctx.Done():
			}
		})
	}
	var grace <-chan time.Time
	var away error
	for range ro.peers {
		var p *peer
		select {
		case p = <-tried:
		case <-grace:
			return nil
		case <-ctx.Done():
			if grace != nil {
				return nil
			}
			return ctx.Err()
		}
		switch {
		case p.err != nil && away == nil:
			away = fmt.Errorf("node %s: %w", p.name, p.err)
		case p.err != nil:
			away = fmt.Errorf("%w; node %s: %w", away, p.name, p.err)
		case grace == nil:
			timer := time.NewTimer(openGrace)
			defer timer.Stop()
			grace = timer.C
		}
	}
	switch {
	case grace != nil:
		return nil
	case c.dir != nil:
		c.cfg.Logger.Warn("no node reached, reading from the durable directory", "nodes", len(ro.peers), "err", away)
		return nil
	}
	return fmt.Errorf("%w: %w", errNobody, away)
}

// followViews adopts one View after another until the Cluster stops.
func (c *Cluster) followViews(changed <-chan struct{}) {
	for {
		select {
		case <-c.stop:
			return
		case <-changed:
		}
		var view *cluster.View
		view, changed = c.cfg.Cluster.View()
		if old := c.roster.Load().view; view.Store.Dir != old.Store.Dir && c.cfg.Dir == "" {
			c.cfg.Logger.Warn("the cluster's durable directory has changed; this process keeps to the one it has opened", "dir", view.Store.Dir, "was", old.Store.Dir)
		}
		c.adopt(view, dialSpread)
	}
}

// adopt makes view the current one. Nodes that are in both Views keep their
// connections; those that left are let go when the reads under way have ended; those
// that joined are dialled at some moment within spread.
func (c *Cluster) adopt(view *cluster.View, spread time.Duration) {
	var old []*peer
	if ro := c.roster.Load(); ro != nil {
		old = ro.peers
	}
	ro := &roster{view: view, peers: make([]*peer, len(view.Nodes))}
	stay := map[*peer]bool{}
	for i, node := range view.Nodes {
		for _, p := range old {
			if p.name == node.Name && p.addr == node.Addr {
				ro.peers[i], stay[p] = p, true
			}
		}
		if ro.peers[i] == nil {
			p := newPeer(c, node)
			ro.peers[i] = p
			after := time.Duration(0)
			if spread > 0 {
				after = rand.N(spread)
			}
			if !c.spawn(func() { c.runPeer(p, after) }) {
				p.leave()
			}
		}
	}
	c.roster.Store(ro)
	for _, p := range old {
		if !stay[p] {
			p.leave()
		}
	}
	c.pathsChanged()
}
