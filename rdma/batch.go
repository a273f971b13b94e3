package rdma

import (
	"fmt"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Batch is a set of one-sided reads that are posted in one call and waited for
// together. The reads of a batch have no order among themselves, nor do the
// bytes inside one of them.
//
// Life: Add..., Post, Wait or Await (or Do for both), use the slices, Reset, and again;
// at last Release. One goroutine at a time may use a Batch; the batches of one
// Conn may be used at once.
//
// The slices that Add returns are registered memory that the device writes. They
// hold the peer's bytes from a Wait that returned nil until Reset or Release,
// also when the Conn is closed meanwhile.
type Batch struct {
	e        *engine
	s        *slot // nil once released
	deadline time.Time
	posted   bool // since the last Reset, and not waited for yet
}

// NewBatch returns a batch with destination memory of size bytes, 1 to
// MaxBatchBytes. The memory counts against Config.BufferBytes, as the next power
// of two from 4 KiB on, until the batch is released and its reads have settled.
//
// Errors: ErrBatchSize, ErrNoBuffers, or why the connection is lost.
func (c *Conn) NewBatch(size int) (*Batch, error) {
	s, err := c.e.newSlot(size)
	if err != nil {
		return nil, err
	}
	return &Batch{e: c.e, s: s}, nil
}

// Add plans one read of n bytes at offset off of the peer's memory. It returns
// the n bytes where they will land, which begin 8-byte aligned, or nil when the
// range is not inside the memory, or the batch is full: MaxReads reads, or no n
// bytes left.
func (b *Batch) Add(off uint64, n int) []byte {
	s := b.s
	if s == nil || b.posted || n <= 0 || len(s.reads) == MaxReads {
		return nil
	}
	if off > b.e.length || uint64(n) > b.e.length-off {
		return nil
	}
	start := (s.used + 7) &^ 7
	if start > s.size || n > s.size-start {
		return nil
	}
	s.used = start + n
	s.reads = append(s.reads, ibverbs.Read{
		Remote: b.e.base + off,
		Local:  uint64(s.off + start),
		Length: uint32(n),
	})
	return s.block[start : start+n : start+n]
}

// Post starts all planned reads, in one call to the device, and does not wait
// for them. When other batches fill the send queue it waits for room until the
// deadline. The deadline is also that of the Wait that follows.
//
// Errors: one that matches os.ErrDeadlineExceeded, and then nothing was started
// and the batch is as before; ErrReleased, ErrInFlight; or why the connection is
// lost, and then only Release may follow.
func (b *Batch) Post(deadline time.Time) error { return b.post(deadline, goOn) }

// PostSpin is Post that stays for as long as a Wait would spin: when the answer
// comes soon, posting and waiting need one call to the device. It looks at the
// deadline only when it has to wait for room: reads whose deadline has passed are
// started too.
func (b *Batch) PostSpin(deadline time.Time) error { return b.post(deadline, untilDone) }

// Do is PostSpin and Wait.
func (b *Batch) Do(deadline time.Time) error {
	if err := b.PostSpin(deadline); err != nil {
		return err
	}
	if b.posted && b.s.over { // the Wait of most batches, without asking anybody
		b.posted = b.s.outcome != nil
		return b.s.outcome
	}
	return b.Wait()
}

func (b *Batch) post(deadline time.Time, stay staying) error {
	switch {
	case b.s == nil:
		return ErrReleased
	case b.posted:
		return ErrInFlight
	case len(b.s.reads) == 0:
		return nil
	}
	b.deadline = deadline
	if err := b.e.post(b.s, deadline, stay); err != nil {
		return err
	}
	b.posted = true
	return nil
}

// Wait waits until every read has settled, or the deadline of Post. On nil every
// slice is filled.
//
// An error that matches os.ErrDeadlineExceeded says that the batch is abandoned:
// only Release may follow, and its memory is used again only when the device has
// let go of it. Any other error is why the connection is lost: the first failed
// read of all batches, a *CompletionError. Decide says what to do next.
func (b *Batch) Wait() error {
	switch {
	case b.s == nil:
		return ErrReleased
	case !b.posted:
		return nil
	}
	if err := b.e.wait(b.s, b.deadline); err != nil {
		return err // still posted if it was abandoned
	}
	b.posted = false
	return nil
}

// Await is Wait that leaves at a time, before the deadline of Post, without giving
// anything up. settled is false when reads are still on their way: the batch is
// as before, to be waited for again.
func (b *Batch) Await(until time.Time) (settled bool, err error) {
	if b.s == nil || !b.posted || !until.Before(b.deadline) {
		return true, b.Wait()
	}
	if !b.e.await(b.s, until) {
		return false, nil
	}
	if err := b.e.result(b.s); err != nil {
		return true, err
	}
	b.posted = false
	return true, nil
}

// Reset forgets the planned reads and keeps the memory. The slices that Add
// returned die. It panics when the batch may be in flight: posted and not waited
// for, or abandoned.
func (b *Batch) Reset() {
	if b.s == nil {
		return
	}
	if b.posted && b.e.inFlight(b.s) {
		panic(fmt.Sprintf("rdma: Reset of a batch in flight (%d reads)", len(b.s.reads)))
	}
	b.posted = false
	b.s.used, b.s.reads = 0, b.s.reads[:0]
}

// Release gives the batch back; its slices die. It may be called at any time
// after Post returned, also twice.
func (b *Batch) Release() {
	if b.s == nil {
		return
	}
	s := b.s
	b.s = nil
	b.e.release(s)
}
