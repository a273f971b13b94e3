package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// roster is the nodes of one View with the connections to them. It never changes:
// another View makes another roster, which has the peers of the nodes that stayed.
type roster struct {
	view  *cluster.View
	peers []*peer // as view.Nodes
}

// replica is a node that holds an extent, and the paths to it that are up.
type replica struct {
	node    uint16 // in the roster
	partial bool
	peer    *peer
	paths   []*path // best first, at least one; shared
}

// reach is the replicas of one extent that can be asked now.
type reach struct {
	ro     *roster
	extent uint64
	set    cluster.Replicas // of extent in ro

	replicas []replica // full ones first
	full     int       // how many are full ones
	paths    int       // the most that are up to one of them
	// places are where extents are known to be; nil: nowhere.
	places *places
	// backAt is when the first path to a full replica that rests is up again, if no
	// full one can be asked; zero if none is connected.
	backAt time.Time
}

// find looks up who holds an extent of the one shard that it is used for.
func (h *reach) find(ro *roster, shard layout.Hash, extent uint64, now time.Time) {
	h.replicas, h.full, h.paths, h.backAt = h.replicas[:0], 0, 0, time.Time{}
	if ro == nil {
		return
	}
	if h.ro != ro || h.extent != extent && len(ro.peers) > 1 { // one node has them all
		ro.view.Extent(shard, extent, &h.set)
	}
	h.ro, h.extent = ro, extent
	full := len(h.set.Full())
	for i, node := range h.set.All() {
		p := ro.peers[node]
		paths := p.paths(now)
		if len(paths) == 0 {
			continue
		}
		h.replicas = append(h.replicas, replica{node: node, partial: i >= full, peer: p, paths: paths})
		h.paths = max(h.paths, len(paths))
		if i < full {
			h.full++
		}
	}
	if h.full > 0 {
		return
	}
	for _, node := range h.set.Full() {
		h.backAt = earliest(h.backAt, ro.peers[node].backAt(now))
	}
}

// holds reports whether a node is among the replicas of an extent.
func (ro *roster) holds(node uint16, shard layout.Hash, extent uint64) bool {
	if len(ro.peers) == 1 {
		return true
	}
	var set cluster.Replicas
	ro.view.Extent(shard, extent, &set)
	for _, n := range set.All() {
		if n == node {
			return true
		}
	}
	return false
}

// pick chooses the replica of a relaxed read and returns its index, -1 if none can
// be asked. level says which of a replica's paths is used: 0 the best one. but is
// the index of a replica that has been asked already; -1: none. Nodes that have
// lacked bytes lately are left alone while there are others.
func (h *reach) pick(who whom, level, but int, late *laggards, now time.Time, size int, dice uint64) int {
	n := len(h.replicas)
	if who == fullReplica {
		n = h.full
	}
	if n == 1 && but != 0 {
		return 0
	}
	var room [8]option
	options := room[:0]
	others := false
	for i := range h.replicas[:n] {
		o := option{tier: notAnOption}
		if i != but {
			p := h.replicas[i].path(level)
			o = option{tier: p.source, latency: p.expect(now, size)}
			if h.places != nil {
				_, o.known = h.places.find(p.epoch, h.extent)
			}
			others = others || late.n == 0 || !late.avoids(h.replicas[i].peer, now)
		}
		options = append(options, o)
	}
	if others && late.n > 0 {
		for i := range options {
			if late.avoids(h.replicas[i].peer, now) {
				options[i].tier = notAnOption
			}
		}
	}
	return choose(options, dice)
}

// path returns the replica's path of a level, the last one if there are fewer.
func (r *replica) path(level int) *path { return r.paths[min(level, len(r.paths)-1)] }
