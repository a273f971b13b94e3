package producer

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// The masks of a slot have a bit for each replica.
var _ [16 - cluster.MaxReplicas]struct{}

// keepBytes is how large a round's memory may be to be kept for another.
const keepBytes = 1<<20 + 64<<10

// round is one Put, publication or lease request on its way to the nodes. The
// caller waits until each slot is decided; the nodes that it does not wait for
// go on without it, with the round's own copy of the bytes. It goes back to the
// pool when the last of them is done.
type round struct {
	c     *ReplicaCache
	shard *recent // of OpPut and OpPublish
	op    wire.Op
	puts  []layout.Put // of OpPut: one for each slot, with their bytes in buf
	buf   []byte
	// Of OpPublish and OpLease: the request, its shard's name, and the payload.
	publication layout.Publication
	lease       wire.Lease
	name, head  []byte
	// repairs: what fails is a gap already.
	repairs bool

	began   time.Time
	timer   *time.Timer
	done    chan struct{} // capacity 1: every slot is decided
	touched []*node       // to which something was given that is not sent yet
	refs    atomic.Int32  // the caller, and each task that is not settled

	mu struct {
		sync.Mutex
		slots []slot
		open  int // slots that are not decided
		// replies of OpLease, by replica.
		replies [cluster.MaxReplicas]wire.LeaseReply
	}
}

// slot is the outcome of one put, or of the whole round if it is not of puts.
type slot struct {
	replicas
	quorum int
	// settled and ok have a bit for each replica.
	settled, ok uint16
	// strict: less than the quorum is a failure, however few are alive.
	strict  bool
	decided bool
	err     error // of the first full replica that failed
	lease   error // a replica's refusal for a newer ballot
}

// replicas are indices into a topology's nodes: full replicas first.
type replicas struct {
	nodes     [cluster.MaxReplicas]uint16
	full, all uint8
}

func replicasOf(set *cluster.Replicas) (r replicas) {
	r.full, r.all = uint8(len(set.Full())), uint8(copy(r.nodes[:], set.All()))
	return r
}

// outcome is what became of a slot.
type outcome int

const (
	taken    outcome = iota // by a quorum
	degraded                // by all full replicas that live, fewer than the quorum
	failed
)

// relied is the mask of the full replicas.
func (s *slot) relied() uint16 { return 1<<s.full - 1 }

// settle notes a replica's answer and reports whether that decides the slot: a
// quorum has taken it, or nothing more will come.
func (s *slot) settle(replica int, err error) bool {
	bit := uint16(1) << replica
	s.settled |= bit
	switch {
	case err == nil:
		s.ok |= bit
	case bit&s.relied() != 0 && s.err == nil:
		s.err = err
	}
	if errors.Is(err, wire.ErrLease) {
		s.lease = err
	}
	if s.decided {
		return false
	}
	s.decided = bits.OnesCount16(s.ok&s.relied()) >= s.quorum || s.settled&s.relied() == s.relied()
	return s.decided
}

// outcome is that of a slot which is decided, or whose time is up.
func (s *slot) outcome() outcome {
	n := bits.OnesCount16(s.ok & s.relied())
	switch {
	case n >= s.quorum:
		return taken
	case n > 0 && !s.strict && s.lease == nil:
		return degraded
	}
	return failed
}

// late are the full replicas that have not answered.
func (s *slot) late() uint16 { return s.relied() &^ s.settled }

// fault is the error of a slot that failed.
func (s *slot) fault(op wire.Op, waited time.Duration) error {
	switch {
	case s.lease != nil:
		return s.lease
	case s.err != nil:
		return fmt.Errorf("%v by %d of %d replicas, %d needed: %w", op, bits.OnesCount16(s.ok&s.relied()), s.full, s.quorum, s.err)
	}
	return fmt.Errorf("%v by %d of %d replicas, %d needed, after %v: %w", op, bits.OnesCount16(s.ok&s.relied()), s.full, s.quorum, waited, errNodeSlow)
}

// round takes one from the pool.
func (c *ReplicaCache) round(s *recent, op wire.Op) *round {
	r, _ := c.rounds.Get().(*round)
	if r == nil {
		r = &round{c: c, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		r.timer.Stop()
	}
	r.shard, r.op, r.began = s, op, time.Now()
	r.refs.Store(1)
	return r
}

// release lets go of the round.
func (r *round) release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	if cap(r.buf) > keepBytes {
		return // for the garbage collector: batches of that size are rare
	}
	clear(r.puts)
	clear(r.mu.slots)
	clear(r.mu.replies[:])
	clear(r.touched)
	r.shard, r.repairs = nil, false
	r.puts, r.buf, r.head, r.mu.slots, r.touched = r.puts[:0], r.buf[:0], r.head[:0], r.mu.slots[:0], r.touched[:0]
	select { // decided in the moment when the caller gave up
	case <-r.done:
	default:
	}
	r.c.rounds.Put(r)
}

// copy makes the puts the round's own.
func (r *round) copy(puts []layout.Put) {
	need := 0
	for i := range puts {
		need += max(len(puts[i].Whole), len(puts[i].Data))
	}
	if cap(r.buf) < need {
		r.buf = make([]byte, 0, need)
	}
	for _, p := range puts {
		at := len(r.buf)
		if p.Whole != nil {
			r.buf = append(r.buf, p.Whole...)
			p.Whole = r.buf[at:len(r.buf):len(r.buf)]
			p.Data = p.Whole[p.From:]
		} else {
			r.buf = append(r.buf, p.Data...)
			p.Data = r.buf[at:len(r.buf):len(r.buf)]
		}
		r.puts = append(r.puts, p)
	}
}

// send offers every slot to its replicas, the nodes elsewhere first, so that
// they work while those of this process do.
func (r *round) send(top *topology) {
	slots := r.mu.slots // all of them are there: only their contents change from now on
	r.mu.open = len(slots)
	for i := range slots {
		for j, at := range slots[i].nodes[:slots[i].all] {
			if n := top.nodes[at]; n.local == nil {
				r.refs.Add(1)
				if n.offer(task{r: r, slot: int32(i), replica: int16(j), full: j < int(slots[i].full)}) && !slices.Contains(r.touched, n) {
					r.touched = append(r.touched, n)
				}
			}
		}
	}
	for _, n := range r.touched {
		n.flush()
	}
	for i := range slots {
		for j, at := range slots[i].nodes[:slots[i].all] {
			if n := top.nodes[at]; n.local != nil {
				r.refs.Add(1)
				n.direct(task{r: r, slot: int32(i), replica: int16(j), full: j < int(slots[i].full)})
			}
		}
	}
}

// settle notes the answer of a task's replica, and lets go of the round.
func (r *round) settle(t task, err error) {
	r.mu.Lock()
	if r.mu.slots[t.slot].settle(int(t.replica), err) {
		if r.mu.open--; r.mu.open == 0 {
			r.done <- struct{}{}
		}
	}
	r.mu.Unlock()
	r.release()
}

// await waits until every slot is decided. Nodes that have not answered in time
// are suspended: nobody waits for them again before they have come back.
func (r *round) await(top *topology) {
	select {
	case <-r.done:
		return
	default:
	}
	r.timer.Reset(time.Until(r.began.Add(r.c.cfg.Timeout)))
	select {
	case <-r.done:
		r.timer.Stop()
		return
	case <-r.timer.C:
	}
	var slow [cluster.MaxReplicas]*node
	n := 0
	r.mu.Lock()
	for i := range r.mu.slots {
		s := &r.mu.slots[i]
		for late := s.late(); late != 0 && !s.decided; late &= late - 1 {
			if at := top.nodes[s.nodes[bits.TrailingZeros16(late)]]; n < len(slow) {
				slow[n] = at
				n++
			}
		}
	}
	r.mu.Unlock()
	for _, n := range slow[:n] {
		n.trip(fmt.Errorf("%v: %w", r.op, errNodeSlow))
	}
}
