package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// place is where a node holds an extent.
type place struct {
	extent     uint64
	index      uint32 // in the extent table
	generation uint32
	fresh      bool // its identity was read for the flight that uses it
}

// places remembers where the extents around a Reader's position are, so that a
// steady tail reads no identities. A wrong memory is harmless: the CRC of what
// is read there does not fit, and the place is asked for again.
type places struct {
	epoch uint64
	known [placesKept]place
	n     int // valid ones
	next  int // the one to replace
}

const placesKept = 2 * maxSpans

func (p *places) find(epoch, extent uint64) (place, bool) {
	if p.epoch != epoch {
		*p = places{epoch: epoch}
	}
	for _, k := range p.known[:p.n] {
		if k.extent == extent {
			return k, true
		}
	}
	return place{}, false
}

func (p *places) add(k place) {
	k.fresh = false
	p.known[p.next] = k
	p.next = (p.next + 1) % placesKept
	p.n = min(p.n+1, placesKept)
}

func (p *places) forget() { *p = places{epoch: p.epoch} }

// locate finds the extents from first to last (at most maxSpans) that are not
// yet known, in one batch of identity reads. It returns the places of the
// leading extents that the node holds; the first that it lacks ends the list.
func (p *places) locate(via *path, h layout.Hash, first, last uint64, deadline time.Time, out []place) ([]place, error) {
	var sets [maxSpans][2][]byte
	var b batch
	defer func() {
		if b != nil {
			b.Release()
		}
	}()
	for e := first; e <= last; e++ {
		if _, ok := p.find(via.epoch, e); ok {
			continue
		}
		if b == nil {
			var err error
			if b, err = via.newBatch(maxSpans * 2 * layout.SetSize); err != nil {
				return out, err
			}
		}
		for i, set := range via.geometry.ExtentSetsOf(h, e) {
			sets[e-first][i] = b.Add(via.geometry.ExtentSet(set), layout.SetSize)
		}
	}
	if b != nil {
		if err := settle(b, deadline); err != nil {
			return out, err
		}
	}
	for e := first; e <= last; e++ {
		k, ok := p.find(via.epoch, e)
		if !ok {
			if k, ok = findPlace(via.geometry, h, e, sets[e-first]); !ok {
				break
			}
			p.add(k)
			k.fresh = true
		}
		out = append(out, k)
	}
	return out, nil
}

// findPlace looks for an extent in its two candidate sets.
func findPlace(g layout.Geometry, h layout.Hash, extent uint64, sets [2][]byte) (place, bool) {
	for i, set := range g.ExtentSetsOf(h, extent) {
		if sets[i] == nil {
			continue
		}
		if way, generation, ok := layout.FindIdentity(sets[i], h, extent); ok {
			return place{extent: extent, index: set*layout.Ways + uint32(way), generation: generation}, true
		}
	}
	return place{}, false
}
