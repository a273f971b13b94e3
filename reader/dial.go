package reader

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// attempt is the state of one transport while the node is connected.
type attempt struct {
	path    *path
	since   time.Time // when path came up
	next    time.Time // when to try again
	backoff rdma.Backoff
	why     string // why there is no path
}

// lost is the Lost channel of a transport's path, or nil.
func lost(a *attempt) <-chan struct{} {
	if a.path == nil {
		return nil
	}
	return a.path.Lost()
}

// nextTry is when the first of the missing transports is due.
func nextTry(tries *[FromDurable]attempt) time.Time {
	at := time.Now().Add(time.Minute)
	for i := range tries {
		if tries[i].path == nil && !tries[i].next.IsZero() {
			at = earliest(at, tries[i].next)
		}
	}
	return at
}

// bury closes the paths that are lost and decides when to dial them again.
func (p *peer) bury(tries *[FromDurable]attempt) {
	for i := range tries {
		a := &tries[i]
		select {
		case <-lost(a):
		default:
			continue
		}
		now, err := time.Now(), a.path.Err()
		p.c.cfg.Logger.Warn("memory path lost", "node", p.name, "transport", Source(i).String(), "err", err)
		if Source(i) == FromRDMA {
			p.c.count.qpErrors.add(rdma.Root(err))
		}
		wasSteady := now.Sub(a.since) >= steady
		if wasSteady {
			a.backoff.Reset()
		}
		a.next = now.Add(a.backoff.Next(p.rng))
		if wasSteady && handleStale(err) {
			a.next = now
		}
		a.path.Close()
		a.path, a.why = nil, err.Error()
		p.publish(tries)
	}
}

// connect dials each transport that is allowed, missing and due. Rdma is not
// needed while shm is up. Tcp, which costs nothing as it shares the control
// connection, comes before rdma, whose dial may take its whole time out.
func (p *peer) connect(client *wire.Client, tries *[FromDurable]attempt) {
	up := false
	for _, s := range [...]Source{FromSHM, FromTCP, FromRDMA} {
		a := &tries[s]
		switch {
		case a.path != nil:
			up = true
			continue
		case !p.c.cfg.Transport.allows(s):
			a.why = "not allowed by the transport setting"
			continue
		case s == FromRDMA && tries[FromSHM].path != nil:
			a.why, a.next = "not needed", time.Time{} // due when shm is lost
			continue
		case time.Now().Before(a.next):
			continue
		}
		m, err := p.dial(client, s)
		if err == nil {
			a.path, err = newPath(m, s, client.Hello().Epoch, p.c.cfg.ReadTimeout)
			if err != nil {
				m.Close()
			} else {
				a.path.peer, a.path.nic, a.path.times = p, p.c.nic(m), &p.c.count.times[s]
			}
		}
		if err != nil {
			a.why, a.next = err.Error(), time.Now().Add(a.backoff.Next(p.rng))
			p.missed(s, err)
			p.c.cfg.Logger.Debug("memory path not up", "node", p.name, "transport", s.String(), "err", err)
			continue
		}
		a.since, a.why = time.Now(), ""
		up = true
		p.c.count.connects[s].Add(1)
		p.had(s)
		p.publish(tries)
	}
	if !up {
		p.publish(tries)
	}
}

var errNotOffered = errors.New("the node does not offer it")

// dial makes the connection of one transport.
func (p *peer) dial(client *wire.Client, s Source) (memory, error) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	hello := client.Hello()
	switch s {
	case FromSHM:
		if hello.ShmPath == "" {
			return nil, errNotOffered
		}
		m, err := local.Dialer{Ticket: []byte(hello.Ticket)}.Dial(ctx, hello.ShmPath, hello.Epoch)
		if err != nil {
			return nil, err
		}
		return shmMemory{m}, nil
	case FromRDMA:
		if hello.Features&wire.FeatureRDMA == 0 {
			return nil, errNotOffered
		}
		m, err := p.dialRDMA(ctx, client)
		if err != nil {
			return nil, err
		}
		return rdmaMemory{m}, nil
	default:
		return tcpMemory{tcp.New(client, tcp.Options{})}, nil
	}
}

// dialRDMA exchanges endpoints over the control connection, to whose life the
// node ties its end.
func (p *peer) dialRDMA(ctx context.Context, client *wire.Client) (*rdma.Conn, error) {
	addr, err := netip.ParseAddrPort(client.RemoteAddr().String())
	if err != nil {
		return nil, fmt.Errorf("node address for rdma: %w", err)
	}
	cfg := p.c.cfg.RDMA
	cfg.Logger = p.c.cfg.Logger
	d, err := rdma.Prepare(cfg, addr.Addr().Unmap())
	if err != nil {
		return nil, err
	}
	answer, err := client.Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
	if err != nil {
		d.Close()
		return nil, err
	}
	return d.Finish(ctx, answer)
}

// publish makes the connected paths visible, and the choice if it changed.
func (p *peer) publish(tries *[FromDurable]attempt) {
	var live []*path
	var why []string
	for i := range tries {
		if a := &tries[i]; a.path != nil {
			live = append(live, a.path)
		} else if len(live) == 0 && p.c.cfg.Transport.allows(Source(i)) {
			why = append(why, fmt.Sprintf("%s: %s", Source(i), a.why))
		}
	}
	p.live.Store(&live)
	chosen := "none"
	if len(live) > 0 {
		chosen = live[0].source.String()
	}
	if len(why) == 0 {
		why = append(why, p.c.cfg.Transport.reason())
	}
	p.note(chosen, strings.Join(why, "; "))
	p.c.pathsChanged()
}
