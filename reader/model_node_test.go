package reader

import (
	"bytes"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// modelNode is two tables reduced to maps, a ballot, and what can go wrong with it.
type modelNode struct {
	w      *world
	number int
	epoch  int

	extents map[uint64]*modelSlot
	entry   layout.Entry
	ballot  ballot
	until   time.Time // of the lease

	down, frozen bool
	cut          [2]bool // from writers, from readers
}

// modelSlot is an extent: the valid prefix of each of its chunks.
type modelSlot [modelExtent / modelChunk][]byte

// ballot is a writer's claim on the shard; zero is none.
type ballot struct{ sequence, nonce int }

func (b ballot) less(c ballot) bool {
	return b.sequence < c.sequence || b.sequence == c.sequence && b.nonce < c.nonce
}

const modelLease = 10 * time.Second

// Requests and their replies.
type (
	putRequest struct {
		chunk uint64
		from  int
		crc   uint32 // of the prefix [0, from+len(data))
		data  []byte
	}
	putReply struct {
		ok    bool // else the chunk is wanted from its start
		epoch int
	}
	publishRequest struct {
		entry  layout.Entry
		ballot ballot
	}
	publishReply struct {
		ok    bool // else a newer writer has the shard
		epoch int
	}
	leaseRequest struct{ ballot ballot } // zero: only asks for the one held
	leaseReply   struct {
		granted bool
		held    ballot
		epoch   int
	}
	pageRequest struct{}
	pageReply   struct{ entry layout.Entry }
	readRequest struct{ extent uint64 }
	readReply   struct {
		hole   bool
		chunks [modelExtent / modelChunk]modelCopy
	}
	// modelCopy is a chunk as it was read, with its descriptor.
	modelCopy struct {
		data  []byte
		valid int
		crc   uint32
	}
)

func (n *modelNode) handle(body any) any {
	switch q := body.(type) {
	case putRequest:
		return putReply{n.put(q), n.epoch}
	case publishRequest:
		return publishReply{n.publish(q), n.epoch}
	case leaseRequest:
		return n.lease(q)
	case pageRequest:
		return pageReply{n.entry}
	case readRequest:
		return n.read(q)
	}
	panic("a request of no kind")
}

// put follows chunkstore.Arena: bytes behind the held prefix are taken, the same
// bytes again are fine, others replace the chunk if they come from its start.
func (n *modelNode) put(q putRequest) bool {
	slot := n.extents[q.chunk*modelChunk/modelExtent]
	if slot == nil {
		if q.from > 0 {
			return false
		}
		slot = new(modelSlot)
		n.extents[q.chunk*modelChunk/modelExtent] = slot
	}
	held := &slot[q.chunk%uint64(len(slot))]
	have, end := len(*held), q.from+len(q.data)
	switch {
	case q.from > have:
		return false
	case end <= have && bytes.Equal((*held)[q.from:end], q.data):
		return true
	case end > have && bytes.Equal((*held)[q.from:], q.data[:have-q.from]):
		grown := append(bytes.Clone((*held)[:q.from]), q.data...)
		if n.w.crc(q.chunk, grown) == q.crc {
			*held = grown
			return true
		}
	}
	if q.from > 0 {
		return false
	}
	*held = bytes.Clone(q.data)
	return true
}

// crc is that of a prefix of a chunk.
func (w *world) crc(chunk uint64, prefix []byte) uint32 {
	return layout.ExtendCRC(layout.SeedCRC(w.hash, chunk), prefix)
}

func (n *modelNode) leased() bool { return n.ballot != ballot{} && n.w.now.Before(n.until) }

// publish keeps the greatest length, and refuses who has lost the shard.
func (n *modelNode) publish(q publishRequest) bool {
	older := q.ballot.less(n.ballot)
	if q.ballot == (ballot{}) {
		older = n.leased()
	}
	if older && n.w.broken != staleBallots {
		return false
	}
	if q.ballot.less(n.w.granted[n.number]) && q.ballot != (ballot{}) {
		n.w.fail("node %d takes what a writer of ballot %v publishes, and has granted %v", n.number, q.ballot, n.w.granted[n.number])
	}
	if int(q.entry.Length) > len(n.w.store.log) {
		n.w.fail("a length of %d is published, %d bytes are durable", q.entry.Length, len(n.w.store.log))
	}
	if n.ballot.less(q.ballot) {
		n.ballot = q.ballot
	}
	n.until = n.w.now.Add(modelLease)
	if e := q.entry; e.Length < n.entry.Length {
		n.entry.HeartbeatMS = e.HeartbeatMS
		n.entry = n.entry.Seal(n.w.hash)
	} else {
		n.entry = e
	}
	return true
}

func (n *modelNode) lease(q leaseRequest) leaseReply {
	if q.ballot == (ballot{}) || !n.ballot.less(q.ballot) {
		return leaseReply{held: n.ballot, epoch: n.epoch, granted: q.ballot != ballot{} && q.ballot == n.ballot}
	}
	n.ballot, n.until = q.ballot, n.w.now.Add(modelLease)
	n.w.granted[n.number] = q.ballot
	return leaseReply{granted: true, held: n.ballot, epoch: n.epoch}
}

func (n *modelNode) read(q readRequest) readReply {
	slot := n.extents[q.extent]
	if slot == nil {
		return readReply{hole: true}
	}
	var r readReply
	for i, prefix := range slot {
		chunk := q.extent*uint64(len(slot)) + uint64(i)
		r.chunks[i] = modelCopy{data: bytes.Clone(prefix), valid: len(prefix), crc: n.w.crc(chunk, prefix)}
	}
	return r
}

// evict drops one extent.
func (n *modelNode) evict() {
	most := uint64(0)
	for e := range n.extents {
		most = max(most, e)
	}
	if len(n.extents) > 0 {
		delete(n.extents, uint64(n.w.choose(int(most)+1, "extent")))
	}
}

// mends is how many kinds of trouble are the end of it.
const mends = 3

// suffer is one of ten kinds of trouble.
func (n *modelNode) suffer(kind int) {
	switch kind {
	case 0, 1, 2:
		n.mend()
	case 3:
		n.kill()
	case 4:
		n.frozen = !n.frozen
	case 5, 6:
		n.cut[kind-5] = !n.cut[kind-5]
	case 7: // a message of the node is lost: its connection stalls for ever
		if i := n.anyMessage(); i >= 0 {
			n.w.net = append(n.w.net[:i], n.w.net[i+1:]...)
		}
	case 8, 9: // what was read of it is torn; else a request arrives twice
		for _, m := range n.w.net {
			if r, ok := m.body.(readReply); ok && m.node == n.number {
				m.body = r.torn(n.w)
				return
			}
		}
		if i := n.anyMessage(); i >= 0 && !n.w.net[i].reply {
			m := *n.w.net[i]
			n.w.net = append(n.w.net, &m)
		}
	}
}

// torn returns the reply with a wrong byte in every chunk.
func (r readReply) torn(w *world) readReply {
	for i := range r.chunks {
		if c := &r.chunks[i]; len(c.data) > 0 {
			c.data = bytes.Clone(c.data)
			c.data[w.choose(len(c.data), "torn")] ^= 0x80
		}
	}
	return r
}

// anyMessage returns the index of one of the node's messages; negative: none.
func (n *modelNode) anyMessage() int {
	var of []int
	for i, m := range n.w.net {
		if m.node == n.number {
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return -1
	}
	return of[n.w.choose(len(of), "message")]
}

// kill ends the node: what it held is gone, and so are its connections.
func (n *modelNode) kill() {
	*n = modelNode{w: n.w, number: n.number, epoch: n.epoch + 1, extents: map[uint64]*modelSlot{}, down: true}
	n.w.granted[n.number] = ballot{}
	for _, m := range n.w.net {
		if m.node == n.number {
			m.reply, m.body = true, reset{}
		}
	}
}

// mend brings the node back, empty if it was killed.
func (n *modelNode) mend() { n.down, n.frozen, n.cut = false, false, [2]bool{} }
