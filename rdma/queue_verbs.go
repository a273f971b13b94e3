package rdma

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// verbsQueue is the queue of real verbs: one queue pair with a protection domain,
// a completion channel and a completion queue of its own, and the memory that
// its READs land in.
type verbsQueue struct {
	pd   *ibverbs.PD
	ch   *ibverbs.Channel
	cq   *ibverbs.CQ
	qp   *ibverbs.QP
	mr   *ibverbs.MR
	rkey uint32 // of the peer's memory; set before the first post

	file *os.File // the channel in Go's netpoller
	raw  syscall.RawConn

	// take is made once, as a closure for each wait would be garbage. It leaves
	// its result in the fields after it; only one goroutine waits at a time.
	take    func(fd uintptr) bool
	took    bool
	takeErr error
}

// newVerbsQueue makes the queue pair, in INIT.
func newVerbsQueue(dev *openDevice, port, depth int, mem []byte) (q *verbsQueue, err error) {
	q = &verbsQueue{}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.destroyQP(), q.close())
			q = nil
		}
	}()
	if q.pd, err = dev.ctx.AllocPD(); err != nil {
		return q, err
	}
	if q.mr, err = dev.register(q.pd, mem, ibverbs.AccessLocalWrite); err != nil {
		return q, err
	}
	if q.ch, err = dev.ctx.CreateChannel(); err != nil {
		return q, err
	}
	if q.file, q.raw, err = pollable(q.ch.FD(), dev.name+" completions"); err != nil {
		return q, err
	}
	q.take = q.takeEvent
	// Room for every READ, signalled or not: on an error all of them complete.
	// One more for devices that count a full queue as overrun.
	if q.cq, err = dev.ctx.CreateCQ(depth+1, q.ch, dev.vector()); err != nil {
		return q, err
	}
	if q.qp, err = queuePair(q.pd, q.cq, depth, 1); err != nil {
		return q, err
	}
	// No access for the peer: it answers our READs and does nothing else.
	return q, q.qp.ToInit(port, 0)
}

func (q *verbsQueue) post(reads []ibverbs.Read, wcs []ibverbs.WC, spin time.Duration) (ibverbs.Counts, error) {
	return q.qp.PostPoll(reads, q.mr, q.rkey, q.cq, wcs, spin)
}

func (q *verbsQueue) poll(wcs []ibverbs.WC, spin time.Duration) (int, error) {
	return q.cq.Poll(wcs, spin)
}

func (q *verbsQueue) armPoll(wcs []ibverbs.WC) (int, error) { return q.cq.ArmPoll(wcs) }

func (q *verbsQueue) wait(deadline time.Time, stop *atomic.Bool) (bool, error) {
	if err := q.file.SetReadDeadline(deadline); err != nil {
		return false, fmt.Errorf("completion channel: %w", err)
	}
	if stop != nil && stop.Load() {
		return false, nil
	}
	q.took, q.takeErr = false, nil
	err := q.raw.Read(q.take)
	switch {
	case q.takeErr != nil:
		return false, q.takeErr
	case q.took, errors.Is(err, os.ErrDeadlineExceeded):
		return q.took, nil
	}
	return false, err
}

// takeEvent is called by the netpoller when the channel may be readable. False
// makes it wait for the next edge.
func (q *verbsQueue) takeEvent(uintptr) bool {
	q.took, q.takeErr = q.ch.TakeEvent()
	return q.took || q.takeErr != nil
}

var longAgo = time.Unix(1, 0)

func (q *verbsQueue) wake() { _ = q.file.SetReadDeadline(longAgo) } // fails only when closed, and then nobody waits

func (q *verbsQueue) toErr() error { return q.qp.ToErr() }

func (q *verbsQueue) destroyQP() error {
	if q.qp == nil {
		return nil
	}
	return q.qp.Destroy()
}

// close frees what is left after destroyQP: a channel with a CQ is EBUSY, and so
// is a PD with an MR.
func (q *verbsQueue) close() error {
	var errs []error
	if q.cq != nil {
		errs = append(errs, q.cq.Destroy())
	}
	if q.file != nil {
		errs = append(errs, q.file.Close())
	}
	if q.ch != nil {
		errs = append(errs, q.ch.Destroy())
	}
	if q.mr != nil {
		errs = append(errs, q.mr.Dereg())
	}
	if q.pd != nil {
		errs = append(errs, q.pd.Dealloc())
	}
	return errors.Join(errs...)
}
