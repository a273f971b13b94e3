package producer

import (
	"slices"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// gapsMax bounds the gaps of one node: an outage makes about one for each shard.
const gapsMax = 4096

// gap are positions of a shard that a node may lack: those of the extents in
// [from, to) that are placed on it, without those that were already under an
// older View.
type gap struct {
	s        *recent
	from, to uint64        // from < to
	had      *cluster.View // nil: none
	hadAs    uint16        // the node's index there
}

// missing are the gaps of one node, the oldest first. It has no lock.
type missing struct {
	gaps    []gap
	forgone uint64 // bytes of gaps that were given up, at most
}

// add notes a gap. It continues the shard's last one unless an extent between
// them is placed on the node: that one is there.
func (m *missing) add(g gap, placed func(extent uint64) bool) {
	for i := len(m.gaps) - 1; i >= 0; i-- {
		last := &m.gaps[i]
		if last.s != g.s {
			continue
		}
		if last.had == g.had && last.from <= g.from && adjoin(last.to, g.from, placed) {
			last.to = max(last.to, g.to)
			return
		}
		break
	}
	if len(m.gaps) >= gapsMax {
		m.forgo(m.take())
	}
	m.gaps = append(m.gaps, g)
}

// adjoin says whether no extent between the ends of two gaps is placed on the
// node. If they are far apart, it does not look.
func adjoin(end, begin uint64, placed func(extent uint64) bool) bool {
	const far = 64
	first, last := layout.Extent(end-1)+1, layout.Extent(begin)
	if last > first+far {
		return false
	}
	for e := first; e < last; e++ {
		if placed(e) {
			return false
		}
	}
	return true
}

// take removes the oldest gap, which must be there.
func (m *missing) take() gap {
	g := m.gaps[0]
	m.gaps = slices.Delete(m.gaps, 0, 1)
	return g
}

// advance notes that the oldest gap, which was g when it was looked at, is closed
// up to from. It may have grown since, or have been given up.
func (m *missing) advance(g gap, from uint64) {
	if len(m.gaps) == 0 || m.gaps[0].s != g.s || m.gaps[0].from != g.from || m.gaps[0].had != g.had {
		return
	}
	if m.gaps[0].from = from; from >= m.gaps[0].to {
		m.take()
	}
}

func (m *missing) forgo(g gap) { m.forgone += g.to - g.from }

// bytes are those of all gaps, at most: not every extent in them is the node's.
func (m *missing) bytes() (n uint64) {
	for _, g := range m.gaps {
		n += g.to - g.from
	}
	return n
}

// lacks notes a gap, which repair will close.
func (n *node) lacks(g gap) {
	top := n.c.top.Load()
	index, ok := top.view.Node(n.name)
	if !ok {
		return
	}
	var set cluster.Replicas
	n.mu.Lock()
	n.mu.missing.add(g, func(extent uint64) bool {
		top.view.Extent(g.s.hash, extent, &set)
		return slices.Contains(set.Full(), uint16(index))
	})
	n.mu.Unlock()
	n.c.rouse()
}

// gap returns the oldest gap, if the node can be repaired now.
func (n *node) gap() (g gap, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.mu.missing.gaps) == 0 || n.mu.state != nodeLive && n.mu.state != nodeLocal {
		return gap{}, false
	}
	return n.mu.missing.gaps[0], true
}

// closed notes that a gap is closed up to from, of which some bytes were given up.
func (n *node) closed(g gap, from, forgone uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.missing.advance(g, from)
	n.mu.missing.forgone += forgone
}
