package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// peer keeps the connections to one node: the control connection, which carries
// tcp reads and durable requests too, and the memory paths that hang on it. One
// goroutine, run, owns and repairs them; any goroutine may look at them.
type peer struct {
	c      *Cluster
	node   cluster.Node
	client atomic.Pointer[wire.Client] // nil while the node is away
	live   atomic.Pointer[[]*path]     // those that are connected, best first
	status atomic.Pointer[pathStatus]
	rng    *rand.Rand // of run; jitter
	// changed is whether a transport was logged before; of run.
	changed bool
	ready   chan struct{} // closed when the first round of connecting is over

	// err is why the first round found no node; read after ready.
	err error
}

// pathStatus is the transport in use and why, for people.
type pathStatus struct{ transport, why string }

const (
	dialTimeout = 3 * time.Second
	// steady is how long a connection must have lasted for its loss to be the first
	// one: then the back-off begins anew, and a path whose memory handle went stale
	// is dialled again at once. One that comes up only to fail waits ever longer.
	steady = time.Second
)

// attempt is the state of one transport while the node is connected.
type attempt struct {
	path    *path
	since   time.Time // when path came up
	next    time.Time // when to try again
	backoff rdma.Backoff
	why     string // why there is no path
}

func newPeer(c *Cluster, node cluster.Node) *peer {
	p := &peer{c: c, node: node, ready: make(chan struct{}), rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	p.live.Store(new([]*path))
	p.status.Store(&pathStatus{"none", "not connected yet"})
	return p
}

// run connects, and connects again with full jitter, until the Cluster stops.
func (p *peer) run() {
	var backoff rdma.Backoff
	for first := true; ; first = false {
		ctx, cancel := context.WithTimeout(p.c.ctx, dialTimeout)
		client, err := wire.Dial(ctx, p.node.Addr, wire.Options{Name: "rmatail-reader"})
		cancel()
		if err != nil {
			p.note("none", err.Error())
			if first {
				p.err = err
				close(p.ready)
			}
		} else {
			up := time.Now()
			p.serve(client, first)
			if time.Since(up) >= steady {
				backoff.Reset()
			}
		}
		select {
		case <-p.c.stop:
			return
		case <-time.After(backoff.Next(p.rng)):
		}
	}
}

// serve keeps the memory paths of a connected node until the connection ends.
func (p *peer) serve(client *wire.Client, first bool) {
	p.client.Store(client)
	var tries [FromDurable]attempt
	for i := range tries {
		tries[i].why = "not tried yet"
	}
	defer func() {
		p.client.Store(nil)
		p.live.Store(new([]*path))
		for i := range tries {
			if tries[i].path != nil {
				tries[i].path.Close()
			}
		}
		client.Close()
		p.note("none", fmt.Sprintf("node %s: %v", p.node.Name, client.Err()))
		p.c.pathsChanged()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.connect(client, &tries)
		if first {
			first = false
			close(p.ready)
		}
		timer.Reset(time.Until(nextTry(&tries)))
		select {
		case <-p.c.stop:
			return
		case <-client.Lost():
			return
		case <-timer.C:
		case <-lost(&tries[FromSHM]):
		case <-lost(&tries[FromRDMA]):
		case <-lost(&tries[FromTCP]):
		}
		p.bury(&tries)
	}
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
		p.c.cfg.Logger.Warn("memory path lost", "node", p.node.Name, "transport", Source(i).String(), "err", err)
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
			}
		}
		if err != nil {
			a.why, a.next = err.Error(), time.Now().Add(a.backoff.Next(p.rng))
			p.c.cfg.Logger.Debug("memory path not up", "node", p.node.Name, "transport", s.String(), "err", err)
			continue
		}
		a.since, a.why = time.Now(), ""
		up = true
		p.c.count.connects[s].Add(1)
		p.publish(tries)
	}
	if !up {
		p.publish(tries)
	}
}

var errNotOffered = errors.New("the node does not offer it")

// dial makes the connection of one transport.
func (p *peer) dial(client *wire.Client, s Source) (memory, error) {
	ctx, cancel := context.WithTimeout(p.c.ctx, dialTimeout)
	defer cancel()
	hello := client.Hello()
	switch s {
	case FromSHM:
		if hello.ShmPath == "" {
			return nil, errNotOffered
		}
		m, err := local.Dial(ctx, hello.ShmPath, hello.Epoch)
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

// note records the transport in use, and logs it when it changes: the first one
// for information, each later change, down or up, as a warning.
func (p *peer) note(transport, why string) {
	old := p.status.Swap(&pathStatus{transport, why})
	if old.transport == transport {
		return
	}
	level := slog.LevelInfo
	switch {
	case p.c.ctx.Err() != nil: // closing
		level = slog.LevelDebug
	case p.changed:
		level = slog.LevelWarn
	}
	p.changed = true
	p.c.cfg.Logger.Log(p.c.ctx, level, "memory transport", "node", p.node.Name, "transport", transport, "was", old.transport, "why", why)
}
