package producer

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
)

const (
	// reachUse is how much of an arena may hold what was put within the time that
	// is repaired: the rest is for length pages and uneven sets.
	reachUse = 0.75
	// reachStands is how long the answer for a node is good enough.
	reachStands = 100 * time.Millisecond
)

// reach is how old what is repaired on a node may be: the time to live, or less if
// the node's arena is too small for it. There, what is old would push out what is
// young.
func (w *repairer) reach(n *node, now time.Time) time.Duration {
	if now.Sub(n.reached.at) < reachStands {
		return n.reached.age
	}
	n.reached.at, n.reached.age = now, w.c.cfg.TTL
	room := float64(n.arenaBytes()) * reachUse
	share := share(w.c.top.Load().view, n.name)
	if room == 0 || share == 0 {
		return n.reached.age
	}
	shards := w.c.recents()
	fits := func(age time.Duration) bool {
		load := 0.0
		for _, s := range shards {
			if from, to, ok := s.window(now, age); ok {
				load += float64(to-from) * share
			}
		}
		return load <= room
	}
	if fits(n.reached.age) {
		return n.reached.age
	}
	short, long := time.Duration(0), n.reached.age
	for long-short > w.c.cfg.TTL/recentSteps {
		if mid := (short + long) / 2; fits(mid) {
			short = mid
		} else {
			long = mid
		}
	}
	n.reached.age = short
	return short
}

// share is the part of all extents that a node is a full replica of.
func share(view *cluster.View, name string) float64 {
	i, ok := view.Node(name)
	if !ok {
		return 0
	}
	weight := 0.0
	for _, n := range view.Nodes {
		if n.Roles&cluster.Data != 0 && !n.Partial {
			weight += float64(n.Weight)
		}
	}
	return min(1, float64(view.Full)*float64(view.Nodes[i].Weight)/weight)
}
