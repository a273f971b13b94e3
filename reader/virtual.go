package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// World is the network, the nodes and the time around Virtuals. All of it is the
// caller's, in one goroutine.
type World interface {
	// Ask has a request carried to its node. It returns when the node reads its
	// memory, and when the answer is there; ok is false if none ever comes.
	Ask(a *Ask) (served, answered time.Time, ok bool)
	// At has e.Due called at a time that is not before the present one.
	At(t time.Time, e Event)
	// Published returns what a node's length page says of a shard, by its number in
	// the site, at a time: nothing if the incarnation is 0. Only Length, HeartbeatMS,
	// Flags and Incarnation are looked at.
	Published(node, shard int, at time.Time) layout.Entry
	// Holds returns how far a node holds the bytes of an extent at a time; 0: not at
	// all. second: the extent is in the second of its candidate sets.
	Holds(node, shard int, extent uint64, at time.Time) (end uint64, second bool)
	// Durable returns what the durable store knows of a shard at a time.
	Durable(shard int, at time.Time) durable.Info
	// Delivered is told what a consumer was given.
	Delivered(v *Virtual, shard int, from, to uint64, source Source)
}

// Event is something that is due at a time.
type Event interface{ Due(now time.Time) }

// AskKind is what an Ask is for.
type AskKind int

const (
	AskPage  AskKind = iota // length pages, or their places
	AskData                 // extents with their descriptors, or their places
	AskStore                // bytes of the durable store
	AskStat                 // a shard's length, of the durable store
)

// Ask is a request of a Virtual: Reads one-sided reads of Bytes in all, which one
// node is asked for together; or one question to the durable store.
type Ask struct {
	Kind  AskKind
	Node  int // in the View; -1: the durable store
	Reads int
	Bytes int

	v         *Virtual
	tail      *virtualTail
	flight    *flight
	visit     *visit
	from, to  uint64 // of AskStore
	posted    time.Time
	served    time.Time
	failing   bool // Due is its deadline
	lateVisit bool
	relocated bool // the second of the two reads of a visit
}

// What a plan of capacity counts with.
const (
	// SecondOpinion is how many polls of a page pass until another replica is asked
	// beside the first.
	SecondOpinion = secondOpinion
	// PollJitter is the part of an interval by which it is shortened at most.
	PollJitter = pollJitter
	// BothSets is from which part of its extents in their second sets on both sets of
	// a node are read at once.
	BothSets = float64(bothSets) / 1024
)

// VirtualSite is a cluster whose Virtuals live in virtual time. It and its Virtuals
// belong to one goroutine.
type VirtualSite struct {
	world    World
	view     *cluster.View
	cfg      Config
	geometry layout.Geometry
	shards   []layout.Shard
	numbers  map[layout.Shard]int
	now      time.Time
	born     time.Time
	scratch  []byte // what reads land in: looked at before the next one does
	sets     [maxSpans + pollPages][layout.SetSize]byte
	empty    [layout.SetSize]byte
}

// NewVirtualSite returns the site of a cluster with nodes of a geometry, whose
// consumers follow some of shards with cfg. Nobody is connected to, and nothing of
// cfg that says where is looked at. Errors match ErrConfig.
func NewVirtualSite(w World, view *cluster.View, g layout.Geometry, shards []layout.Shard, cfg Config, born time.Time) (*VirtualSite, error) {
	cfg.Cluster = virtualSource{view}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &VirtualSite{world: w, view: view, cfg: cfg, geometry: g, shards: shards, numbers: map[layout.Shard]int{}, now: born, born: born,
		scratch: make([]byte, 2<<20)}
	for i, shard := range shards {
		s.numbers[shard] = i
	}
	return s, nil
}

type virtualSource struct{ view *cluster.View }

func (s virtualSource) View() (*cluster.View, <-chan struct{}) { return s.view, nil }

func (s *VirtualSite) clock() time.Time { return s.now }

// Virtual is one consumer process without connections, goroutines, or bytes: a model
// of it for questions of capacity. Everything that is decided is decided by the code of a
// Cluster and its Readers: when lengths are polled and of whom, what is read next and
// of whom, in how many reads, when a second replica is asked, or all, or the
// durable store. The World does what a network and nodes do. Left out are what needs
// bytes (checksums), memory limits, and reading ahead of a backlog: one batch of
// reads a shard is under way at a time.
type Virtual struct {
	Number int // the caller's

	site  *VirtualSite
	c     *Cluster
	poll  *poller
	pages []*page // of the poll under way; nil: there is none
	open  int     // its visits that are waited for
	tails []*virtualTail
	// The durable store is asked DurableConcurrency times at once.
	asking  int
	waiting []*Ask
	batches []*virtualBatch
}

// NewVirtual returns a consumer process that follows nothing yet.
func (s *VirtualSite) NewVirtual() *Virtual {
	v := &Virtual{site: s, c: newCluster(s.cfg)}
	v.c.now = s.clock
	ro := &roster{view: s.view, peers: make([]*peer, len(s.view.Nodes))}
	for i := range s.view.Nodes {
		p := &peer{c: v.c, name: s.view.Nodes[i].Name}
		p.live.Store(&[]*path{{memory: virtualMemory{v}, peer: p, source: FromRDMA, epoch: uint64(i + 1), geometry: s.geometry, clock: s.clock, born: s.born}})
		p.status.Store(&pathStatus{"rdma", "virtual"})
		ro.peers[i] = p
	}
	v.c.roster.Store(ro)
	v.poll = newPoller(v.c)
	v.poll.interval = s.cfg.PollMin
	return v
}

// Follow opens a Reader of a shard, by its number, at the end that the durable store
// knows. It has asked the store for that, which is not among the Asks.
func (v *Virtual) Follow(shard int, now time.Time) error {
	v.site.now = now
	info := v.site.world.Durable(shard, now)
	s := v.site.shards[shard]
	r := &Reader{c: v.c, h: s.Hash(info.Incarnation), news: make(chan struct{}, 1)}
	r.tail.delay = v.site.cfg.DurableDelay
	r.start(info.Length, info.Length)
	var err error
	if r.f, err = v.c.follow(s, info, r); err != nil {
		return err
	}
	v.tails = append(v.tails, &virtualTail{v: v, r: r, shard: shard})
	return nil
}

// Stats returns what the process has done.
func (v *Virtual) Stats() Stats { return v.c.Stats() }

// Due begins a poll: the first one is the caller's to ask for, by World.At.
func (v *Virtual) Due(now time.Time) {
	v.site.now = now
	if v.pages != nil {
		return
	}
	v.pages = v.poll.begin(now)
	v.round(now)
}

// round asks the next replicas of a poll, or ends it.
func (v *Virtual) round(now time.Time) {
	p := v.poll
	for v.open == 0 {
		if !p.assign(now) {
			p.end(v.pages)
			p.adapt(p.moved)
			v.pages = nil
			v.site.world.At(now.Add(p.pause()), v)
			v.heed(now)
			return
		}
		for _, visit := range p.round {
			visit.start()
			v.open++
			v.visit(&Ask{Kind: AskPage, v: v, visit: visit}, now)
		}
		if v.open == 0 {
			p.sift()
		}
	}
}

// visit has what a visit has posted carried. One that is slow is late at once.
func (v *Virtual) visit(a *Ask, now time.Time) {
	visit := a.visit
	if visit.state == visitOver {
		v.visited(a, now)
		return
	}
	visit.posted, visit.deadline = now, now.Add(visit.timeout)
	a.Node = int(visit.via.epoch) - 1
	answered := v.send(a, visit.b.(*virtualBatch), now, visit.timeout)
	if len(v.poll.ro.peers) > 1 && !a.lateVisit && answered.Sub(now) > pollGrace {
		a.lateVisit = true
		visit.postpone()
		visit.late = true
		if v.open--; v.open == 0 {
			v.poll.sift()
			if a.relocated { // else round goes on itself
				v.round(now)
			}
		}
	}
}

// visited takes the end of a visit.
func (v *Virtual) visited(a *Ask, now time.Time) {
	p := v.poll
	if !a.lateVisit {
		p.take(a.visit, now)
		if v.open--; v.open == 0 {
			p.sift()
			v.round(now)
		}
		return
	}
	a.visit.late = false
	moved := p.moved
	p.moved = false
	p.take(a.visit, now)
	if p.moved {
		p.interval = v.site.cfg.PollMin
	}
	p.moved = p.moved || moved
	v.heed(now)
}

// heed has the Readers go on that were woken.
func (v *Virtual) heed(now time.Time) {
	for _, t := range v.tails {
		select {
		case <-t.r.news:
			if t.kind == idle {
				t.step(now)
			}
		default:
		}
	}
}

// send carries what a batch has collected. It returns when the answer is there, or
// given up.
func (v *Virtual) send(a *Ask, b *virtualBatch, now time.Time, timeout time.Duration) time.Time {
	a.Reads, a.Bytes, a.posted = b.reads, b.bytes, now
	served, answered, ok := v.site.world.Ask(a)
	a.served, a.failing = served, !ok || answered.Sub(now) > timeout
	if a.failing {
		answered = now.Add(timeout)
	}
	v.site.world.At(answered, a)
	return answered
}

// Due is the answer.
func (a *Ask) Due(now time.Time) {
	a.v.site.now = now
	switch a.Kind {
	case AskPage:
		a.v.landed(a, now)
	case AskData:
		a.tail.landed(a, now)
	default:
		a.tail.told(a, now)
	}
}

// Of returns the process that asks.
func (a *Ask) Of() *Virtual { return a.v }
