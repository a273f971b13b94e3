//go:build linux && cgo && !noverbs

package ibverbs

// #cgo noescape rm_post_poll
// #cgo nocallback rm_post_poll
// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// minRNRTimer is 0.64 ms (IBA specification 1.4, table 46). READs need no
// receive buffer, so a responder of ours never sends the NAK that it times.
const minRNRTimer = 12

// QP is a queue pair of the reliable connected service.
type QP struct {
	pd    *PD
	ptr   unsafe.Pointer
	num   uint32
	state atomic.Uint32 // last state that a call of ours set, for messages
}

// CreateQP makes a queue pair in RESET, with room for maxSend and maxRecv work
// requests. Completions of work requests that succeed appear in send only where
// Read.Signaled says so.
func (pd *PD) CreateQP(send, recv *CQ, maxSend, maxRecv int) (*QP, error) {
	if pd.ptr == nil || send.ptr == nil || recv.ptr == nil {
		return nil, ErrDestroyed
	}
	qp := &QP{pd: pd}
	var num C.uint32_t
	if errno := C.rm_create_qp(pd.ptr, send.ptr, recv.ptr, C.int(maxSend), C.int(maxRecv), &qp.ptr, &num); errno != 0 {
		return nil, &Error{Op: "ibv_create_qp", On: pd.ctx.name, Errno: syscall.Errno(errno), Hint: createHint(syscall.Errno(errno))}
	}
	qp.num = uint32(num)
	return qp, nil
}

// Num returns the queue pair number, 24 bits.
func (qp *QP) Num() uint32 { return qp.num }

// ToInit moves RESET to INIT.
func (qp *QP) ToInit(port int, access Access) error {
	if qp.ptr == nil {
		return ErrDestroyed
	}
	errno := C.rm_qp_init(qp.ptr, C.int(port), C.int(access))
	return qp.moved(Init, syscall.Errno(errno), func() string {
		return fmt.Sprintf("port %d, access %#x, pkey index 0", port, int(access))
	})
}

// ToRTR moves INIT to RTR: from here on the queue pair answers requests. It can
// sleep for over a second while the kernel resolves the peer's GID.
func (qp *QP) ToRTR(a RTRAttr) error {
	if qp.ptr == nil {
		return ErrDestroyed
	}
	if hint := a.invalid(); hint != "" {
		return &ModifyError{QPN: qp.num, From: QPState(qp.state.Load()), To: RTR, Attrs: a.describe(), Errno: syscall.EINVAL, Hint: hint}
	}
	p := C.struct_rm_rtr{
		dest_qpn:           C.uint32_t(a.DestQPN),
		psn:                C.uint32_t(a.PSN),
		mtu:                C.uint32_t(a.PathMTU.wire()),
		max_dest_rd_atomic: C.uint8_t(a.MaxDestRdAtomic),
		min_rnr_timer:      minRNRTimer,
	}
	p.path.port = C.uint8_t(a.Path.Port)
	p.path.dlid = C.uint16_t(a.Path.DLID)
	p.path.sl = C.uint8_t(a.Path.SL)
	if g := a.Path.GRH; g != nil {
		p.path.global = 1
		p.path.sgid_index = C.uint8_t(g.SGIDIndex)
		p.path.hop_limit = C.uint8_t(g.HopLimit)
		p.path.traffic_class = C.uint8_t(g.TrafficClass)
		p.path.flow_label = C.uint32_t(g.FlowLabel)
		for i, b := range g.DGID {
			p.path.dgid[i] = C.uint8_t(b)
		}
	}
	errno := C.rm_qp_rtr(qp.ptr, &p)
	return qp.moved(RTR, syscall.Errno(errno), a.describe)
}

// ToRTS moves RTR to RTS: from here on READs can be posted.
func (qp *QP) ToRTS(a RTSAttr) error {
	if qp.ptr == nil {
		return ErrDestroyed
	}
	if hint := a.invalid(); hint != "" {
		return &ModifyError{QPN: qp.num, From: QPState(qp.state.Load()), To: RTS, Attrs: a.describe(), Errno: syscall.EINVAL, Hint: hint}
	}
	p := C.struct_rm_rts{
		psn:           C.uint32_t(a.PSN),
		max_rd_atomic: C.uint8_t(a.MaxRdAtomic),
		timeout:       C.uint8_t(AckExponent(a.AckTimeout)),
		retry_cnt:     C.uint8_t(a.Retries),
		rnr_retry:     C.uint8_t(a.RNRRetries),
	}
	errno := C.rm_qp_rts(qp.ptr, &p)
	return qp.moved(RTS, syscall.Errno(errno), a.describe)
}

// ToErr moves any state to ERR: what is outstanding completes with WR_FLUSH_ERR,
// and so does what is posted later, although posting returns no error.
func (qp *QP) ToErr() error {
	if qp.ptr == nil {
		return ErrDestroyed
	}
	errno := C.rm_qp_err(qp.ptr)
	return qp.moved(Err, syscall.Errno(errno), func() string { return "no attributes" })
}

func (qp *QP) moved(to QPState, errno syscall.Errno, attrs func() string) error {
	if errno == 0 {
		qp.state.Store(uint32(to))
		return nil
	}
	return &ModifyError{
		QPN:   qp.num,
		From:  QPState(qp.state.Load()),
		To:    to,
		Attrs: attrs(),
		Errno: errno,
		Hint:  modifyHint(to, errno),
	}
}

// Query returns the state as the device has it.
func (qp *QP) Query() (QPAttr, error) {
	if qp.ptr == nil {
		return QPAttr{}, ErrDestroyed
	}
	var a C.struct_rm_qp_attr
	if errno := C.rm_qp_query(qp.ptr, &a); errno != 0 {
		return QPAttr{}, &Error{Op: "ibv_query_qp", On: qp.pd.ctx.name, Errno: syscall.Errno(errno)}
	}
	return QPAttr{
		State:           QPState(a.state),
		PathMTU:         mtuOf(uint32(a.mtu)),
		DestQPN:         uint32(a.dest_qpn),
		SQPSN:           uint32(a.sq_psn),
		RQPSN:           uint32(a.rq_psn),
		Access:          Access(a.access),
		MaxSend:         int(a.max_send_wr),
		MaxRecv:         int(a.max_recv_wr),
		MaxRdAtomic:     int(a.max_rd_atomic),
		MaxDestRdAtomic: int(a.max_dest_rd_atomic),
		AckTimeout:      AckTimeout(uint8(a.timeout)),
		Retries:         int(a.retry_cnt),
		RNRRetries:      int(a.rnr_retry),
	}, nil
}

// PostPoll posts reads as one list and then polls cq as [CQ.Poll] does: until a
// completion is there, or spin has passed. With a negative spin it does not poll,
// and wcs may be empty. It polls once even when the queue pair refuses a read.
//
// The error says why reads[Counts.Posted] was refused, or why polling failed;
// those before it are on the queue all the same. ERANGE: a read would land
// outside mr. A queue pair in ERR refuses nothing.
func (qp *QP) PostPoll(reads []Read, mr *MR, rkey uint32, cq *CQ, wcs []WC, spin time.Duration) (Counts, error) {
	if qp.ptr == nil || mr.ptr == nil || cq.ptr == nil {
		return Counts{}, ErrDestroyed
	}
	if len(reads) == 0 || len(reads) > MaxReads {
		return Counts{}, ErrTooMany
	}
	var out *C.struct_rm_wc
	if len(wcs) > 0 {
		out = (*C.struct_rm_wc)(unsafe.Pointer(&wcs[0]))
	} else {
		spin = -1
	}
	var c C.struct_rm_counts
	C.rm_post_poll(ref(qp.ptr), (*C.struct_rm_read)(unsafe.Pointer(&reads[0])), C.int(len(reads)), ref(mr.ptr), C.uint32_t(rkey),
		ref(cq.ptr), out, C.int(len(wcs)), C.int64_t(spin), &c)
	counts := Counts{Posted: int(c.posted), Polled: int(c.polled)}
	if c.post_err != 0 {
		return counts, postError(qp, syscall.Errno(c.post_err))
	}
	if c.poll_err != 0 {
		return counts, cq.err("ibv_poll_cq", syscall.Errno(c.poll_err))
	}
	return counts, nil
}

func postError(qp *QP, errno syscall.Errno) error {
	return &Error{Op: "ibv_post_send", On: fmt.Sprintf("%s QP %d", qp.pd.ctx.name, qp.num), Errno: errno, Hint: postHint(errno)}
}

// Post is PostPoll without polling.
func (qp *QP) Post(reads []Read, mr *MR, rkey uint32, cq *CQ) (int, error) {
	c, err := qp.PostPoll(reads, mr, rkey, cq, nil, -1)
	return c.Posted, err
}

// Destroy frees the queue pair. No READ of it touches memory after that; its
// completions that are in the CQ stay there.
func (qp *QP) Destroy() error {
	if qp.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_destroy_qp(qp.ptr); errno != 0 {
		return &Error{Op: "ibv_destroy_qp", On: qp.pd.ctx.name, Errno: syscall.Errno(errno)}
	}
	qp.ptr = nil
	return nil
}
