package rdma

import (
	"cmp"
	"fmt"
	"strings"
)

// rank orders entries that can all work. Fields decide in this order, higher is
// better; port and index break ties.
type rank struct {
	kind   int // RoCE v2 before v1
	scope  int // global, or link-local for a link-local peer
	family int // that of the peer
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
		cmp.Compare(r.scope, o.scope),
		cmp.Compare(r.family, o.family),
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
	case r.scope != winner.scope:
		rule = "its scope fits the peer less"
	case r.family != winner.family:
		rule = "the peer's address family goes first"
	case r.subnet != winner.subnet:
		rule = "the peer is not in its subnet, or in a wider one"
	case r.source != winner.source:
		rule = "not the source address of the route"
	default:
		rule = "as good, but not the first"
	}
	return fmt.Sprintf("index %d instead: %s", won.Index, rule)
}

// merits says what speaks for the entry that was chosen.
func (r rank) merits(e GIDEntry) string {
	var merits []string
	if r.subnet > 0 && e.Type == TypeIB {
		merits = append(merits, "same subnet prefix as the peer")
	} else if r.subnet > 0 {
		merits = append(merits, "the peer is in "+e.Prefix.Masked().String())
	}
	if r.source > 0 {
		merits = append(merits, "source address of the route")
	}
	if e.Type != TypeIB && r.scope == 0 {
		merits = append(merits, "only for want of an entry of better scope")
	}
	if e.Type == TypeRoCEv1 {
		merits = append(merits, "no RoCE v2 entry fits")
	}
	if len(merits) == 0 {
		return "chosen"
	}
	return "chosen: " + strings.Join(merits, ", ")
}
