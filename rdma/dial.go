package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Dial is one attempt to connect to a peer: a queue pair that waits for the
// peer's answer to its offer. Finish or Close it.
type Dial struct {
	// Choice is which device, port and GID were chosen, and why.
	Choice Choice

	cfg  Config
	dev  *openDevice
	own  endpoint
	q    *verbsQueue
	mem  []byte
	peer netip.Addr

	once sync.Once // Finish or Close, whichever is first
}

// Prepare chooses device, port and GID for a peer, whose address is that of the
// bootstrap connection, and makes a queue pair with its receive buffers.
//
// Errors: ErrNoDevice or ErrNoGID with the reason for each device, ErrPortDown,
// ErrMemlock, ErrUnsupported, ErrNoLibrary, ErrConfig, or that of a verb.
func Prepare(cfg Config, peer netip.Addr) (*Dial, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	choice, err := DeviceFor(Query{Peer: peer, Device: cfg.Device, Port: cfg.Port, GIDIndex: cfg.GIDIndex})
	if err != nil {
		return nil, err
	}
	d := &Dial{cfg: cfg, Choice: choice, peer: peer}
	if d.dev, err = cfg.pool().open(choice.Device.Name); err != nil {
		return nil, err
	}
	if err := d.make(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Dial) make() error {
	var err error
	if d.own, err = d.dev.endpointAt(d.Choice, d.cfg.ReadAtomic); err != nil {
		return err
	}
	d.cfg.Depth = min(d.cfg.Depth, d.dev.attr.MaxQPWR, d.dev.attr.MaxCQE-1)
	if d.mem, err = mapMemory(d.cfg.BufferBytes); err != nil {
		return err
	}
	if d.q, err = newVerbsQueue(d.dev, d.Choice.Port.Number, d.cfg.Depth, d.mem); err != nil {
		return err
	}
	d.own.qpn = d.q.qp.Num()
	d.own.psn = randomPSN()
	d.own.nonce = randomNonce()
	return nil
}

// Offer returns what the peer's Export.Accept needs: 48 bytes, no secret.
func (d *Dial) Offer() []byte { return appendEndpoint(nil, kindOffer, d.own) }

// Finish connects with the peer's answer. The Dial is used up, also on an error.
//
// Moving the queue pair to RTR can take over a second while the kernel resolves
// the peer's GID. When ctx ends first, Finish returns, and the queue pair is
// freed as soon as the kernel lets go of it. A ctx without a deadline gets one of
// 5 s.
//
// Errors: ErrHandshake, ErrVersion, ErrStaleAnswer, ErrIncompatible, ctx's, or
// that of a verb (*ibverbs.ModifyError says which transition and attribute).
func (d *Dial) Finish(ctx context.Context, reply []byte) (*Conn, error) {
	err := ErrClosed
	var conn *Conn
	d.once.Do(func() { conn, err = d.finish(ctx, reply) })
	return conn, err
}

func (d *Dial) finish(ctx context.Context, reply []byte) (*Conn, error) {
	a, err := parseAnswer(reply)
	if err != nil {
		return nil, errors.Join(err, d.free())
	}
	t, err := agree(d.own, a)
	if err != nil {
		return nil, errors.Join(err, d.free())
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	mine, err := underDeadline(ctx, func() error { return d.toRTS(a, t) }, d.freeLate)
	if err != nil {
		if mine {
			err = errors.Join(err, d.free())
		}
		return nil, fmt.Errorf("rdma connection to %v: %w", d.peer, err)
	}
	return d.conn(a, t), nil
}

func (d *Dial) toRTS(a answer, t terms) error {
	err := d.q.qp.ToRTR(ibverbs.RTRAttr{
		Path:    pathTo(d.own, a.endpoint, d.Choice.Port.Number, d.Choice.GID.Index, d.cfg.TrafficClass),
		PathMTU: t.pathMTU,
		DestQPN: a.qpn,
		PSN:     a.psn,
		// The peer reads nothing here. Not 0, which some devices refuse.
		MaxDestRdAtomic: 1,
	})
	if err != nil {
		return err
	}
	return d.q.qp.ToRTS(ibverbs.RTSAttr{
		PSN:         d.own.psn,
		MaxRdAtomic: t.reads,
		AckTimeout:  d.cfg.AckTimeout,
		Retries:     d.cfg.Retries,
		RNRRetries:  rnrRetries,
	})
}

func (d *Dial) conn(a answer, t terms) *Conn {
	d.q.rkey = a.rkey
	c := &Conn{
		dev: d.dev,
		log: d.cfg.Logger,
		Path: Path{
			Device:     d.dev.name,
			Port:       d.Choice.Port.Number,
			GIDIndex:   d.Choice.GID.Index,
			GID:        d.own.gid,
			GIDType:    d.own.gidType,
			PeerGID:    a.gid,
			Peer:       d.peer,
			QPN:        d.own.qpn,
			PeerQPN:    a.qpn,
			MTU:        int(t.pathMTU),
			Reads:      t.reads,
			AckTimeout: ibverbs.AckTimeout(ibverbs.AckExponent(d.cfg.AckTimeout)),
			Retries:    d.cfg.Retries,
			Generation: a.generation,
			Length:     a.length,
			Why:        d.Choice.Why,
		},
	}
	c.e = newEngine(engineConfig{
		queue:  d.q,
		depth:  d.cfg.Depth,
		stuck:  d.cfg.stuckAfter(),
		spin:   d.cfg.Spin,
		base:   a.base,
		length: a.length,
		mem:    d.mem,
		freed:  func() { freeMemory(d.cfg.Logger, d.mem) },
		peer:   d.peer,
		onLost: c.logLoss,
	})
	c.watch = &watch{
		dev: d.dev, port: d.Choice.Port.Number, gidIndex: d.Choice.GID.Index, gid: d.own.gid, gidType: d.own.gidType,
		lid: d.own.lid, qpn: d.own.qpn, cq: d.q.cq.Handle(), lose: c.e.fail,
	}
	c.watch.start()
	// The GID may have gone before the watch was there.
	d.dev.checkGIDs(c.watch.port)
	c.log.Info("rdma connected", "peer", d.peer, "path", c.Path)
	return c
}

func (c *Conn) logLoss(cause error) {
	if errors.Is(cause, ErrClosed) {
		return
	}
	c.log.Warn("rdma connection lost", "error", cause, "next", Decide(cause).String(), "peer", c.Path.Peer, "path", c.Path)
}

// Close gives up the attempt. After Finish it does nothing.
func (d *Dial) Close() error {
	var err error
	d.once.Do(func() { err = d.free() })
	return err
}

func (d *Dial) free() error {
	var errs []error
	gone := true
	if d.q != nil {
		err := d.q.destroyQP()
		gone = err == nil
		errs = append(errs, err, d.q.close())
	}
	if d.mem != nil && gone {
		errs = append(errs, unmapMemory(d.mem))
	}
	d.dev.release()
	return errors.Join(errs...)
}

func (d *Dial) freeLate(err error) {
	d.cfg.Logger.Debug("rdma connection attempt ended late", "peer", d.peer, "error", errors.Join(err, d.free()))
}
