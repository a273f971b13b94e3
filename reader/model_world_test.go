package reader

import (
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// The model is a whole cluster in one goroutine: nodes, a durable store, writers,
// readers and a network between them, each reduced to what the rules of DESIGN 1,
// 3, 4 and 5 are about. Chunks have 4 bytes and extents 2 chunks, so that borders
// are everywhere; a byte is the number of the record that it belongs to. Placement
// and length entries are the real ones, and so is what the reader decides by.
//
// One step is one event: a message arrives, a process does one thing, time passes,
// or something breaks. Which one is the chooser's choice.
const (
	modelChunk  = 4
	modelExtent = 2 * modelChunk
	modelMost   = 48 // bytes of the shard, before faults stop
)

// chooser is where all chance comes from: rapid, which can shrink it, or a seed.
type chooser interface {
	choose(n int, what string) int // 0 to n-1; 0 is the simplest
}

// breakage is a rule that is broken on purpose, to see that the model notices.
type breakage int

const (
	sound            breakage = iota
	putBeforeDurable          // the cache gets bytes that may never become durable
	publishBeforePut          // a length is out before the bytes that it promises
	coldAfterOneHole          // one replica's hole is taken for all
	staleBallots              // nodes take what an older writer publishes
	unprovenBytes             // the reader delivers what no CRC covers
	neverDurable              // the reader does not fall back on the store
	noRepair                  // a node that was away stays empty
	blindBeats                // an idle writer beats without a look at the store
	anyBeat                   // beats of two replicas that differ are taken for news
)

// scenario says what may go wrong.
type scenario struct {
	name string
	// victims is how many nodes may ever be lost, frozen, slow or cut off.
	victims int
	// rolling: one of them at a time, the next one when the last one is repaired.
	rolling bool
	// deaths: writers die and come back; rivals: two of them at once.
	deaths, rivals bool
	storeAway      bool
	// evictions of full replicas; partial ones evict in every scenario.
	evictions bool
	// moves: nodes leave the cluster's description and come back.
	moves bool
	// prompt: who is no victim answers within 100 ms, and processes run as often.
	prompt bool
	// noDurable: the store must not be read at all.
	noDurable bool
}

type world struct {
	chooser
	scenario
	broken breakage
	fail   func(format string, args ...any) // does not return

	now     time.Time
	views   []*membership
	current int // of views: what processes learn, each at a step of its own
	shard   layout.Shard
	hash    layout.Hash

	store   modelStore
	nodes   []*modelNode
	writers [2]*modelWriter
	readers []*modelReader
	net     []*message

	steps     int
	requests  int // numbers of them
	records   byte
	sequences int // of wall clocks that were set back, nonces
	calm      bool
	by        [sources]int // bytes delivered
	victim    int          // of a rolling scenario, at present
	// granted is the greatest ballot that a node granted in its present life.
	granted []ballot
}

const (
	modelIncarnation = 77
	// modelRepaired is when a node that came back has what it missed: the writer
	// heeds it again with its next heartbeat, and learns its epoch from the answer.
	modelRepaired = 5 * time.Second
)

func newWorld(c chooser, s scenario, broken breakage, fail func(string, ...any)) *world {
	d := cluster.Description{Partial: 1}
	for _, name := range []string{"a", "b", "c", "d"} {
		d.Nodes = append(d.Nodes, cluster.Node{Name: name, Addr: name + ":1", Roles: cluster.Data | cluster.Metadata, Weight: 1})
	}
	d.Nodes = append(d.Nodes, cluster.Node{Name: "p", Addr: "p:1", Roles: cluster.Data, Weight: 1, Partial: true})
	w := &world{chooser: c, scenario: s, broken: broken, fail: fail, now: t0, shard: layout.Shard{Stream: "model", Number: 7}}
	w.hash = w.shard.Hash(modelIncarnation)
	for without := -1; without < 4 && (without < 0 || s.moves); without++ {
		w.views = append(w.views, newMembership(w, d, without))
	}
	for i := range d.Nodes {
		w.nodes = append(w.nodes, &modelNode{w: w, number: i, epoch: 1, extents: map[uint64]*modelSlot{}})
	}
	w.granted = make([]ballot, len(w.nodes))
	w.writers[0] = newModelWriter(w)
	w.readers = []*modelReader{newModelReader(w), newModelReader(w)}
	if w.prompt { // a shard that the cache has never had is read from the store at once
		for !w.readers[0].f.mu.seen || !w.readers[1].f.mu.seen {
			w.now = w.now.Add(10 * time.Millisecond)
			w.run(0)
		}
	}
	return w
}

// modelStore is the durable log. Only its end can be appended to.
type modelStore struct {
	log  []byte
	away bool
}

func (s *modelStore) append(at int, p []byte) bool {
	if at != len(s.log) {
		return false
	}
	s.log = append(s.log, p...)
	return true
}

// --- The network.

// side says between whom and a node a message travels: each can be cut by itself.
type side int

const (
	ofWriters side = iota
	ofReaders
)

type client interface {
	side() side
	take(node, id int, body any)
}

type message struct {
	node  int
	from  client
	reply bool
	id    int
	body  any
	sent  time.Time
}

// reset is the reply of a node that is not there.
type reset struct{}

func (w *world) send(from client, node int, body any) (id int) {
	w.requests++
	w.net = append(w.net, &message{node: node, from: from, id: w.requests, body: body, sent: w.now})
	return w.requests
}

// deliver lets message i arrive, unless what it has to pass is stuck.
func (w *world) deliver(i int) {
	m := w.net[i]
	n := w.nodes[m.node]
	if n.cut[m.from.side()] || n.frozen && !m.reply {
		return
	}
	w.net = slices.Delete(w.net, i, i+1)
	if m.reply {
		m.from.take(m.node, m.id, m.body)
		return
	}
	answer := any(reset{})
	if !n.down {
		answer = n.handle(m.body)
	}
	w.net = append(w.net, &message{node: m.node, from: m.from, reply: true, id: m.id, body: answer, sent: w.now})
}

// stuck reports whether nothing can come from or to a node.
func (w *world) stuck(m *message) bool {
	n := w.nodes[m.node]
	return n.cut[m.from.side()] || n.frozen && !m.reply
}

// --- Steps.

// step lets one event happen.
func (w *world) step() {
	w.steps++
	switch w.choose(18, "event") {
	case 0, 1, 2:
		if len(w.net) > 0 {
			w.deliver(0)
		}
	case 3, 4:
		if len(w.net) > 0 {
			w.deliver(w.choose(len(w.net), "message"))
		}
	case 5, 6:
		w.writers[0].step()
		w.writers[1].step()
	case 7, 8, 9:
		w.readers[w.choose(len(w.readers), "reader")].step()
	case 10:
		r := w.readers[w.choose(len(w.readers), "reader")]
		if w.choose(4, "poll or seek") < 3 {
			r.poll()
		} else {
			r.seek()
		}
	case 11, 12:
		w.writers[w.choose(2, "writer")].record()
	case 13:
		w.pass([]time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 300 * time.Millisecond, 1100 * time.Millisecond}[w.choose(5, "time")])
	case 14:
		w.nodes[len(w.nodes)-1].evict()
	case 15, 16, 17:
		w.trouble()
	}
}

// pass lets time pass. In a prompt scenario nobody healthy is kept waiting.
func (w *world) pass(d time.Duration) {
	if !w.prompt {
		w.now = w.now.Add(d)
		return
	}
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(20*time.Millisecond, end.Sub(w.now)))
		w.run(100 * time.Millisecond)
	}
}

// run delivers what is older than an age, and lets every process go on.
func (w *world) run(age time.Duration) {
	for i := 0; i < len(w.net); {
		if m := w.net[i]; w.stuck(m) || w.now.Sub(m.sent) < age {
			i++
			continue
		}
		w.deliver(i)
	}
	for _, x := range w.writers {
		x.step()
	}
	for _, r := range w.readers {
		r.poll()
		r.step()
	}
}

// trouble breaks or mends something that the scenario allows.
func (w *world) trouble() {
	switch kind := w.choose(17, "trouble"); {
	case kind < 10 && w.rolling:
		if w.nodes[w.victim].suffer(kind); kind < mends {
			w.pass(modelRepaired)
			w.victim = w.choose(w.victims, "victim")
		}
	case kind < 10 && w.victims > 0:
		w.nodes[w.choose(w.victims, "victim")].suffer(kind)
	case kind == 10 && w.evictions:
		w.nodes[w.choose(len(w.nodes), "node")].evict()
	case kind == 11 && w.deaths:
		w.writers[w.choose(2, "writer")].die()
	case kind < 14 && w.deaths:
		w.open(0)
	case kind == 14 && w.rivals:
		w.open(1)
	case kind == 15 && w.storeAway:
		w.store.away = !w.store.away
	case kind == 16 && w.moves:
		w.current = w.choose(len(w.views), "view")
	}
}

// open starts a writer where none lives.
func (w *world) open(i int) {
	if x := w.writers[i]; !x.lives() {
		w.writers[i] = newModelWriter(w)
	}
}

// heal ends all faults, and what they have left on its way arrives.
func (w *world) heal() {
	w.calm = true
	w.store.away = false
	for _, n := range w.nodes {
		n.mend()
	}
}

// settle runs a healed world until the readers have everything: the bound is what
// "termination" means. It may lack a writer.
func (w *world) settle() {
	const most = 30 * time.Second
	for end := w.now.Add(most); !w.delivered(); {
		if !w.now.Before(end) {
			w.fail("%v after the last fault %d of %d bytes are delivered: %v; %v; %v", most, w.readers[0].position(), len(w.store.log), w.readers[0], w.writers[0], w.writers[1])
		}
		w.now = w.now.Add(10 * time.Millisecond)
		w.steps++
		w.run(0)
	}
}

func (w *world) delivered() bool {
	for _, r := range w.readers {
		if r.position() < len(w.store.log) {
			return false
		}
	}
	return true
}

// recover lets a writer append in a healed world until every reader is served by
// the cache again.
func (w *world) recover() {
	const most = 10 * time.Second
	w.open(0)
	w.writers[1].die()
	for end := w.now.Add(most); ; {
		before := len(w.store.log)
		for len(w.store.log) == before {
			if !w.now.Before(end) {
				w.fail("the writer has not appended for %v: %v", most, w.writers[0])
			}
			w.open(0) // one that lost its lease in the fight ends, and another one comes
			w.writers[0].record()
			w.now = w.now.Add(10 * time.Millisecond)
			w.run(0)
		}
		w.settle()
		served := true
		for _, r := range w.readers {
			served = served && r.last != FromDurable
		}
		if served {
			return
		}
		if !w.now.Before(end) {
			w.fail("%v after the last fault a reader is served by the store: %v", most, w.readers[0])
		}
	}
}
