package rdma

import (
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// slot is the part of a batch that outlives it: the device may still write into
// its block after the batch was abandoned and released.
type slot struct {
	num   uint16
	gen   uint32 // of the last posting, so that a late completion cannot match
	off   int    // of the block in the slab
	order int
	block []byte

	// The batch's user's, until posted.
	size  int // bytes that the user may fill, at most the block
	used  int
	reads []ibverbs.Read

	busy    int   // READs since its user let the scheduler run
	over    bool  // the last posting had settled when post returned
	outcome error // of it

	done   chan struct{} // of capacity 1: filled when a flying slot settles whose user sleeps
	credit chan struct{} // of capacity 1: filled when a queued slot gets its credits
	timer  *time.Timer

	// Guarded by engine.mu.
	state     slotState
	n         int // READs on the queue
	next      int // those before it are settled
	err       error
	sleeps    bool      // the user waits on done, or is about to
	abandoned time.Time // since when nobody waits; zero: somebody may
	released  bool
	after     *slot // in slotList
}

type slotState uint8

const (
	planning slotState = iota
	queued             // waits for credits
	admitted           // has them
	flying             // has READs on the queue
	settled
)

// A wr_id: slot number, generation, index in the batch.
func wrID(num uint16, gen uint32, index int) uint64 {
	return uint64(num)<<48 | uint64(gen)<<16 | uint64(index)
}

func splitID(id uint64) (num uint16, gen uint32, index int) {
	return uint16(id >> 48), uint32(id >> 16), int(id & 0xffff)
}

// maxSlots is how many a wr_id can tell apart.
const maxSlots = 1 << 16

// newSlot returns a slot with a block of size bytes.
func (e *engine) newSlot(size int) (*slot, error) {
	if size < 1 || size > MaxBatchBytes {
		return nil, ErrBatchSize
	}
	order := orderFor(size)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.err != nil {
		return nil, e.mu.err
	}
	off, ok := e.mu.slab.take(order)
	if !ok {
		return nil, ErrNoBuffers
	}
	var s *slot
	switch last := len(e.mu.free) - 1; {
	case last >= 0:
		s = e.mu.free[last]
		e.mu.free = e.mu.free[:last]
	case len(e.mu.slots) == maxSlots:
		e.mu.slab.put(off, order)
		return nil, ErrNoBuffers
	default:
		s = &slot{
			num:    uint16(len(e.mu.slots)),
			done:   make(chan struct{}, 1),
			credit: make(chan struct{}, 1),
			timer:  time.NewTimer(time.Hour),
		}
		s.timer.Stop()
		e.mu.slots = append(e.mu.slots, s)
	}
	s.off, s.order, s.size = off, order, size
	s.block = e.mem[off : off+blockSize(order) : off+blockSize(order)]
	s.state, s.n, s.next, s.err, s.over = planning, 0, 0, nil, false
	s.abandoned, s.released = time.Time{}, false
	s.used, s.reads = 0, s.reads[:0]
	e.mu.held++
	return s, nil
}

// release takes the slot back from its user. Its block is free when the last
// READ into it has settled.
func (e *engine) release(s *slot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.released = true
	if s.state != flying {
		e.recycle(s)
		return
	}
	e.abandonLocked(s) // released without a Wait
}

func (e *engine) abandonLocked(s *slot) {
	if !s.abandoned.IsZero() {
		return
	}
	s.abandoned = time.Now()
	e.mu.abandoned++
	e.kickJanitor()
}

// recycle frees a slot that is released and has nothing on the queue.
func (e *engine) recycle(s *slot) {
	poison(s.block)
	e.mu.slab.put(s.off, s.order)
	s.block, s.state = nil, planning
	e.mu.free = append(e.mu.free, s)
	e.mu.held--
	e.freeIfUnused()
}

// freeIfUnused unmaps the slab once the queue pair is gone and the last batch is
// released: a batch that was read in full stays readable after a Close.
func (e *engine) freeIfUnused() {
	if !e.mu.gone || e.mu.held > 0 || e.freed == nil {
		return
	}
	freed := e.freed
	e.freed = nil
	freed()
}

// settleLocked takes one completion.
func (e *engine) settleLocked(wc *ibverbs.WC) {
	num, gen, index := splitID(wc.ID)
	if int(num) >= len(e.mu.slots) {
		e.mu.stats.Strays++
		return
	}
	s := e.mu.slots[num]
	if s.state != flying || s.gen != gen || index < s.next || index >= s.n {
		e.mu.stats.Strays++
		return
	}
	if wc.Status != ibverbs.Success {
		e.mu.stats.Errors++
		if e.mu.err == nil {
			e.failLocked(&CompletionError{Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN, Peer: e.peer})
		}
		if s.err == nil {
			s.err = e.mu.err
		}
	}
	e.advance(s, index+1)
}

// advance settles the READs of a flying slot up to next.
func (e *engine) advance(s *slot, next int) {
	k := next - s.next
	s.next = next
	e.mu.stats.Settled += uint64(k)
	e.mu.outstanding -= k
	e.mu.credits += k
	if s.next < s.n {
		return
	}
	s.state = settled
	if !s.abandoned.IsZero() {
		e.mu.abandoned--
	}
	switch {
	case s.released:
		e.recycle(s)
	case s.sleeps:
		s.sleeps = false
		s.done <- struct{}{} // room for one: whoever sets sleeps takes it
	}
}

// grantLocked gives credits to the posters that wait, in their order.
func (e *engine) grantLocked() {
	if e.mu.err != nil {
		return // they leave by e.lost
	}
	for s := e.mu.waiting.head; s != nil && len(s.reads) <= e.mu.credits; s = e.mu.waiting.head {
		e.mu.waiting.remove(s)
		e.mu.credits -= len(s.reads)
		s.state = admitted
		s.credit <- struct{}{}
	}
}

// slotList is a queue of slots, linked through slot.after.
type slotList struct{ head, tail *slot }

func (l *slotList) add(s *slot) {
	s.after = nil
	if l.tail == nil {
		l.head, l.tail = s, s
		return
	}
	l.tail.after = s
	l.tail = s
}

func (l *slotList) remove(s *slot) {
	var before *slot
	for at := l.head; at != nil; before, at = at, at.after {
		if at != s {
			continue
		}
		if before == nil {
			l.head = s.after
		} else {
			before.after = s.after
		}
		if l.tail == s {
			l.tail = before
		}
		s.after = nil
		return
	}
}

// inFlight reports whether the device may still write, or the slot was
// abandoned.
func (e *engine) inFlight(s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.state == flying || !s.abandoned.IsZero()
}
