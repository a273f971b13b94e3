package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rmatail/rmatail/cgo/ibverbs"
	"github.com/rmatail/rmatail/internal/ipclock"
)

// Pool shares opened devices between the connections and exports of a process.
// A device is opened by the first that needs it, and closed with the last: an
// open device blocks its removal (`rdma link delete` waits). Safe for concurrent
// use.
type Pool struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		devices map[string]*openDevice
	}
}

// NewPool returns an empty pool. The logger, which may be nil, gets the events of
// devices.
func NewPool(log *slog.Logger) *Pool {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{log: log}
	p.mu.devices = make(map[string]*openDevice)
	return p
}

// pool returns the pool to open devices in.
func (c Config) pool() *Pool {
	if c.Pool != nil {
		return c.Pool
	}
	return NewPool(c.Logger)
}

// openDevice is an opened device, and the goroutine that takes its asynchronous
// events: to the death of the device they are told to the watches on it.
type openDevice struct {
	pool *Pool
	name string
	ctx  *ibverbs.Context
	attr ibverbs.DeviceAttr
	log  *slog.Logger

	file    *os.File // asynchronous events in Go's netpoller
	raw     syscall.RawConn
	closing atomic.Bool // set before file is closed
	ended   chan struct{}

	vectors atomic.Uint32 // completion queues made

	refs int // guarded by pool.mu
	mu   struct {
		sync.Mutex
		watches map[*watch]struct{}
	}
}

// open returns the device of that name, to be given back with release.
func (p *Pool) open(name string) (*openDevice, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.mu.devices[name]; d != nil {
		d.refs++
		return d, nil
	}
	d := &openDevice{pool: p, name: name, log: p.log.With("device", name), ended: make(chan struct{}), refs: 1}
	d.mu.watches = make(map[*watch]struct{})
	var err error
	if d.ctx, err = ibverbs.Open(name); err != nil {
		return nil, err
	}
	if d.attr, err = d.ctx.QueryDevice(); err != nil {
		return nil, errors.Join(err, d.ctx.Close())
	}
	if d.file, d.raw, err = pollable(d.ctx.AsyncFD(), name+" events"); err != nil {
		return nil, errors.Join(err, d.ctx.Close())
	}
	go d.takeEvents()
	p.mu.devices[name] = d
	return d, nil
}

// release gives the device back, and closes it if nobody else has it. Everything
// that was made from it must be gone.
func (d *openDevice) release() {
	d.pool.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last && d.pool.mu.devices[d.name] == d {
		delete(d.pool.mu.devices, d.name)
	}
	d.pool.mu.Unlock()
	if !last {
		return
	}
	d.closing.Store(true)
	if err := d.file.Close(); err != nil {
		d.log.Warn("rdma device events", "error", err)
	}
	<-d.ended
	if err := d.ctx.Close(); err != nil {
		d.log.Error("rdma device stays open", "error", err)
	}
}

// forget makes the next open of the name open the device anew.
func (d *openDevice) forget() {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	if d.pool.mu.devices[d.name] == d {
		delete(d.pool.mu.devices, d.name)
	}
}

// vector spreads the interrupts of completion queues over the device's vectors.
func (d *openDevice) vector() int {
	return int(d.vectors.Add(1)-1) % max(d.ctx.Vectors(), 1)
}

// register registers memory, and explains a refusal.
func (d *openDevice) register(pd *ibverbs.PD, mem []byte, access ibverbs.Access) (*ibverbs.MR, error) {
	var mr *ibverbs.MR
	err := ipclock.Do(func() (err error) {
		mr, err = pd.RegMR(mem, access)
		return err
	})
	if errors.Is(err, syscall.ENOMEM) {
		return nil, &MemlockError{Device: d.name, Need: uint64(len(mem)), Limit: memlockLimit(), Err: err}
	}
	return mr, err
}

// queuePair makes a queue pair. Its rings are locked memory too.
func queuePair(pd *ibverbs.PD, cq *ibverbs.CQ, sends, receives int) (*ibverbs.QP, error) {
	var qp *ibverbs.QP
	err := ipclock.Do(func() (err error) {
		qp, err = pd.CreateQP(cq, cq, sends, receives)
		return err
	})
	return qp, err
}

// endpointAt describes this end of a connection: all but queue pair, PSN and
// nonce.
func (d *openDevice) endpointAt(c Choice, reads int) (endpoint, error) {
	port, err := d.ctx.QueryPort(c.Port.Number)
	if err != nil {
		return endpoint{}, err
	}
	if port.State != ibverbs.PortActive {
		return endpoint{}, fmt.Errorf("%w: %s port %d is %v", ErrPortDown, d.name, c.Port.Number, port.State)
	}
	e := endpoint{
		link:    LinkLayerInfiniBand,
		gidType: c.GID.Type,
		mtu:     port.ActiveMTU,
		lid:     port.LID,
		gid:     c.GID.GID,
	}
	e.init, e.dest = readsInFlight(reads, d.attr)
	// RoCE's port attributes leave the link layer unspecified in some old
	// drivers; the GID's type never does.
	if c.GID.Type != TypeIB {
		e.link, e.lid = LinkLayerEthernet, 0
	}
	return e, nil
}
