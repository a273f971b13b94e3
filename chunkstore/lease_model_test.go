package chunkstore

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// leaseModel is a number of nodes and writers, with a network between them that
// delays, reorders, repeats and loses. Writers do what a producer does: ask a
// quorum, take the next sequence, acquire at a quorum, publish.
type leaseModel struct {
	clk     *clock
	quorum  int
	nodes   []*leaseNode
	writers []*leaseWriter
	// due are deliveries that may happen at any time, in any order, more than once
	// or never.
	due []func()
	// displaced counts publications that a newer writer has kept from a quorum.
	displaced, published int
}

type leaseNode struct {
	leases *Leases
	starts int
}

type leaseWriter struct {
	number  int
	phase   int // 0 idle, 1 asking, 2 acquiring, 3 has it
	ballot  layout.Ballot
	highest layout.Ballot
	round   *round // late answers to an earlier one count for nothing
}

type round struct{ answered map[int]bool }

func newRound() *round { return &round{map[int]bool{}} }

// guard is what must keep an older publication from a quorum: a newer ballot that
// was held by a quorum when the publication was sent.
type guard struct {
	ballot layout.Ballot
	held   map[int]int // node: its starts
}

func newLeaseModel(nodes, writers int) *leaseModel {
	m := &leaseModel{clk: newClock(), quorum: nodes/2 + 1}
	for range nodes {
		m.nodes = append(m.nodes, &leaseNode{leases: NewLeases(4, 10*time.Second, m.clk.now)})
	}
	for i := range writers {
		m.writers = append(m.writers, &leaseWriter{number: i})
	}
	return m
}

func (m *leaseModel) begin(w *leaseWriter) {
	w.phase, w.highest, w.round = 1, layout.Ballot{}, newRound()
	r := w.round
	for i, n := range m.nodes {
		m.due = append(m.due, func() {
			got := n.leases.Query(leaseShard).Ballot
			m.due = append(m.due, func() { m.told(w, r, i, got) })
		})
	}
}

// told is the answer to a query.
func (m *leaseModel) told(w *leaseWriter, r *round, node int, held layout.Ballot) {
	if w.phase != 1 || w.round != r {
		return
	}
	r.answered[node] = true
	if held.Compare(w.highest) > 0 {
		w.highest = held
	}
	if len(r.answered) < m.quorum {
		return
	}
	w.phase, w.round = 2, newRound()
	w.ballot = layout.Ballot{Sequence: w.highest.Sequence + 1, Nonce: uint64(w.number)}
	b, acquired := w.ballot, w.round
	for i, n := range m.nodes {
		m.due = append(m.due, func() {
			granted := n.leases.Acquire(leaseShard, b, "", 10*time.Second).Ballot == b
			m.due = append(m.due, func() { m.granted(w, acquired, i, granted) })
		})
	}
}

func (m *leaseModel) granted(w *leaseWriter, r *round, node int, granted bool) {
	if w.phase != 2 || w.round != r || !granted {
		return
	}
	r.answered[node] = true
	if len(r.answered) >= m.quorum {
		w.phase = 3
	}
}

// guards are the ballots above b that a quorum holds now.
func (m *leaseModel) guards(b layout.Ballot) (gs []guard) {
	for _, w := range m.writers {
		if w.ballot.Compare(b) <= 0 {
			continue
		}
		g := guard{w.ballot, map[int]int{}}
		for i, n := range m.nodes {
			if n.leases.Query(leaseShard).Ballot.Compare(w.ballot) >= 0 {
				g.held[i] = n.starts
			}
		}
		if len(g.held) >= m.quorum {
			gs = append(gs, g)
		}
	}
	return gs
}

// intact says whether a quorum still remembers what it held.
func (m *leaseModel) intact(g guard) bool {
	n := 0
	for i, starts := range g.held {
		if m.nodes[i].starts == starts {
			n++
		}
	}
	return n >= m.quorum
}

func (m *leaseModel) publish(t *rapid.T, w *leaseWriter) {
	b, guards, accepted, refused := w.ballot, m.guards(w.ballot), map[int]bool{}, map[int]bool{}
	for i, n := range m.nodes {
		m.due = append(m.due, func() {
			err := n.leases.Admit(leaseShard, b)
			if errors.Is(err, ErrLease) {
				refused[i] = true
				if len(refused) > len(m.nodes)-m.quorum && len(guards) > 0 {
					m.displaced++
				}
				// The writer stops, as an Appender does, whenever it hears of it.
				m.due = append(m.due, func() {
					if w.ballot == b {
						w.phase = 0
					}
				})
				return
			}
			accepted[i] = true
			if len(accepted) < m.quorum {
				return
			}
			m.published++
			for _, g := range guards {
				if m.intact(g) {
					t.Fatalf("a publication under %v was accepted by a quorum, sent after a quorum held %v", b, g.ballot)
				}
			}
		})
	}
}

// TestTwoWritersNeverBothPublish: once a quorum holds a newer ballot, no
// publication that an older writer sends is accepted by a quorum, as long as the
// newer one's quorum is not restarted, whatever the network does.
func TestTwoWritersNeverBothPublish(t *testing.T) {
	published, displaced := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := newLeaseModel(rapid.SampledFrom([]int{1, 2, 3, 5}).Draw(t, "nodes"), 3)
		for range rapid.IntRange(300, 1500).Draw(t, "steps") {
			m.step(t)
		}
		published += m.published
		displaced += m.displaced
	})
	if !t.Failed() && (published == 0 || displaced == 0) {
		t.Errorf("%d publications accepted by a quorum, %d kept from one: the model explores nothing", published, displaced)
	}
	t.Logf("report: leases: %d publications accepted by a quorum, %d of displaced writers kept from one", published, displaced)
}

func (m *leaseModel) step(t *rapid.T) {
	action := rapid.IntRange(0, 99).Draw(t, "action")
	w := m.writers[rapid.IntRange(0, len(m.writers)-1).Draw(t, "writer")]
	switch {
	case action < 70:
		m.deliver(t)
	case action < 80:
		if w.phase == 0 {
			m.begin(w)
		}
	case action < 94:
		if w.phase == 3 {
			m.publish(t, w)
		}
	case action < 96:
		w.phase = 0 // it gives up
	case action < 97:
		n := m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(t, "node")]
		n.leases, n.starts = NewLeases(4, 10*time.Second, m.clk.now), n.starts+1
	default:
		m.clk.advance(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second)
	}
}

// deliver lets one message arrive: it may stay, to arrive again.
func (m *leaseModel) deliver(t *rapid.T) {
	if len(m.due) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.due)-1).Draw(t, "message")
	f := m.due[i]
	if rapid.IntRange(0, 9).Draw(t, "again") < 9 {
		m.due[i] = m.due[len(m.due)-1]
		m.due = m.due[:len(m.due)-1]
	}
	f()
}
