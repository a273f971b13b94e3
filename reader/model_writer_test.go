package reader

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// modelWriter is an Appender: it opens (length, lease, tail chunk), then brings one
// record after the other through: durable, put, published. It dies between any
// two of its steps.
type modelWriter struct {
	w     *world
	m     *membership
	ended string // why it writes no more; empty: it lives

	phase    phase
	deadline time.Time // of the phase
	end      int       // durable end, as far as it knows
	ballot   ballot
	highest  ballot // of those that the metadata replicas hold
	calls    map[int]*modelCall
	pieces   []piece // of the round under way
	voted    []vote  // of the phase, by node
	beatAt   time.Time
	wall     int // its clock, in ms, which may be set back

	held      []heldPart // of the tail chunk, by node
	epochs    []int      // of the nodes, as last seen
	suspended []time.Time
	missed    []missedPut
}

type phase int

const (
	phaseStat phase = iota
	phaseAsk
	phaseAcquire
	phasePut
	phasePublish
	phaseIdle
)

const (
	modelCacheTimeout = time.Second
	modelSuspension   = 2 * time.Second
	modelBeat         = time.Second
)

// modelCall is a request that is not answered yet.
type modelCall struct {
	node   int
	piece  int // index; negative: none
	chunk  uint64
	end    int
	repair bool
}

// piece is one chunk's put to all of its replicas.
type piece struct {
	chunk  uint64
	prefix []byte // the chunk from its start
	nodes  []int
	full   int // of nodes
	votes  []vote
}

type vote int

const (
	unasked vote = iota
	pending
	yes
	no
)

type heldPart struct {
	chunk uint64
	n     int
}

type missedPut struct {
	node  int
	chunk uint64
}

func newModelWriter(w *world) *modelWriter {
	n := len(w.nodes)
	w.sequences++
	return &modelWriter{w: w, m: w.views[w.current], calls: map[int]*modelCall{}, voted: make([]vote, n), held: make([]heldPart, n),
		epochs: make([]int, n), suspended: make([]time.Time, n), ballot: ballot{nonce: w.sequences}, wall: 1000 * w.choose(4, "wall clock")}
}

func (x *modelWriter) side() side { return ofWriters }

func (x *modelWriter) lives() bool { return x != nil && x.ended == "" }

func (x *modelWriter) die() {
	if x.lives() {
		x.ended = "killed"
	}
}

func (x *modelWriter) String() string {
	if x == nil {
		return "none"
	}
	return fmt.Sprintf("writer %v in phase %d at %d, ended %q, votes %v", x.ballot, x.phase, x.end, x.ended, x.voted)
}

// step is one thing that the writer does.
func (x *modelWriter) step() {
	if !x.lives() {
		return
	}
	w := x.w
	late := !w.now.Before(x.deadline)
	switch x.phase {
	case phaseStat:
		if w.store.away {
			return
		}
		x.end = len(w.store.log)
		x.ask(phaseAsk, leaseRequest{})
	case phaseAsk:
		if x.count(yes) >= x.m.MetadataQuorum || late || x.count(pending) == 0 {
			x.ballot.sequence = x.highest.sequence + 1
			x.ask(phaseAcquire, leaseRequest{x.ballot})
		}
	case phaseAcquire:
		switch {
		case x.count(no) > 0 && x.ballot.less(x.highest):
			x.ask(phaseAsk, leaseRequest{})
		case x.count(yes) >= x.m.MetadataQuorum || late || x.count(pending) == 0:
			x.refill()
		}
	case phasePut:
		if done, ok := x.put(late); done {
			if !ok { // not published; the next round has the whole chunk again
				clear(x.held)
				x.idle()
				return
			}
			x.publish()
		}
	case phasePublish:
		if x.count(yes) >= min(x.m.MetadataQuorum, max(1, x.live(x.m.page))) || late || x.count(pending) == 0 {
			if w.broken == publishBeforePut {
				for i := range x.pieces {
					x.sendPiece(i)
				}
			}
			x.idle()
		}
	case phaseIdle:
		if m := w.next(x.m); m != x.m {
			x.adopt(m)
		}
		if !w.now.Before(x.beatAt) {
			x.beat()
			return
		}
		x.repair()
	}
}

// record appends one record, if the writer is idle.
func (x *modelWriter) record() {
	if !x.lives() || x.phase != phaseIdle || !x.w.calm && len(x.w.store.log) >= modelMost || x.w.records == 255 {
		return
	}
	w := x.w
	w.records++
	p := bytes.Repeat([]byte{w.records}, 1+w.choose(2*modelChunk, "record"))
	from := x.end
	if w.broken == putBeforeDurable && !w.calm {
		x.round(from, append(bytes.Clone(w.store.log[:min(from, len(w.store.log))]), p...))
	}
	outcome := 0 // as it should be
	if (w.deaths || w.storeAway) && !w.calm {
		outcome = w.choose(4, "outcome")
	}
	switch {
	case w.store.away || outcome == 1: // refused; settled by looking
		x.phase = phaseStat
		return
	case !w.store.append(from, p):
		x.ended = "another writer has appended"
		return
	case outcome == 2: // came through, and was not answered
		x.phase = phaseStat
		return
	case outcome == 3:
		x.ended = "killed behind the append"
		return
	}
	x.end += len(p)
	if w.broken != putBeforeDurable || w.calm {
		x.round(from, w.store.log)
	}
}

// beat is what an idle writer does once a second. It looks at the store first: an
// older writer may have appended behind this one's back before it learnt that it
// had lost the lease, and a heartbeat would then hide those bytes.
func (x *modelWriter) beat() {
	if w := x.w; w.broken != blindBeats && (w.store.away || len(w.store.log) != x.end) {
		if !w.store.away {
			x.ended = "another writer has appended"
		}
		return
	}
	clear(x.suspended)
	x.refill()
}

// refill puts the whole tail chunk and publishes.
func (x *modelWriter) refill() {
	clear(x.held)
	if x.end == 0 {
		x.pieces = x.pieces[:0]
		x.publish()
		return
	}
	x.round((x.end-1)/modelChunk*modelChunk, x.w.store.log[:x.end])
}

// round puts the chunks that [from, len(log)) touches. A chunk that is full at
// from is not touched.
func (x *modelWriter) round(from int, log []byte) {
	x.pieces = nil
	for chunk := from / modelChunk; chunk*modelChunk < len(log); chunk++ {
		p := piece{chunk: uint64(chunk), prefix: bytes.Clone(log[chunk*modelChunk : min(len(log), (chunk+1)*modelChunk)])}
		r := x.m.of(p.chunk * modelChunk / modelExtent)
		p.nodes, p.full = r.all, r.full
		p.votes = make([]vote, len(p.nodes))
		x.pieces = append(x.pieces, p)
	}
	if x.w.broken == publishBeforePut && !x.w.calm {
		x.publish()
		return
	}
	for i := range x.pieces {
		x.sendPiece(i)
	}
	x.phase, x.deadline = phasePut, x.w.now.Add(modelCacheTimeout)
}

func (x *modelWriter) sendPiece(i int) {
	for j, node := range x.pieces[i].nodes {
		from := 0
		if h := x.held[node]; h.chunk == x.pieces[i].chunk {
			from = min(h.n, len(x.pieces[i].prefix)-1)
		}
		x.pieces[i].votes[j] = x.sendPut(i, node, x.pieces[i].chunk, x.pieces[i].prefix, from)
	}
}

// sendPut asks a node to take a chunk from some byte on.
func (x *modelWriter) sendPut(i, node int, chunk uint64, prefix []byte, from int) vote {
	if x.w.now.Before(x.suspended[node]) {
		x.miss(node, chunk)
		return no
	}
	id := x.w.send(x, node, putRequest{chunk, from, x.w.crc(chunk, prefix), prefix[from:]})
	x.calls[id] = &modelCall{node: node, piece: i, chunk: chunk, end: len(prefix), repair: i < 0}
	return pending
}

// put says whether the puts under way are decided, and whether the length may be
// published. Every chunk waits for its quorum, the last one decides.
func (x *modelWriter) put(late bool) (done, ok bool) {
	for i := range x.pieces {
		p := &x.pieces[i]
		for j, node := range p.nodes {
			if late && p.votes[j] == pending {
				p.votes[j] = no
				x.suspend(node)
				x.miss(node, p.chunk)
			}
		}
		got, open := 0, 0
		for _, v := range p.votes[:p.full] {
			switch v {
			case yes:
				got++
			case pending:
				open++
			}
		}
		if got >= max(1, min(x.m.Quorum, x.live(p.nodes[:p.full]))) {
			ok = true
			continue
		}
		if open > 0 {
			return false, false
		}
		ok = got > 0 // what others than these would have to say comes from the dead
	}
	return true, ok
}

// live counts the nodes that are not suspended.
func (x *modelWriter) live(nodes []int) (n int) {
	for _, node := range nodes {
		if !x.w.now.Before(x.suspended[node]) {
			n++
		}
	}
	return n
}

func (x *modelWriter) publish() {
	w := x.w
	end := x.end
	if w.broken == publishBeforePut && len(x.pieces) > 0 {
		end = len(w.store.log)
	}
	w.sequences++
	e := layout.Entry{Length: uint64(end), HeartbeatMS: uint64(x.wall + int(w.now.Sub(t0)/time.Millisecond)), Incarnation: modelIncarnation}
	if end > 0 {
		chunk := (end - 1) / modelChunk
		prefix := w.store.log[min(chunk*modelChunk, len(w.store.log)):min(end, len(w.store.log))]
		if n := len(x.pieces); n > 0 { // its own bytes, not the store's
			prefix = x.pieces[n-1].prefix
		}
		e.TailCRC = w.crc(uint64(chunk), prefix)
	}
	x.ask(phasePublish, publishRequest{e.Seal(w.hash), x.ballot})
}

// ask sends one request to every metadata replica.
func (x *modelWriter) ask(next phase, body any) {
	x.phase, x.deadline = next, x.w.now.Add(modelCacheTimeout)
	clear(x.voted)
	for _, node := range x.m.page {
		if x.w.now.Before(x.suspended[node]) {
			x.voted[node] = no
			continue
		}
		x.voted[node] = pending
		x.calls[x.w.send(x, node, body)] = &modelCall{node: node, piece: -1, end: int(next)}
	}
}

func (x *modelWriter) count(v vote) (n int) {
	for _, node := range x.m.page {
		if x.voted[node] == v {
			n++
		}
	}
	return n
}

func (x *modelWriter) idle() {
	x.phase, x.beatAt = phaseIdle, x.w.now.Add(modelBeat)
}

// take is the answer to a request.
func (x *modelWriter) take(node, id int, body any) {
	c := x.calls[id]
	delete(x.calls, id)
	if c == nil || !x.lives() {
		return
	}
	switch r := body.(type) {
	case reset:
		x.suspend(node)
		switch {
		case c.repair || c.piece >= 0:
			x.decide(c, no)
			x.miss(node, c.chunk)
		case phase(c.end) == x.phase:
			x.voted[node] = no
		}
	case putReply:
		x.life(node, r.epoch)
		if !r.ok {
			x.again(c)
			return
		}
		if h := &x.held[node]; !c.repair && (h.chunk != c.chunk || h.n < c.end) {
			*h = heldPart{c.chunk, c.end}
		}
		x.decide(c, yes)
	case publishReply:
		x.life(node, r.epoch)
		if !r.ok {
			x.ended = "lease lost"
			return
		}
		x.answered(c, node, yes)
	case leaseReply:
		x.life(node, r.epoch)
		if x.highest.less(r.held) {
			x.highest = r.held
		}
		v := yes
		if x.phase == phaseAcquire && !r.granted {
			v = no
		}
		x.answered(c, node, v)
	}
}

func (x *modelWriter) answered(c *modelCall, node int, v vote) {
	if phase(c.end) == x.phase {
		x.voted[node] = v
	}
}

// decide notes a replica's vote on a piece of the round under way.
func (x *modelWriter) decide(c *modelCall, v vote) {
	if c.piece < 0 || c.piece >= len(x.pieces) || x.pieces[c.piece].chunk != c.chunk || len(x.pieces[c.piece].prefix) != c.end {
		return
	}
	p := &x.pieces[c.piece]
	if j := slices.Index(p.nodes, c.node); j >= 0 && p.votes[j] == pending {
		p.votes[j] = v
	}
}

// again sends a chunk from its start to a node that lacks its prefix.
func (x *modelWriter) again(c *modelCall) {
	x.held[c.node] = heldPart{}
	prefix := x.w.store.log[c.chunk*modelChunk : min(len(x.w.store.log), int(c.chunk+1)*modelChunk)]
	if c.piece >= 0 && c.piece < len(x.pieces) && x.pieces[c.piece].chunk == c.chunk {
		prefix = x.pieces[c.piece].prefix
	}
	x.sendPut(c.piece, c.node, c.chunk, prefix, 0)
}

func (x *modelWriter) suspend(node int) {
	x.suspended[node] = x.w.now.Add(modelSuspension)
	x.held[node] = heldPart{}
}

func (x *modelWriter) miss(node int, chunk uint64) {
	if x.w.broken != noRepair && !slices.Contains(x.missed, missedPut{node, chunk}) {
		x.missed = append(x.missed, missedPut{node, chunk})
	}
}

// life notices a node that came back empty: it lacks all that is placed on it.
func (x *modelWriter) life(node, epoch int) {
	if was := x.epochs[node]; was != 0 && was != epoch {
		for chunk := 0; chunk*modelChunk < x.end; chunk++ {
			if slices.Contains(x.m.of(uint64(chunk*modelChunk/modelExtent)).all, node) {
				x.miss(node, uint64(chunk))
			}
		}
	}
	x.epochs[node] = epoch
}

// adopt makes another View the writer's: who holds something from now on lacks it.
func (x *modelWriter) adopt(m *membership) {
	old := x.m
	x.m = m
	for chunk := 0; chunk*modelChunk < x.end; chunk++ {
		extent := uint64(chunk * modelChunk / modelExtent)
		for _, node := range m.of(extent).all {
			if !slices.Contains(old.of(extent).all, node) {
				x.miss(node, uint64(chunk))
			}
		}
	}
	clear(x.held)
	x.beatAt = x.w.now // the page may have moved, too
}

// repair puts one chunk that a node has missed, from the durable bytes.
func (x *modelWriter) repair() {
	if x.w.store.away {
		return
	}
	for i, m := range x.missed {
		if x.w.now.Before(x.suspended[m.node]) || int(m.chunk)*modelChunk >= x.end {
			continue
		}
		x.missed = slices.Delete(x.missed, i, i+1)
		prefix := bytes.Clone(x.w.store.log[m.chunk*modelChunk : min(x.end, int(m.chunk+1)*modelChunk)])
		x.sendPut(-1, m.node, m.chunk, prefix, 0)
		return
	}
}
