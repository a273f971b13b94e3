package rdma

import (
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// watch is a connection's interest in the events of its device.
type watch struct {
	dev      *openDevice
	port     int
	gidIndex int
	gid      GID
	gidType  GIDType
	lid      uint16
	qpn      uint32
	cq       uint32
	lose     func(error)
}

// start makes the watch hear events. What happened before is missed: check after.
func (w *watch) start() {
	w.dev.mu.Lock()
	defer w.dev.mu.Unlock()
	w.dev.mu.watches[w] = struct{}{}
}

// stop ends it; lose may be running for a last time.
func (w *watch) stop() {
	w.dev.mu.Lock()
	defer w.dev.mu.Unlock()
	delete(w.dev.mu.watches, w)
}

// takeEvents runs until the file is closed.
func (d *openDevice) takeEvents() {
	defer close(d.ended)
	var (
		event ibverbs.AsyncEvent
		fault error
	)
	take := func(uintptr) (ok bool) {
		event, ok, fault = d.ctx.TakeAsyncEvent()
		return ok || fault != nil
	}
	for {
		err := d.raw.Read(take)
		switch {
		case d.closing.Load():
			return
		case err != nil || fault != nil:
			// Without events a dead device shows only by its reads.
			d.log.Error("rdma device events end", "error", errors.Join(err, fault))
			return
		}
		d.handle(event)
	}
}

// handle decides what an event means for the connections on the device.
//
// PORT_ERR alone loses none: short flaps heal by the device's retries, and what
// does not heal ends in an error completion (measured on soft-RoCE: 9 ms with
// this end's link down, the retry time with the peer's). An idle connection
// sees it with its next read.
func (d *openDevice) handle(e ibverbs.AsyncEvent) {
	switch e.Type {
	case ibverbs.EventGIDChange:
		d.log.Info("rdma event", "event", e.String())
		d.checkGIDs(e.Port)
	case ibverbs.EventLIDChange, ibverbs.EventSMChange, ibverbs.EventClientReregister:
		d.log.Info("rdma event", "event", e.String())
		d.checkLID(e.Port)
	case ibverbs.EventPortErr, ibverbs.EventPortActive:
		d.log.Warn("rdma event", "event", e.String())
	case ibverbs.EventDeviceFatal:
		d.log.Error("rdma event", "event", e.String())
		d.forget()
		d.loseAll(func(*watch) bool { return true }, fmt.Errorf("%w: %v of %s", ErrDevice, e, d.name))
	case ibverbs.EventCQErr:
		d.log.Error("rdma event", "event", e.String())
		d.loseAll(func(w *watch) bool { return w.cq == e.CQ }, fmt.Errorf("%w: %v of %s", ErrDevice, e, d.name))
	case ibverbs.EventQPFatal, ibverbs.EventQPReqErr, ibverbs.EventQPAccessErr:
		// A responder's queue pair has no watch: its peer made the mistake.
		d.log.Debug("rdma event", "event", e.String())
		d.loseAll(func(w *watch) bool { return w.qpn == e.QPN }, fmt.Errorf("%w: %v of %s", ErrDevice, e, d.name))
	default:
		d.log.Debug("rdma event", "event", e.String())
	}
}

func (d *openDevice) loseAll(hit func(*watch) bool, cause error) {
	d.mu.Lock()
	var lost []*watch
	for w := range d.mu.watches {
		if hit(w) {
			lost = append(lost, w)
		}
	}
	d.mu.Unlock()
	for _, w := range lost {
		w.lose(cause)
	}
}

// checkGIDs judges the port's connections by the GID table as it is now.
func (d *openDevice) checkGIDs(port int) {
	table, err := d.ctx.GIDTable()
	d.judgeGIDs(port, table, err)
}

// judgeGIDs loses the port's connections whose GID is no longer at its index: a
// queue pair goes on sending from the index, whatever is there. When the table
// could not be read, all of the port's count as changed.
func (d *openDevice) judgeGIDs(port int, table []ibverbs.GIDEntry, err error) {
	if err != nil {
		d.loseAll(func(w *watch) bool { return w.port == port },
			fmt.Errorf("%w: table of %s cannot be read: %w", ErrGIDChanged, d.name, err))
		return
	}
	d.loseAll(func(w *watch) bool { return w.port == port && !w.holds(table) },
		fmt.Errorf("%w: %s port %d", ErrGIDChanged, d.name, port))
}

// holds reports whether the watch's GID is where it was.
func (w *watch) holds(table []ibverbs.GIDEntry) bool {
	for _, e := range table {
		if e.Port == w.port && e.Index == w.gidIndex {
			return GID(e.GID) == w.gid && (e.Type == ibverbs.GIDUnknown || gidTypeOf(e.Type) == w.gidType)
		}
	}
	return false
}

func gidTypeOf(t ibverbs.GIDType) GIDType {
	switch t {
	case ibverbs.GIDInfiniBand:
		return TypeIB
	case ibverbs.GIDRoCEv1:
		return TypeRoCEv1
	case ibverbs.GIDRoCEv2:
		return TypeRoCEv2
	}
	return TypeUnknown
}

// checkLID judges the port's connections by its LID as it is now.
func (d *openDevice) checkLID(port int) {
	attr, err := d.ctx.QueryPort(port)
	d.judgeLID(port, attr.LID, err)
}

// judgeLID loses the port's connections that are addressed by a LID it no longer
// has.
func (d *openDevice) judgeLID(port int, lid uint16, err error) {
	cause := fmt.Errorf("%w: LID of %s port %d changed", ErrGIDChanged, d.name, port)
	if err != nil {
		cause = fmt.Errorf("%w: %w", cause, err)
	}
	d.loseAll(func(w *watch) bool { return w.port == port && w.gidType == TypeIB && (err != nil || lid != w.lid) }, cause)
}
