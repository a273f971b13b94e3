package reader

import (
	"errors"
	"io/fs"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma"
)

// ranked is a memory transport's rank for cause.
func ranked(s Source) cause.Transport {
	return [...]cause.Transport{FromSHM: cause.SHM, FromRDMA: cause.RDMA, FromTCP: cause.TCP, FromDurable: cause.NoTransport}[s]
}

// had notes that a transport to the node is possible from here: it came up once, or
// only a fault keeps it from coming up.
func (p *peer) had(s Source) {
	for best := p.best.Load(); best < int32(ranked(s)); best = p.best.Load() {
		if p.best.CompareAndSwap(best, int32(ranked(s))) {
			return
		}
	}
}

// missed notes that a transport that is allowed was tried and did not come up.
// Without the device, or the socket in this host's file system, nothing is wrong: the
// transport is not for this host. A device or GID that was asked for by name is.
func (p *peer) missed(s Source, err error) {
	named := p.c.cfg.RDMA.Device != "" || p.c.cfg.RDMA.GIDIndex >= 0
	switch {
	case errors.Is(err, errNotOffered), errors.Is(err, fs.ErrNotExist):
	case !named && (errors.Is(err, rdma.ErrNoDevice) || errors.Is(err, rdma.ErrNoGID) || errors.Is(err, rdma.ErrUnsupported) || errors.Is(err, rdma.ErrNoLibrary)):
	default:
		p.count().dialFailures[s].Add(1)
		p.had(s)
		return
	}
	if s != FromTCP && p.best.Load() >= int32(ranked(s)) { // it had it
		p.count().dialFailures[s].Add(1)
	}
}

func (p *peer) count() *counters { return &p.c.count }

// transports returns the best transport that the replicas of an extent could be read
// over from here, and the best that they are.
func (ro *roster) transports(h layout.Hash, extent uint64, now time.Time) (best, used cause.Transport) {
	var set cluster.Replicas
	ro.view.Extent(h, extent, &set)
	for _, node := range set.All() {
		p := ro.peers[node]
		best = max(best, cause.Transport(p.best.Load()))
		if paths := p.paths(now); len(paths) > 0 {
			used = max(used, ranked(paths[0].source))
		}
	}
	return best, used
}
