package reader

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// modelReader follows the shard. What it knows of the shard is the real follow,
// what is missing for how long the real lagQueue.
type modelReader struct {
	w    *world
	f    *follow
	pos  int
	lag  lagQueue
	last Source // of the last delivery

	polled   int // the page request under way; 0: none
	polledAt time.Time
	pollTo   int // the replica it went to
	turn     int
	absent   int      // replicas in a row that had no page
	beats    []uint64 // of the replicas, as last seen
	beat     uint64
	blind    bool
	rests    []time.Time // of nodes
	tries    []*try      // under way: the first and its hedge
	holes    []int       // nodes that had nothing at pos
	memoryAt time.Time
	storeAt  time.Time
}

// try is a read of one replica.
type try struct {
	node, id int
	at       time.Time
	pos      int
	pub      published
}

const (
	modelHedge       = 30 * time.Millisecond
	modelReadTimeout = 250 * time.Millisecond
	modelRest        = 200 * time.Millisecond
	modelDelay       = time.Second
)

func newModelReader(w *world) *modelReader {
	return &modelReader{w: w, f: newFollow(w.shard, modelIncarnation), rests: make([]time.Time, len(w.nodes)), turn: w.choose(3, "turn"), beats: make([]uint64, len(w.nodes))}
}

func (r *modelReader) side() side    { return ofReaders }
func (r *modelReader) position() int { return r.pos }

func (r *modelReader) String() string {
	v, _ := r.f.view(r.w.now, 1, r.blind)
	return fmt.Sprintf("reader at %d, length %d, stored %d, blind %v, holes %v, %d tries, lag %v", r.pos, v.length, v.stored, r.blind, r.holes, len(r.tries), r.lag.seen)
}

// seek goes back to the shard's beginning.
func (r *modelReader) seek() {
	r.pos, r.lag, r.tries, r.holes, r.memoryAt = 0, lagQueue{}, nil, nil, time.Time{}
}

// poll asks one replica of the length page, any.
func (r *modelReader) poll() {
	if r.polled != 0 {
		if r.w.now.Sub(r.polledAt) < modelReadTimeout {
			return
		}
		r.rest(r.pollTo)
		r.polled = 0
	}
	all := slices.Clone(r.w.page.All())
	up := slices.DeleteFunc(all, func(n uint16) bool { return r.w.now.Before(r.rests[n]) })
	if r.blind = len(up) == 0; r.blind {
		return
	}
	r.turn++ // the real choice is random: in turn is as fair, and cannot be unlucky for ever
	r.pollTo = int(up[r.turn%len(up)])
	r.polled, r.polledAt = r.w.send(r, r.pollTo, pageRequest{}), r.w.now
}

// step is one decision.
func (r *modelReader) step() {
	w := r.w
	for i := 0; i < len(r.tries); {
		if t := r.tries[i]; w.now.Sub(t.at) >= modelReadTimeout {
			r.rest(t.node)
			r.tries = slices.Delete(r.tries, i, i+1)
			continue
		}
		i++
	}
	v, pub := r.f.view(w.now, 1, r.blind)
	end := max(v.length, v.stored)
	r.lag.delivered(uint64(r.pos))
	if end > uint64(r.pos) {
		r.lag.observe(w.now, end)
	}
	switch due := r.lag.dueAt(modelDelay); {
	case uint64(r.pos) < v.length && len(r.tries) > 0:
		if len(r.tries) == 1 && w.now.Sub(r.tries[0].at) >= modelHedge {
			r.read(pub, r.tries[0].node)
		}
		return
	case uint64(r.pos) < v.length && !w.now.Before(r.memoryAt) && r.read(pub, -1):
		return
	case w.now.Before(r.storeAt) || w.broken == neverDurable:
	case uint64(r.pos) < v.length && r.cold(), !due.IsZero() && !w.now.Before(due):
		r.durable(int(end))
		return
	}
	if !v.statAt.IsZero() && !w.now.Before(v.statAt) && r.f.claimStat(w.now, r.blind) && !w.store.away {
		r.f.info(durable.Info{Incarnation: modelIncarnation, Length: uint64(len(w.store.log))})
	}
}

// read asks a replica of the extent at pos that is not yet known to lack it.
func (r *modelReader) read(pub published, not int) bool {
	set := r.w.extent(uint64(r.pos / modelExtent))
	var may []int
	for _, n := range set.All() {
		if int(n) != not && !slices.Contains(r.holes, int(n)) && !r.w.now.Before(r.rests[n]) {
			may = append(may, int(n))
		}
	}
	if len(may) == 0 || r.w.broken == coldAfterOneHole && len(r.holes) > 0 {
		return false
	}
	node := may[r.w.choose(len(may), "replica")]
	id := r.w.send(r, node, readRequest{uint64(r.pos / modelExtent)})
	r.tries = append(r.tries, &try{node, id, r.w.now, r.pos, pub})
	return true
}

// cold says whether every full replica that can be reached lacks what is at pos.
func (r *modelReader) cold() bool {
	if len(r.holes) == 0 {
		return false
	}
	for _, n := range r.w.extent(uint64(r.pos / modelExtent)).Full() {
		if !slices.Contains(r.holes, int(n)) && !r.w.now.Before(r.rests[n]) {
			return r.w.broken == coldAfterOneHole
		}
	}
	return true
}

func (r *modelReader) durable(end int) {
	w := r.w
	if w.store.away {
		r.storeAt = w.now.Add(50 * time.Millisecond)
		return
	}
	if w.noDurable {
		w.fail("the store is read at %d of %d: %v", r.pos, end, r)
	}
	if end = min(end, len(w.store.log)); end > r.pos {
		r.deliver(w.store.log[r.pos:end], FromDurable)
	}
}

// entry takes a shard entry of one replica. Only a beat that is new to that replica
// is a sign of life: replicas that were left behind differ for ever.
func (r *modelReader) entry(node int, e layout.Entry) {
	if e.HeartbeatMS != r.beats[node] || r.w.broken == anyBeat {
		r.beats[node] = e.HeartbeatMS
		r.beat++
	}
	if r.w.broken != anyBeat {
		e.HeartbeatMS = r.beat
	}
	r.f.entry(e.Seal(r.w.hash), r.w.now)
}

func (r *modelReader) rest(node int) { r.rests[node] = r.w.now.Add(modelRest) }

func (r *modelReader) take(node, id int, body any) {
	if page, ok := body.(pageReply); ok && id == r.polled {
		r.polled = 0
		if page.entry.Incarnation != 0 {
			r.entry(node, page.entry)
			r.absent = 0
		} else if r.absent++; r.absent < len(r.w.page.All()) {
			r.poll() // an absent page is asked for elsewhere, at once
		} else {
			r.absent = 0
		}
		return
	}
	if id == r.polled {
		r.polled = 0
		r.rest(node)
		return
	}
	i := slices.IndexFunc(r.tries, func(t *try) bool { return t.id == id })
	if i < 0 {
		return
	}
	t := r.tries[i]
	r.tries = slices.Delete(r.tries, i, i+1)
	got, ok := body.(readReply)
	switch {
	case !ok:
		r.rest(node)
	case t.pos != r.pos: // the hedge was faster
	default:
		if data, torn := r.prove(t, got); len(data) > 0 {
			r.tries = nil
			r.deliver(data, FromTCP)
		} else if torn {
			r.memoryAt = r.w.now.Add(2 * time.Millisecond)
		} else {
			r.holes = append(r.holes, node)
		}
	}
}

// prove returns the leading bytes from the try's position on that a CRC covers.
func (r *modelReader) prove(t *try, got readReply) (data []byte, torn bool) {
	if got.hole {
		return nil, false
	}
	length := int(t.pub.length)
	for pos := t.pos; pos < length && pos/modelExtent == t.pos/modelExtent; {
		chunk := pos / modelChunk
		start, end := chunk*modelChunk, min((chunk+1)*modelChunk, length)
		c := got.chunks[chunk%len(got.chunks)]
		if len(c.data) < end-start {
			return data, false
		}
		prefix := c.data[:end-start]
		right := c.valid == modelChunk && r.w.crc(uint64(chunk), prefix) == c.crc
		if end == length {
			right = r.w.crc(uint64(chunk), prefix) == t.pub.tailCRC
		}
		if !right && r.w.broken != unprovenBytes {
			return data, true
		}
		data = append(data, prefix[pos-start:]...)
		pos = end
	}
	return data, false
}

// deliver hands bytes out: each must be the one that was appended there.
func (r *modelReader) deliver(data []byte, from Source) {
	log := r.w.store.log
	if end := r.pos + len(data); end > len(log) || !bytes.Equal(data, log[r.pos:end]) {
		r.w.fail("delivered %v at %d from %v, appended was %v", data, r.pos, from, log[r.pos:min(end, len(log))])
	}
	r.pos += len(data)
	r.w.by[from] += len(data)
	r.last, r.holes, r.memoryAt = from, nil, time.Time{}
}
