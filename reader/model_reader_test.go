package reader

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// modelReader follows the shard. What decides is the real thing: tail what to do
// next, reach and laggards and choose whom to ask, path how long a node rests after
// a failure, follow what is known of the shard. The rest of a Reader, which posts
// and waits, is this.
type modelReader struct {
	w     *world
	m     *membership
	peers []*peer // of all nodes
	f     *follow
	tail  tail
	ro    *roster
	here  reach
	late  laggards
	last  Source // of the last delivery

	tries   []*try  // under way
	race    verdict // of those that have ended
	kind    raceKind
	startAt time.Time // of the race

	polled   int // the page request under way; 0: none
	polledAt time.Time
	pollTo   int // the replica it went to
	turn     int
	absent   int // replicas in a row that had no page
	beat     uint64
}

type raceKind int

const (
	relaxed raceKind = iota
	hedged
	quorum
)

// try is a read of one replica.
type try struct {
	node, id int
	at       time.Time
	pub      published
	partial  bool
}

const (
	modelHedge       = 30 * time.Millisecond
	modelReadTimeout = 250 * time.Millisecond
)

// noMemory stands for a connection: the model's messages go elsewhere.
type noMemory struct{ memory }

func (noMemory) Lost() <-chan struct{} { return nil }

func newModelReader(w *world) *modelReader {
	r := &modelReader{w: w, f: newFollow(w.shard, modelIncarnation), turn: w.choose(3, "turn")}
	for range w.nodes {
		p := &peer{}
		p.live.Store(&[]*path{{memory: noMemory{}, peer: p, source: FromTCP, born: t0}})
		r.peers = append(r.peers, p)
	}
	r.adopt(w.views[w.current])
	r.seek()
	return r
}

// adopt makes another View the reader's.
func (r *modelReader) adopt(m *membership) {
	r.m, r.ro = m, &roster{view: m.View}
	for _, n := range m.numbers {
		r.ro.peers = append(r.ro.peers, r.peers[n])
	}
	r.f.moved()
}

func (r *modelReader) side() side    { return ofReaders }
func (r *modelReader) position() int { return int(r.tail.pos) }

func (r *modelReader) path(node int) *path { return (*r.peers[node].live.Load())[0] }

func (r *modelReader) String() string {
	v, _ := r.look()
	return fmt.Sprintf("reader at %d, length %d, stored %d, %d replicas, %d tries, %+v", r.tail.pos, v.length, v.stored, v.replicas, len(r.tries), r.tail)
}

// look is Reader.look.
func (r *modelReader) look() (view, published) {
	r.here.find(r.ro, r.w.hash, r.tail.pos/modelExtent, r.w.now)
	blind := true
	for _, n := range r.m.page {
		blind = blind && !r.peers[n].up(r.w.now)
	}
	v, pub := r.f.view(r.w.now, blind)
	v.paths, v.replicas, v.backAt = r.here.paths, r.here.full, r.here.backAt
	return v, pub
}

// seek goes back to the shard's beginning.
func (r *modelReader) seek() {
	r.tail.delay = time.Second
	r.tail.seek(0, uint64(len(r.w.store.log)))
	r.tries = nil
}

// poll asks one replica of the length page.
func (r *modelReader) poll() {
	if r.polled != 0 {
		if r.w.now.Sub(r.polledAt) < modelReadTimeout {
			return
		}
		r.path(r.pollTo).failed(r.w.now, os.ErrDeadlineExceeded)
		r.polled = 0
	}
	for range r.m.page {
		r.turn++ // the real choice is random: in turn is as fair, and cannot be unlucky for ever
		if n := r.m.page[r.turn%len(r.m.page)]; r.peers[n].up(r.w.now) {
			r.pollTo, r.polledAt = n, r.w.now
			r.polled = r.w.send(r, n, pageRequest{})
			return
		}
	}
}

// step is one turn of Reader.advance.
func (r *modelReader) step() {
	w := r.w
	if m := w.next(r.m); m != r.m {
		r.adopt(m)
	}
	for _, t := range slices.Clone(r.tries) {
		if w.now.Sub(t.at) >= modelReadTimeout {
			r.ended(t, r.path(t.node).failed(w.now, os.ErrDeadlineExceeded))
		}
	}
	if len(r.tries) > 0 {
		if r.kind == relaxed && w.now.Sub(r.startAt) >= modelHedge {
			r.hedge()
		}
		return
	}
	v, pub := r.look()
	switch a := r.tail.next(v); a.kind {
	case doRead:
		r.begin(relaxed)
		if i := r.here.pick(a.whom, a.path, -1, &r.late, w.now, 1, uint64(w.choose(60, "replica"))); i >= 0 {
			r.ask(i, pub)
		}
	case doQuorum:
		r.begin(quorum)
		for i := range r.here.full {
			r.ask(i, pub)
		}
	case doDurable:
		r.durable(a)
	case doStat:
		if w.broken != neverDurable && r.f.claimStat(w.now, v.blind) && !w.store.away {
			r.f.info(durable.Info{Incarnation: modelIncarnation, Length: uint64(len(w.store.log))})
		}
	}
}

func (r *modelReader) begin(k raceKind) { r.kind, r.race, r.startAt = k, verdict{}, r.w.now }

func (r *modelReader) ask(i int, pub published) {
	rep := &r.here.replicas[i]
	node := r.m.numbers[rep.node]
	id := r.w.send(r, node, readRequest{r.tail.pos / modelExtent})
	r.tries = append(r.tries, &try{node, id, r.w.now, pub, rep.partial})
}

// hedge is Reader.hedge.
func (r *modelReader) hedge() {
	r.kind = hedged
	first := r.tries[0]
	r.look()
	but, others := -1, r.here.full
	for i := range r.here.replicas {
		if r.m.numbers[r.here.replicas[i].node] == first.node {
			but = i
			if i < r.here.full {
				others--
			}
		}
	}
	who := anyReplica
	if others > 0 {
		who = fullReplica
	}
	if i := r.here.pick(who, 0, but, &r.late, r.w.now, 1, uint64(r.w.choose(60, "hedge"))); i >= 0 && i != but {
		r.ask(i, first.pub)
	}
}

// ended takes that a try has brought nothing, and when it was the last one what
// they mean together.
func (r *modelReader) ended(t *try, why reason) {
	r.tries = slices.DeleteFunc(r.tries, func(x *try) bool { return x == t })
	lacks := why == reasonHole || why == reasonShort
	if lacks {
		r.late.lacked(r.peers[t.node], r.w.now)
	}
	if lacks && t.partial {
		r.tail.partialMissed()
		r.race.partial++
	} else {
		r.race.add(why)
	}
	if lacks && r.w.broken == coldAfterOneHole {
		r.tail.cold, r.tries = true, nil
		return
	}
	if len(r.tries) > 0 {
		return
	}
	v, _ := r.look()
	switch {
	case r.kind == quorum:
		r.tail.quorumFailed(v, r.race.why(), r.race.holes)
	case r.race != verdict{partial: r.race.partial}:
		r.tail.failed(v, r.race.why())
	}
}

func (r *modelReader) durable(a action) {
	w := r.w
	if w.noDurable {
		w.fail("the store is read from %d to %d: %v", a.from, a.to, r)
	}
	end := min(int(a.to), len(w.store.log))
	if w.store.away || w.broken == neverDurable || end <= int(r.tail.pos) {
		r.tail.durableFailed(w.now)
		return
	}
	r.deliver(w.store.log[r.tail.pos:end], FromDurable)
}

// take is the answer to a request.
func (r *modelReader) take(node, id int, body any) {
	via := r.path(node)
	if id == r.polled {
		r.polled = 0
		if page, ok := body.(pageReply); ok {
			via.worked()
			r.entry(node, page.entry)
		} else {
			via.failed(r.w.now, syscall.ECONNRESET)
		}
		return
	}
	i := slices.IndexFunc(r.tries, func(t *try) bool { return t.id == id })
	if i < 0 {
		return // it has lost its race
	}
	t := r.tries[i]
	got, ok := body.(readReply)
	if !ok {
		r.ended(t, via.failed(r.w.now, syscall.ECONNRESET))
		return
	}
	data, why := r.prove(t, got)
	if len(data) == 0 {
		r.ended(t, why)
		return
	}
	r.tries = nil
	via.worked()
	r.late.served(r.peers[node])
	r.deliver(data, FromTCP)
}

// entry takes a shard entry of one replica. An absent page is asked for elsewhere,
// at once.
func (r *modelReader) entry(node int, e layout.Entry) {
	if e.Incarnation == 0 {
		bits, reachable := uint64(0), uint64(0)
		for i, n := range r.m.page {
			if n == node {
				bits |= 1 << i
			}
			if r.peers[n].up(r.w.now) {
				reachable |= 1 << i
			}
		}
		r.f.missed(bits, reachable)
		if r.absent++; r.absent < len(r.m.page) {
			r.poll()
			return
		}
		r.absent = 0
		return
	}
	r.absent = 0
	r.f.entry(e, r.w.now)
	if r.w.broken == anyBeat && e.HeartbeatMS != r.beat {
		r.beat = e.HeartbeatMS
		r.f.mu.beatAt = r.w.now
	}
}

// prove returns the leading bytes from the position on that a CRC covers.
func (r *modelReader) prove(t *try, got readReply) (data []byte, why reason) {
	if got.hole {
		return nil, reasonHole
	}
	pos, length := r.position(), int(t.pub.length)
	for first := pos; pos < length && pos/modelExtent == first/modelExtent; {
		chunk := pos / modelChunk
		start, end := chunk*modelChunk, min((chunk+1)*modelChunk, length)
		c := got.chunks[chunk%len(got.chunks)]
		if len(c.data) < end-start {
			return data, reasonShort
		}
		prefix := c.data[:end-start]
		right := c.valid == modelChunk && r.w.crc(uint64(chunk), prefix) == c.crc
		if end == length {
			right = r.w.crc(uint64(chunk), prefix) == t.pub.tailCRC
		}
		if !right && r.w.broken != unprovenBytes {
			return data, reasonTorn
		}
		data = append(data, prefix[pos-start:]...)
		pos = end
	}
	return data, proven
}

// deliver hands bytes out: each must be the one that was appended there.
func (r *modelReader) deliver(data []byte, from Source) {
	log, pos := r.w.store.log, r.position()
	if end := pos + len(data); end > len(log) || !bytes.Equal(data, log[pos:end]) {
		r.w.fail("delivered %v at %d from %v, appended was %v", data, pos, from, log[pos:min(end, len(log))])
	}
	r.tail.delivered(len(data), from)
	r.w.by[from] += len(data)
	r.last = from
}
