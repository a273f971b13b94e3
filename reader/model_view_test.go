package reader

import (
	"slices"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// membership is a View of the model's cluster, whose nodes it numbers as the world
// does.
type membership struct {
	*cluster.View
	w       *world
	numbers []int // of the View's nodes
	page    []int // the replicas of the shard's length page
	sets    map[uint64]*replicas
}

// replicas are the nodes that hold an extent, full ones first.
type replicas struct {
	all  []int
	full int
}

// newMembership is the View of a description without one of its nodes; negative:
// of all.
func newMembership(w *world, d cluster.Description, without int) *membership {
	m := &membership{w: w, sets: map[uint64]*replicas{}}
	for i := range d.Nodes {
		if i != without {
			m.numbers = append(m.numbers, i)
		}
	}
	if without >= 0 {
		d.Nodes = slices.Delete(slices.Clone(d.Nodes), without, without+1)
	}
	var err error
	if m.View, err = cluster.NewView(d); err != nil {
		panic(err)
	}
	var set cluster.Replicas
	m.View.Page(layout.StreamHash(w.shard.Stream), w.shard.Page(), &set)
	m.page = m.numbered(set.All())
	return m
}

func (m *membership) numbered(nodes []uint16) (numbers []int) {
	for _, n := range nodes {
		numbers = append(numbers, m.numbers[n])
	}
	return numbers
}

// of returns the replica set of an extent.
func (m *membership) of(extent uint64) *replicas {
	r := m.sets[extent]
	if r == nil {
		var set cluster.Replicas
		m.View.Extent(m.w.hash, extent, &set)
		r = &replicas{m.numbered(set.All()), len(set.Full())}
		m.sets[extent] = r
	}
	return r
}

// next returns the View that a process goes on with, at its next step.
func (w *world) next(m *membership) *membership {
	if now := w.views[w.current]; now != m && (w.calm || w.choose(4, "learn") == 0) {
		return now
	}
	return m
}
