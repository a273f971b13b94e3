package reader

import (
	"context"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// fillTimeout is how long the bytes of a cold extent are left to the node that
	// fills it, before the Reader asks the store itself.
	fillTimeout = time.Second
	// fillAhead is how many extents are asked for at once, and how many in a row
	// are left to the same node where it holds them.
	fillAhead = 8
)

// fills reports whether a node reads extents from the durable store when it is asked.
func (p *peer) fills(now time.Time) bool {
	client := p.client.Load()
	return client != nil && client.Hello().Features&wire.FeatureFill != 0 && p.up(now)
}

// filler returns the full replica of an extent that everybody asks to fill it; nil if
// none does. So the store is read once, whoever misses the extent: the first replica
// in the order of the placement, or that of the extents around if it has this one too.
func (ro *roster) filler(h layout.Hash, extent uint64, now time.Time) *peer {
	var around, set cluster.Replicas
	ro.view.Extent(h, extent-extent%fillAhead, &around)
	ro.view.Extent(h, extent, &set)
	var first *peer
	for _, node := range set.Full() {
		if p := ro.peers[node]; first == nil && p.fills(now) {
			first = p
		}
	}
	for _, node := range around.Full() {
		p := ro.peers[node]
		if !p.fills(now) {
			continue
		}
		for _, n := range set.Full() {
			if n == node {
				return p
			}
		}
		break
	}
	return first
}

// askFill has the extent at the position filled, and some that follow.
func (r *Reader) askFill(a action) {
	ro, first := r.here.ro, layout.Extent(a.from)
	last := min(first+fillAhead-1, layout.Extent(a.to-1))
	if r.tail.rate > 0 {
		last = first
	}
	r.ask(&question{kind: doFill, from: a.from}, func(ctx context.Context, q *question) {
		ctx, cancel := context.WithTimeout(ctx, fillTimeout)
		defer cancel()
		now := time.Now()
		var others sync.WaitGroup
		for e := first + 1; e <= last; e++ {
			if p := ro.filler(r.h, e, now); p != nil {
				others.Go(func() { r.c.fill(ctx, p, r.f.key, e) }) // met again when its turn comes
			}
		}
		defer others.Wait()
		if q.by = ro.filler(r.h, first, now); q.by == nil {
			q.err = errNotOffered
			return
		}
		q.err = r.c.fill(ctx, q.by, r.f.key, first)
	})
}

// fill asks a node to fill one extent.
func (c *Cluster) fill(ctx context.Context, p *peer, k shardKey, extent uint64) error {
	client := p.client.Load()
	if client == nil {
		return errNotOffered
	}
	req := wire.Fill{Incarnation: k.incarnation, Extent: extent, Shard: []byte(k.name)}
	head, err := req.AppendTo(nil)
	if err == nil {
		_, err = client.Call(ctx, wire.OpFill, head, nil)
	}
	if err != nil {
		c.count.fillFailures.Add(1)
		return err
	}
	c.count.fills.Add(1)
	return nil
}

// filled takes the answer to askFill.
func (r *Reader) filled(q *question) {
	if q.from != r.tail.pos {
		return // Seek came between
	}
	if q.err != nil {
		r.c.cfg.Logger.Debug("extent not filled", "shard", r.f.key.name, "position", q.from, "err", q.err)
		r.tail.fillFailed()
		return
	}
	r.late.served(q.by)
	r.tail.fillDone()
}
