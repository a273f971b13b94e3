//go:build linux && cgo && !noverbs

package ibverbs

// #cgo noescape rm_poll
// #cgo nocallback rm_poll
// #cgo noescape rm_arm_poll
// #cgo nocallback rm_arm_poll
// #cgo noescape rm_arm
// #cgo nocallback rm_arm
// #cgo noescape rm_take_cq_event
// #cgo nocallback rm_take_cq_event
// #include "shim.h"
import "C"

import (
	"syscall"
	"time"
	"unsafe"
)

// ref is an object of C's as the calls of the fast path want it.
func ref(p unsafe.Pointer) C.rm_ref { return C.rm_ref(uintptr(p)) }

// Channel is a completion channel: armed CQs put one event each on it.
type Channel struct {
	ctx *Context
	ptr unsafe.Pointer
	fd  int
}

// CreateChannel makes a completion channel.
func (c *Context) CreateChannel() (*Channel, error) {
	if c.ptr == nil {
		return nil, ErrDestroyed
	}
	ch := &Channel{ctx: c}
	var fd C.int
	if errno := C.rm_create_channel(c.ptr, &ch.ptr, &fd); errno != 0 {
		return nil, &Error{Op: "ibv_create_comp_channel", On: c.name, Errno: syscall.Errno(errno), Hint: createHint(syscall.Errno(errno))}
	}
	ch.fd = int(fd)
	return ch, nil
}

// FD returns the descriptor that turns readable when TakeEvent has something. It
// is O_NONBLOCK, and closed by Destroy: duplicate it for os.NewFile.
func (ch *Channel) FD() int { return ch.fd }

// TakeEvent takes and acknowledges one event; ok is false when there is none. It
// does not block. The CQ that it came from is then no longer armed.
func (ch *Channel) TakeEvent() (ok bool, err error) {
	if ch.ptr == nil {
		return false, ErrDestroyed
	}
	switch errno := syscall.Errno(C.rm_take_cq_event(ch.ptr)); errno {
	case 0:
		return true, nil
	case syscall.EAGAIN:
		return false, nil
	default:
		return false, &Error{Op: "ibv_get_cq_event", On: ch.ctx.name, Errno: errno}
	}
}

// Destroy frees the channel. It fails with EBUSY while CQs use it.
func (ch *Channel) Destroy() error {
	if ch.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_destroy_channel(ch.ptr); errno != 0 {
		return &Error{Op: "ibv_destroy_comp_channel", On: ch.ctx.name, Errno: syscall.Errno(errno)}
	}
	ch.ptr = nil
	return nil
}

// CQ is a completion queue.
type CQ struct {
	ctx    *Context
	ptr    unsafe.Pointer
	handle uint32
	size   int
}

// CreateCQ makes a completion queue of at least entries. ch may be nil: then the
// CQ can be polled, but not waited for. A queue that overruns loses completions,
// so make it as large as all work requests that may be outstanding.
func (c *Context) CreateCQ(entries int, ch *Channel, vector int) (*CQ, error) {
	if c.ptr == nil || ch != nil && ch.ptr == nil {
		return nil, ErrDestroyed
	}
	cq := &CQ{ctx: c}
	var chp unsafe.Pointer
	if ch != nil {
		chp = ch.ptr
	}
	var size C.int
	var handle C.uint32_t
	if errno := C.rm_create_cq(c.ptr, C.int(entries), chp, C.int(vector), &cq.ptr, &size, &handle); errno != 0 {
		return nil, &Error{Op: "ibv_create_cq", On: c.name, Errno: syscall.Errno(errno), Hint: createHint(syscall.Errno(errno))}
	}
	cq.size, cq.handle = int(size), uint32(handle)
	return cq, nil
}

// Size returns the number of completions that the queue can hold.
func (cq *CQ) Size() int { return cq.size }

// Handle returns the number that a CQErr event names the queue by.
func (cq *CQ) Handle() uint32 { return cq.handle }

// Arm asks for one event on the channel at the next completion. Completions that
// are in the queue already make none: poll after arming, or call ArmPoll.
func (cq *CQ) Arm() error {
	if cq.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_arm(cq.ptr); errno != 0 {
		return cq.err("ibv_req_notify_cq", syscall.Errno(errno))
	}
	return nil
}

// Poll takes completions, at most len(wcs) of them. When there is none it looks
// again until there is one or spin has passed; it keeps an OS thread meanwhile.
func (cq *CQ) Poll(wcs []WC, spin time.Duration) (int, error) {
	if cq.ptr == nil {
		return 0, ErrDestroyed
	}
	if len(wcs) == 0 {
		return 0, nil
	}
	n := C.rm_poll(ref(cq.ptr), (*C.struct_rm_wc)(unsafe.Pointer(&wcs[0])), C.int(len(wcs)), C.int64_t(spin))
	if n < 0 {
		return 0, cq.err("ibv_poll_cq", syscall.Errno(-n))
	}
	return int(n), nil
}

// ArmPoll arms the queue and then polls once, in one call. With 0 completions
// and no error, the next completion makes an event.
func (cq *CQ) ArmPoll(wcs []WC) (int, error) {
	if cq.ptr == nil {
		return 0, ErrDestroyed
	}
	if len(wcs) == 0 {
		return 0, cq.Arm()
	}
	n := C.rm_arm_poll(ref(cq.ptr), (*C.struct_rm_wc)(unsafe.Pointer(&wcs[0])), C.int(len(wcs)))
	if n < 0 {
		return 0, cq.err("ibv_req_notify_cq or ibv_poll_cq", syscall.Errno(-n))
	}
	return int(n), nil
}

// Destroy frees the queue. It fails with EBUSY while queue pairs use it.
func (cq *CQ) Destroy() error {
	if cq.ptr == nil {
		return ErrDestroyed
	}
	if errno := C.rm_destroy_cq(cq.ptr); errno != 0 {
		return cq.err("ibv_destroy_cq", syscall.Errno(errno))
	}
	cq.ptr = nil
	return nil
}

func (cq *CQ) err(op string, errno syscall.Errno) error {
	return &Error{Op: op, On: cq.ctx.name, Errno: errno}
}
