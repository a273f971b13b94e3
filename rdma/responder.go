package rdma

import (
	"sync"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Responder serves the READs of one peer, in the device: nothing of this process
// runs for it. It is a queue pair in RTR, which answers requests and can send
// none of its own (IBA specification 1.4, section 10.3.1).
type Responder struct {
	export *Export
	x      *exportDevice
	qp     *ibverbs.QP
	once   sync.Once
	err    error
}

// newResponder returns a queue pair in INIT that counts as moving.
func (e *Export) newResponder(x *exportDevice, port int) (*Responder, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	r := &Responder{export: e, x: x}
	var err error
	if r.qp, err = queuePair(x.pd, x.cq, 1, 1); err != nil {
		return nil, err
	}
	x.responders[r] = struct{}{}
	if err := r.qp.ToInit(port, ibverbs.AccessRemoteRead); err != nil {
		delete(x.responders, r)
		_ = r.qp.Destroy() // the transition's error says more
		return nil, err
	}
	e.moving.Add(1) // here, so that Close sees it; done after the move to RTR
	return r, nil
}

// Close destroys the queue pair; READs of the peer get no answer after that. It
// may be called twice, and after the Export's Close.
func (r *Responder) Close() error {
	r.once.Do(func() {
		r.export.mu.Lock()
		defer r.export.mu.Unlock()
		r.err = r.qp.Destroy()
		delete(r.x.responders, r)
	})
	return r.err
}
