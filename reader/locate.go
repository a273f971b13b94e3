package reader

import "github.com/rmatail/rmatail/chunkstore/layout"

// place is where a node holds an extent.
type place struct {
	extent     uint64
	index      uint32 // in the extent table
	generation uint32
	fresh      bool // its identity was read for the flight that uses it
}

// places remembers where the extents around a Reader's position are, at each node
// by its epoch, so that a steady tail reads no identities. A wrong memory is
// harmless: the CRC of what is read there does not fit, and the place is asked for
// again.
type places struct {
	known [placesKept]known
	n     int // valid ones
	next  int // the one to replace
}

type known struct {
	epoch uint64
	place
}

const placesKept = 2 * maxSpans

func (p *places) find(epoch, extent uint64) (place, bool) {
	for i := range p.known[:p.n] {
		if k := &p.known[i]; k.extent == extent && k.epoch == epoch {
			return k.place, true
		}
	}
	return place{}, false
}

func (p *places) add(epoch uint64, k place) {
	k.fresh = false
	for i := range p.known[:p.n] {
		if old := &p.known[i]; old.extent == k.extent && old.epoch == epoch {
			old.place = k
			return
		}
	}
	p.known[p.next] = known{epoch, k}
	p.next = (p.next + 1) % placesKept
	p.n = min(p.n+1, placesKept)
}

// forget forgets what is known of a node.
func (p *places) forget(epoch uint64) {
	n := 0
	for _, k := range p.known[:p.n] {
		if k.epoch != epoch {
			p.known[n] = k
			n++
		}
	}
	p.n, p.next = n, n%placesKept
}

// findPlace looks for an extent in its candidate sets, as far as they were read, and
// returns in which it was.
func findPlace(g layout.Geometry, h layout.Hash, extent uint64, sets [2][]byte) (k place, in int, ok bool) {
	for i, set := range g.ExtentSetsOf(h, extent) {
		if sets[i] == nil {
			continue
		}
		if way, generation, ok := layout.FindIdentity(sets[i], h, extent); ok {
			return place{extent: extent, index: set*layout.Ways + uint32(way), generation: generation, fresh: true}, i, true
		}
	}
	return place{}, 0, false
}
