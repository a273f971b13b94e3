package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Export lets peers READ a memory region, and nothing else: on each device the
// region is registered with remote read only, in a protection domain that holds
// nothing but the responder queue pairs. Serving a READ costs this process
// nothing: no goroutine of it runs.
//
// All methods may be called at once.
type Export struct {
	cfg  Config
	pool *Pool
	mem  []byte

	accepted atomic.Uint64
	moving   sync.WaitGroup // responders on their way to RTR, also those whose Accept has returned

	mu struct {
		sync.Mutex
		devices    map[string]*exportDevice
		generation uint64
		closed     bool
	}
}

// exportDevice is the region on one device. Guarded by Export.mu, but for what
// is set once.
type exportDevice struct {
	dev        *openDevice
	pd         *ibverbs.PD
	cq         *ibverbs.CQ // queue pairs must have one; a responder's stays empty
	mr         *ibverbs.MR // nil after a Reregister that went wrong
	responders map[*Responder]struct{}
}

// ExportStats counts what is alive.
type ExportStats struct {
	Devices    int
	QPs        int    // responders that are not closed
	MRs        int    // registrations of the memory
	Accepted   uint64 // offers answered since the start
	Generation uint64 // of the registrations
}

// NewExport registers mem on the device that cfg names, or on every device of
// this host that could be used. mem must be mmap'd memory that stays mapped until
// Close; it is pinned, and counts against RLIMIT_MEMLOCK once per device.
//
// Devices that cannot be used are passed over and logged. When none is left the
// error matches ErrNoDevice, and ErrMemlock if memory could not be registered, in
// which case the message says how to raise the limit.
func NewExport(cfg Config, mem []byte) (*Export, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	e := &Export{cfg: cfg, pool: cfg.pool(), mem: mem}
	e.mu.devices = make(map[string]*exportDevice)
	e.mu.generation = 1

	var reasons []DeviceReason
	for _, d := range devices {
		if cfg.Device != "" && cfg.Device != d.Name {
			continue
		}
		err := canServe(d, cfg)
		if err == nil {
			_, err = e.on(d.Name)
		}
		if err != nil {
			reasons = append(reasons, DeviceReason{Device: d.Name, Err: err})
			cfg.Logger.Warn("rdma device not used", "device", d.Name, "error", err)
			continue
		}
		cfg.Logger.Info("rdma memory exported", "device", d.Name, "bytes", len(mem))
	}
	if len(e.mu.devices) > 0 {
		return e, nil
	}
	cause := "none of this host's can export memory"
	switch {
	case len(devices) == 0:
		cause = "this host has none"
	case cfg.Device != "" && len(reasons) == 0:
		cause = cfg.Device + ", which was asked for, is not here"
	}
	return nil, &NoDeviceError{Cause: cause, Reasons: reasons}
}

// canServe says why a device cannot serve now.
func canServe(d Device, cfg Config) error {
	var errs []error
	for _, p := range d.Ports {
		err := candidate{d, p}.unusable()
		switch {
		case cfg.Port != 0 && cfg.Port != p.Number:
			continue
		case err == nil && len(p.GIDs) == 0:
			err = ErrNoGID
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("port %d: %w", p.Number, err))
	}
	return errors.Join(append(errs, errors.New("no port can be used"))...)
}

// on returns the region on a device, and registers it there first if it is not
// yet. Registering a large region takes about 0.1 s per GiB.
func (e *Export) on(name string) (*exportDevice, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	if x := e.mu.devices[name]; x != nil {
		return x, nil
	}
	dev, err := e.pool.open(name)
	if err != nil {
		return nil, err
	}
	x := &exportDevice{dev: dev, responders: make(map[*Responder]struct{})}
	if err := x.make(e.mem); err != nil {
		return nil, errors.Join(err, x.free())
	}
	e.mu.devices[name] = x
	return x, nil
}

func (x *exportDevice) make(mem []byte) error {
	var err error
	if x.pd, err = x.dev.ctx.AllocPD(); err != nil {
		return err
	}
	if x.mr, err = x.dev.register(x.pd, mem, ibverbs.AccessRemoteRead); err != nil {
		return err
	}
	x.cq, err = x.dev.ctx.CreateCQ(1, nil, 0)
	return err
}

func (x *exportDevice) free() error {
	var errs []error
	if x.mr != nil {
		errs = append(errs, x.mr.Dereg())
	}
	if x.cq != nil {
		errs = append(errs, x.cq.Destroy())
	}
	if x.pd != nil {
		errs = append(errs, x.pd.Dealloc())
	}
	x.dev.release()
	return errors.Join(errs...)
}

// Accept answers an offer: it makes a queue pair that serves the offering peer's
// READs, and returns the answer for its Dial.Finish. local and remote are the
// addresses of the bootstrap connection; local decides between devices.
//
// The answer holds the right to read the memory: send it to that peer only, and
// do not log it. The responder lives until its Close: close it when the
// bootstrap connection ends. Queue pairs are not limited here; who accepts
// connections limits those.
//
// Moving the queue pair to RTR can take over a second. When ctx ends first,
// Accept returns, and the queue pair is freed as soon as the kernel lets go of
// it. A ctx without a deadline gets one of 5 s.
//
// Errors: ErrHandshake, ErrVersion, ErrIncompatible, ErrNoDevice or ErrNoGID (no
// way to the peer), ErrPortDown, ErrClosed, ctx's, or that of a verb.
func (e *Export) Accept(ctx context.Context, offer []byte, local, remote netip.Addr) ([]byte, *Responder, error) {
	peer, err := parseOffer(offer)
	if err != nil {
		return nil, nil, err
	}
	choice, err := DeviceFor(Query{
		Peer: remote, Local: local, PeerGID: peer.gid, PeerType: peer.gidType,
		Device: e.cfg.Device, Port: e.cfg.Port, GIDIndex: e.cfg.GIDIndex,
	})
	if err != nil {
		return nil, nil, err
	}
	x, err := e.on(choice.Device.Name)
	if err != nil {
		return nil, nil, err
	}
	own, err := x.dev.endpointAt(choice, 255)
	if err != nil {
		return nil, nil, err
	}
	t, err := negotiate(own, peer)
	if err != nil {
		return nil, nil, err
	}
	r, err := e.newResponder(x, choice.Port.Number)
	if err != nil {
		return nil, nil, err
	}
	own.qpn, own.psn, own.nonce = r.qp.Num(), randomPSN(), randomNonce()

	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	mine, err := underDeadline(ctx, func() error {
		defer e.moving.Done()
		return r.qp.ToRTR(ibverbs.RTRAttr{
			Path:            pathTo(own, peer, choice.Port.Number, choice.GID.Index, e.cfg.TrafficClass),
			PathMTU:         t.pathMTU,
			DestQPN:         peer.qpn,
			PSN:             peer.psn,
			MaxDestRdAtomic: t.reads,
		})
	}, func(error) { r.Close() })
	if err != nil {
		if mine {
			r.Close()
		}
		return nil, nil, fmt.Errorf("rdma responder for %v: %w", remote, err)
	}
	a := answer{endpoint: own, echo: peer.nonce, length: uint64(len(e.mem)), pathMTU: t.pathMTU, reads: t.reads}
	if a.generation, a.base, a.rkey, err = e.handle(x); err != nil {
		r.Close()
		return nil, nil, err
	}
	e.accepted.Add(1)
	e.cfg.Logger.Info("rdma peer accepted", "peer", remote, "choice", choice.String(), "qp", own.qpn, "peer_qp", peer.qpn,
		"mtu", int(t.pathMTU), "reads_in_flight", t.reads, "generation", a.generation)
	return appendAnswer(nil, a), r, nil
}

// handle returns what a peer needs to read the memory through a device.
func (e *Export) handle(x *exportDevice) (generation, base uint64, rkey uint32, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.mu.closed:
		return 0, 0, 0, ErrClosed
	case x.mr == nil:
		return 0, 0, 0, fmt.Errorf("%w: not registered on %s since the last Reregister", ErrMemlock, x.dev.name)
	}
	return e.mu.generation, x.mr.Addr(), x.mr.RKey(), nil
}

// Reregister gives the memory new keys on every device, and starts a new
// generation. Peers that hold an old key get REM_ACCESS_ERR with their next READ,
// and need a new handshake. The old key is dead when it returns, also on an
// error; a device whose memory could not be registered again serves nobody until
// a Reregister that works.
func (e *Export) Reregister() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.generation++
	var errs []error
	for _, x := range e.mu.devices {
		errs = append(errs, x.reregister(e.mem))
	}
	return errors.Join(errs...)
}

// reregister takes the old registration away first: both at once would need
// twice the locked memory. A device that deals out the same key again is asked
// again while it holds that key.
func (x *exportDevice) reregister(mem []byte) error {
	var errs []error
	var old uint32
	if x.mr != nil {
		old = x.mr.RKey()
		if err := x.mr.Dereg(); err != nil {
			return err
		}
		x.mr = nil
	}
	mr, err := x.dev.register(x.pd, mem, ibverbs.AccessRemoteRead)
	if err == nil && mr.RKey() == old {
		same := mr
		mr, err = x.dev.register(x.pd, mem, ibverbs.AccessRemoteRead)
		errs = append(errs, same.Dereg())
	}
	if err == nil {
		x.mr = mr
	}
	return errors.Join(append(errs, err)...)
}

// Stats returns what is alive.
func (e *Export) Stats() ExportStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := ExportStats{Devices: len(e.mu.devices), Accepted: e.accepted.Load(), Generation: e.mu.generation}
	for _, x := range e.mu.devices {
		s.QPs += len(x.responders)
		if x.mr != nil {
			s.MRs++
		}
	}
	return s
}

// Close closes all responders and unregisters the memory. When it returns, no
// peer reads it any more. It waits for Accepts that are still in the kernel.
func (e *Export) Close() error {
	e.mu.Lock()
	if e.mu.closed {
		e.mu.Unlock()
		return nil
	}
	e.mu.closed = true
	var live []*Responder
	for _, x := range e.mu.devices {
		for r := range x.responders {
			live = append(live, r)
		}
	}
	e.mu.Unlock()

	e.moving.Wait()
	var errs []error
	for _, r := range live {
		errs = append(errs, r.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.mu.devices {
		errs = append(errs, x.free())
	}
	clear(e.mu.devices)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}
