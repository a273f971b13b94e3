package producer

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// windowBytes and windowTasks bound what is sent to a node and not answered. The
// rest waits here, where it can be given up.
const (
	windowBytes = 512 << 10
	windowTasks = 512
)

// task is one request to one node.
type task struct {
	r       *round
	slot    int32
	replica int16 // in the slot's set
	full    bool  // a full replica: it is counted on
	start   bool  // of a put: from the chunk's start, as the node lacks the prefix
}

// flight is a task that was sent; err is why it could not be.
type flight struct {
	task
	call *wire.Call
	err  error
	name *wire.Call // the Name that was sent before it; nil: none
}

// put is the put of a task of OpPut.
func (t task) put() layout.Put {
	p := t.r.puts[t.slot]
	if t.start {
		p, _ = p.FromStart()
	}
	return p
}

// size is what the task takes on the wire.
func (t task) size() int {
	if t.r.op == wire.OpPut {
		return wire.HeaderLen + 32 + len(t.put().Data)
	}
	return wire.HeaderLen + len(t.r.head)
}

// resend turns a put of a delta into that of the chunk from its start, if it can.
func (t *task) resend() bool {
	if t.start {
		return false
	}
	_, t.start = t.r.puts[t.slot].FromStart()
	return t.start
}

// offer takes a task in: to be sent at once, when flush is called, or later. One
// that is not taken in is settled already. sent says whether to call flush.
func (n *node) offer(t task) (sent bool) {
	size := t.size()
	n.mu.Lock()
	var err error
	switch {
	case n.mu.state > nodeLive:
		err = n.mu.reason
	case n.mu.queued > 0 && n.mu.queued+size > n.c.cfg.QueueBytes:
		err = errNodeQueue
	case n.mu.state == nodeLive && n.mu.queue.len() == 0 && n.room(size):
		n.launch(t, size)
		n.mu.Unlock()
		return true
	default:
		n.mu.queue.push(t)
		n.mu.queued += size
	}
	n.mu.Unlock()
	if err != nil {
		n.count.skipped.Add(1)
		n.settle(t, err)
	}
	return false
}

// room says whether so much more may be under way. The caller holds mu, as in
// the next two.
func (n *node) room(size int) bool {
	return n.mu.flights.len() == 0 || n.mu.flights.len() < windowTasks && n.mu.flying+size <= windowBytes
}

// launch gives a task to the connection, which is not to send it before a flush.
func (n *node) launch(t task, size int) {
	f := flight{task: t}
	deadline := time.Now().Add(n.c.cfg.Timeout)
	head, tail := t.r.head, []byte(nil)
	if t.r.op == wire.OpPut {
		p := t.put()
		req := wire.Put{ShardHash: p.Shard, Chunk: p.Chunk, CRC: p.CRC, From: uint16(p.From), Data: p.Data}
		head, f.err = req.AppendTo(n.mu.head[:0])
		tail = p.Data
		if f.err == nil {
			f.name, f.err = n.tell(t.r.shard, deadline)
		}
	}
	if f.err == nil {
		f.call, f.err = n.mu.client.Queue(deadline, t.r.op, head, tail, nil)
	}
	n.mu.flights.push(f)
	n.mu.flying += size
	if n.mu.flights.len() == 1 {
		n.poke()
	}
}

// tell says which shard a put is of, to a node that wants to know, before the first
// put of a shard on a connection. The caller holds mu.
func (n *node) tell(s *recent, deadline time.Time) (*wire.Call, error) {
	if n.mu.told == nil || s.incarnation == 0 {
		return nil, nil
	}
	if _, told := n.mu.told[s.hash]; told {
		return nil, nil
	}
	req := wire.Name{Incarnation: s.incarnation, Shard: []byte(s.name)}
	payload, err := req.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	call, err := n.mu.client.Queue(deadline, wire.OpName, payload, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(n.mu.told) >= toldMax {
		clear(n.mu.told) // it is told once more
	}
	n.mu.told[s.hash] = struct{}{}
	return call, nil
}

// toldMax bounds what is remembered of what a node was told.
const toldMax = 65536

// launchMore launches what waits, as far as there is room.
func (n *node) launchMore() {
	for n.mu.state == nodeLive && n.mu.queue.len() > 0 {
		size := n.mu.queue.front().size()
		if !n.room(size) {
			return
		}
		n.mu.queued -= size
		n.launch(n.mu.queue.shift(), size)
	}
}

// flush sends what offer has launched. It waits at most as long as the
// connection's own goroutine needs to take over.
func (n *node) flush() {
	n.mu.Lock()
	client := n.mu.client
	n.mu.Unlock()
	if client != nil {
		client.Flush(time.Now().Add(n.c.cfg.Timeout))
	}
}
