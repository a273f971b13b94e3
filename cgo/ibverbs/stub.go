//go:build !linux || !cgo || noverbs

package ibverbs

import "time"

// The types below cannot be made: every call that would make one returns
// ErrUnsupported. Their methods are there so that callers compile.

// Devices lists the RDMA devices that have a provider library.
func Devices() ([]DeviceInfo, error) { return nil, ErrUnsupported }

// Context is an opened device.
type Context struct{}

// Open opens the device of that name.
func Open(name string) (*Context, error) { return nil, ErrUnsupported }

// Name returns the name the context was opened with.
func (c *Context) Name() string { return "" }

// Vectors returns the number of completion vectors.
func (c *Context) Vectors() int { return 0 }

// Close closes the device.
func (c *Context) Close() error { return ErrUnsupported }

// QueryDevice returns the limits of the device.
func (c *Context) QueryDevice() (DeviceAttr, error) { return DeviceAttr{}, ErrUnsupported }

// QueryPort returns the state of a port.
func (c *Context) QueryPort(port int) (PortAttr, error) { return PortAttr{}, ErrUnsupported }

// GIDTable returns the live rows of all ports.
func (c *Context) GIDTable() ([]GIDEntry, error) { return nil, ErrUnsupported }

// AsyncFD returns the descriptor to wait on for TakeAsyncEvent.
func (c *Context) AsyncFD() int { return -1 }

// TakeAsyncEvent takes and acknowledges one event.
func (c *Context) TakeAsyncEvent() (e AsyncEvent, ok bool, err error) {
	return AsyncEvent{}, false, ErrUnsupported
}

// PD is a protection domain.
type PD struct{}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) { return nil, ErrUnsupported }

// Dealloc frees the domain.
func (pd *PD) Dealloc() error { return ErrUnsupported }

// MR is a registered memory region.
type MR struct{}

// RegMR registers memory.
func (pd *PD) RegMR(mem []byte, access Access) (*MR, error) { return nil, ErrUnsupported }

// Addr returns the address of the region's first byte.
func (mr *MR) Addr() uint64 { return 0 }

// Len returns the length of the region.
func (mr *MR) Len() uint64 { return 0 }

// RKey returns the key that peers need.
func (mr *MR) RKey() uint32 { return 0 }

// Dereg unpins the memory and kills the keys.
func (mr *MR) Dereg() error { return ErrUnsupported }

// Channel is a completion channel.
type Channel struct{}

// CreateChannel makes a completion channel.
func (c *Context) CreateChannel() (*Channel, error) { return nil, ErrUnsupported }

// FD returns the descriptor to wait on for TakeEvent.
func (ch *Channel) FD() int { return -1 }

// TakeEvent takes and acknowledges one event.
func (ch *Channel) TakeEvent() (ok bool, err error) { return false, ErrUnsupported }

// Destroy frees the channel.
func (ch *Channel) Destroy() error { return ErrUnsupported }

// CQ is a completion queue.
type CQ struct{}

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(entries int, ch *Channel, vector int) (*CQ, error) {
	return nil, ErrUnsupported
}

// Size returns the number of completions that the queue can hold.
func (cq *CQ) Size() int { return 0 }

// Handle returns the number that a CQErr event names the queue by.
func (cq *CQ) Handle() uint32 { return 0 }

// Arm asks for one event on the channel at the next completion.
func (cq *CQ) Arm() error { return ErrUnsupported }

// Poll takes completions.
func (cq *CQ) Poll(wcs []WC, spin time.Duration) (int, error) { return 0, ErrUnsupported }

// ArmPoll arms the queue and then polls once.
func (cq *CQ) ArmPoll(wcs []WC) (int, error) { return 0, ErrUnsupported }

// Destroy frees the queue.
func (cq *CQ) Destroy() error { return ErrUnsupported }

// QP is a queue pair.
type QP struct{}

// CreateQP makes a queue pair.
func (pd *PD) CreateQP(send, recv *CQ, maxSend, maxRecv int) (*QP, error) {
	return nil, ErrUnsupported
}

// Num returns the queue pair number.
func (qp *QP) Num() uint32 { return 0 }

// ToInit moves RESET to INIT.
func (qp *QP) ToInit(port int, access Access) error { return ErrUnsupported }

// ToRTR moves INIT to RTR.
func (qp *QP) ToRTR(a RTRAttr) error { return ErrUnsupported }

// ToRTS moves RTR to RTS.
func (qp *QP) ToRTS(a RTSAttr) error { return ErrUnsupported }

// ToErr moves any state to ERR.
func (qp *QP) ToErr() error { return ErrUnsupported }

// Query returns the state as the device has it.
func (qp *QP) Query() (QPAttr, error) { return QPAttr{}, ErrUnsupported }

// PostPoll posts reads and polls.
func (qp *QP) PostPoll(reads []Read, mr *MR, rkey uint32, cq *CQ, wcs []WC, spin time.Duration) (Counts, error) {
	return Counts{}, ErrUnsupported
}

// Post posts reads.
func (qp *QP) Post(reads []Read, mr *MR, rkey uint32, cq *CQ) (int, error) { return 0, ErrUnsupported }

// Destroy frees the queue pair.
func (qp *QP) Destroy() error { return ErrUnsupported }
