package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// export is an *rdma.Export: the arena, readable for whom it accepts.
type export interface {
	// accept connects a queue pair to the one that offer describes.
	accept(ctx context.Context, offer []byte, local, remote netip.Addr) (answer []byte, pair io.Closer, err error)
	io.Closer
}

// rdmaExport is the real one.
type rdmaExport struct{ *rdma.Export }

func newRDMAExport(cfg rdma.Config, mem []byte) (export, error) {
	e, err := rdma.NewExport(cfg, mem)
	if err != nil {
		return nil, err
	}
	return rdmaExport{e}, nil
}

func (e rdmaExport) accept(ctx context.Context, offer []byte, local, remote netip.Addr) ([]byte, io.Closer, error) {
	answer, r, err := e.Accept(ctx, offer, local, remote)
	if err != nil {
		return nil, nil, err
	}
	return answer, r, nil
}

// rdmaRefusal tells a client whose fault it is: its offer's, or this host's.
func rdmaRefusal(err error) error {
	switch {
	case errors.Is(err, rdma.ErrHandshake):
		return fmt.Errorf("%w: %w", wire.ErrBadRequest, err)
	case errors.Is(err, rdma.ErrNoDevice), errors.Is(err, rdma.ErrNoGID), errors.Is(err, rdma.ErrPortDown), errors.Is(err, rdma.ErrMemlock):
		return fmt.Errorf("%w: %w", wire.ErrNoRDMA, err)
	case errors.Is(err, rdma.ErrClosed):
		return errClosing
	}
	return err
}

// startRDMA exports a memory, or says why consumers have to do without.
func (s *Server) startRDMA(m *memory) error {
	switch s.cfg.RDMAMode {
	case RDMAOff:
		m.rdmaReason = "switched off (--rdma=off)"
		return nil
	case RDMARequire, RDMAAuto:
	}
	e, err := s.parts.export(s.cfg.RDMA, m.arena.Bytes())
	switch {
	case err == nil:
		m.export = e
		s.log.Info("arena is readable over RDMA", "tenant", m.tenant)
		return nil
	case s.cfg.RDMAMode == RDMARequire:
		return fmt.Errorf("%w, set it to auto to serve without: %w", ErrRDMA, err)
	}
	m.rdmaReason = err.Error()
	s.log.Warn("serving without RDMA", "reason", err)
	return nil
}

// rdmaConnect connects a queue pair that lives as long as the connection.
func (c *conn) rdmaConnect(ctx context.Context, h wire.Header, p []byte) error {
	if c.memory.export == nil {
		return &wire.Error{Status: wire.StatusNoRDMA, Message: c.memory.rdmaReason}
	}
	if err := wire.CheckOpaque(p); err != nil {
		return err
	}
	if !c.s.placePair(c.client) {
		return &wire.Error{Status: wire.StatusBusy, Message: "queue pairs of this client, or of all, are at the node's limit; close some, or read over TCP"}
	}
	local, remote := address(c.nc.LocalAddr()), address(c.nc.RemoteAddr())
	answer, pair, err := c.memory.export.accept(ctx, p, local, remote)
	if err != nil {
		c.s.leavePair(c.client)
		return rdmaRefusal(err)
	}
	old, ok := c.pairs.add(&countedPair{pair, c.s, c.client})
	if err := old.Close(); err != nil {
		c.log.Warn("queue pair was not closed cleanly", "err", err)
	}
	if !ok {
		return errClosing
	}
	c.answer(h, answer, nil)
	return nil
}

// address is the IP address of a TCP connection's end.
func address(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// countedPair keeps the number of queue pairs right.
type countedPair struct {
	io.Closer
	s      *Server
	client *tally
}

func (p *countedPair) Close() error {
	p.s.leavePair(p.client)
	return p.Closer.Close()
}

// placePair counts a queue pair of a client in, if there is room for one. Those that
// a connection replaces are counted until they are closed.
func (s *Server) placePair(c *tally) bool {
	if s.counters.queuePairs.Add(1) > int64(s.cfg.Limits.QueuePairsTotal) {
		s.counters.queuePairs.Add(-1)
		return false
	}
	if !c.addPair(s.cfg.Limits.ClientQueuePairs) {
		s.counters.queuePairs.Add(-1)
		return false
	}
	return true
}

// leavePair undoes placePair.
func (s *Server) leavePair(c *tally) {
	s.counters.queuePairs.Add(-1)
	c.removePair()
}

// closersOf closes several as one.
type closersOf []io.Closer

func (cs closersOf) Close() error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// pairs are the queue pairs of one connection. Only the newest few stay: a
// client connects again because the older one is broken.
type pairs struct {
	limit int
	mu    struct {
		sync.Mutex
		open   closersOf
		closed bool
	}
}

// add takes a pair in, and returns those that the caller has to close: the ones
// over the limit, or the new one itself (and false) when the connection has ended.
func (p *pairs) add(pair io.Closer) (old closersOf, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return closersOf{pair}, false
	}
	p.mu.open = append(p.mu.open, pair)
	n := max(0, len(p.mu.open)-p.limit)
	old = append(old, p.mu.open[:n]...)
	p.mu.open = append(closersOf(nil), p.mu.open[n:]...)
	return old, true
}

func (p *pairs) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.open) > 0
}

// close closes all, and lets no further one in.
func (p *pairs) close() error {
	p.mu.Lock()
	open := p.mu.open
	p.mu.open, p.mu.closed = nil, true
	p.mu.Unlock()
	return open.Close()
}

// exported is what the exports count together; zero without RDMA.
func (s *Server) exported() rdma.ExportStats {
	var sum rdma.ExportStats
	s.memories.each(func(m *memory) {
		if e, ok := m.export.(rdmaExport); ok {
			st := e.Stats()
			sum.Devices = max(sum.Devices, st.Devices)
			sum.QPs += st.QPs
			sum.MRs += st.MRs
			sum.Accepted += st.Accepted
			sum.Generation = max(sum.Generation, st.Generation)
		}
	})
	return sum
}
