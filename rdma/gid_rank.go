package rdma

import (
	"cmp"
	"fmt"
)

// rank orders entries that can all work. Fields decide in this order, higher is
// better; port and index break ties.
type rank struct {
	kind   int // RoCE v2 before v1
	family int // that of the peer
	scope  int // global, or link-local for a link-local peer
	subnet int // bits of the entry's subnet plus one if it holds the peer
	source int // is the source address of the route
}

func (w GIDWant) rank(e GIDEntry) rank {
	var r rank
	if e.Type == TypeIB {
		if !w.PeerGID.IsZero() && [8]byte(e.GID[:8]) == [8]byte(w.PeerGID[:8]) {
			r.subnet = 65
		}
		return r
	}
	if e.Type == TypeRoCEv2 {
		r.kind = 1
	}
	addr, peer := e.GID.Addr(), w.peer()
	if peer.IsValid() && addr.Is4() == peer.Is4() {
		r.family = 1
	}
	if addr.IsLinkLocalUnicast() == (peer.IsValid() && peer.IsLinkLocalUnicast()) {
		r.scope = 1
	}
	if e.Prefix.IsValid() && e.Prefix.Contains(peer) {
		r.subnet = e.Prefix.Bits() + 1
	}
	if w.Route.Source.IsValid() && addr == w.Route.Source.WithZone("").Unmap() {
		r.source = 1
	}
	return r
}

func (r rank) compare(o rank) int {
	return cmp.Or(
		cmp.Compare(r.kind, o.kind),
		cmp.Compare(r.family, o.family),
		cmp.Compare(r.scope, o.scope),
		cmp.Compare(r.subnet, o.subnet),
		cmp.Compare(r.source, o.source),
	)
}

// behind says which rule put r behind the rank of the winner.
func (r rank) behind(winner rank, won GIDEntry) string {
	var rule string
	switch {
	case r.kind != winner.kind:
		rule = "RoCE v2 goes before v1"
	case r.family != winner.family:
		rule = "the peer's address family goes first"
	case r.scope != winner.scope:
		rule = "its scope fits the peer less"
	case r.subnet != winner.subnet:
		rule = "the peer is not in its subnet, or in a wider one"
	case r.source != winner.source:
		rule = "not the source address of the route"
	default:
		rule = "as good, but not the first"
	}
	return fmt.Sprintf("index %d instead: %s", won.Index, rule)
}
