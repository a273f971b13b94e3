package rdma

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// GIDWant is what the connection needs of an entry. Zero fields are not known
// and put no condition, but for Explicit.
type GIDWant struct {
	Peer      netip.Addr // where packets go, when the peer's GID is not known yet
	PeerGID   GID        // the GID that the peer chose
	PeerType  GIDType    // and its type
	LinkLayer LinkLayer  // of the port
	Explicit  int        // wanted index; -1: choose
	Route     Route      // to the peer; Route.Netdev is a condition, the rest decides between entries
}

// ChooseGID picks the entry to use as sgid_index. It is a pure function of its
// arguments; the order of the table does not matter.
//
// An entry is out when it cannot work: it is empty, its netdev is not in this
// network namespace or does not own it, its type is not the peer's, its address
// family is not that of the peer's GID, the route to the peer leaves by another
// netdev, or it is link-local or RoCE v1 and the peer is behind a router.
//
// RoCE v1 and v2 do not interoperate, so one side decides and the other
// follows. Who does not know PeerType (the dialling side) takes v2 if any v2
// entry can work, v1 only if none can. Who knows it takes that type or none.
//
// Among the entries left, these decide in turn: RoCE v2 before v1; global before
// link-local, turned around for a link-local peer; the peer's address family;
// the smallest subnet that holds the peer; the source address of the route; the
// lower port and index. On InfiniBand only the subnet prefix of the peer and the
// index count.
//
// An explicit index wins over all rules but the ones that make a connection
// impossible: such an entry is an error, not a reason to take another one.
//
// The trace has the verdict on every live entry, also on error. The error is a
// *NoGIDError.
func ChooseGID(table []GIDEntry, want GIDWant) (GIDEntry, Trace, error) {
	sorted := slices.Clone(table)
	slices.SortFunc(sorted, compareEntries)

	var trace Trace
	best := -1
	var bestRank rank
	for _, e := range sorted {
		if e.GID.IsZero() {
			continue
		}
		v := Verdict{Entry: e, Reason: want.out(e)}
		if v.Reason == "" {
			r := want.rank(e)
			if best < 0 || r.compare(bestRank) > 0 {
				best, bestRank = len(trace), r
			}
		}
		trace = append(trace, v)
	}
	if best < 0 {
		return GIDEntry{}, trace, &NoGIDError{Cause: want.cause(trace), Trace: trace}
	}
	won := trace[best].Entry
	for i := range trace {
		v := &trace[i]
		switch {
		case i == best && want.Explicit >= 0:
			v.Chosen, v.Reason = true, "asked for"
		case i == best:
			v.Chosen, v.Reason = true, bestRank.merits(won)
		case v.Reason == "":
			v.Reason = want.rank(v.Entry).behind(bestRank, won)
		}
	}
	return won, trace, nil
}

func compareEntries(a, b GIDEntry) int {
	return cmp.Or(
		cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Index, b.Index),
		// Real tables end here; the rest makes the outcome independent of the
		// order even when two rows claim one index.
		slices.Compare(a.GID[:], b.GID[:]),
		cmp.Compare(a.Type, b.Type),
		cmp.Compare(a.Netdev, b.Netdev),
		cmp.Compare(a.NetdevIndex, b.NetdevIndex),
		cmp.Compare(a.Presence, b.Presence),
		a.Prefix.Compare(b.Prefix),
		cmp.Compare(a.VLAN, b.VLAN),
		cmp.Compare(a.Parent, b.Parent),
	)
}

// out says why the entry is not among those to choose from; "" if it is.
func (w GIDWant) out(e GIDEntry) string {
	if reason := w.impossible(e); reason != "" {
		return reason
	}
	switch {
	case w.Explicit < 0:
		return w.unfit(e)
	case w.Explicit != e.Index:
		return fmt.Sprintf("could be used, but index %d was asked for", w.Explicit)
	}
	return ""
}

// impossible says why the entry can never carry this connection; "" if it may.
func (w GIDWant) impossible(e GIDEntry) string {
	switch {
	case e.Type == TypeUnknown:
		return "its type is not known"
	case w.LinkLayer == LinkLayerInfiniBand && e.Type != TypeIB,
		w.LinkLayer == LinkLayerEthernet && e.Type == TypeIB:
		return fmt.Sprintf("%v entry on an %v port", e.Type, w.LinkLayer)
	case w.PeerType != TypeUnknown && e.Type != w.PeerType:
		return fmt.Sprintf("%v, the peer uses %v", e.Type, w.PeerType)
	case e.Type == TypeIB:
		return ""
	case e.Presence == Foreign:
		return fmt.Sprintf("%s of this network namespace does not own it: stale, or of another namespace's %[1]s", e.Netdev)
	case e.Presence != Present && e.Netdev == "":
		return "the kernel names no netdev for it"
	case e.Presence != Present:
		return fmt.Sprintf("netdev %s is not in this network namespace", e.Netdev)
	case !w.PeerGID.IsZero() && e.GID.Addr().Is4() != w.PeerGID.Addr().Is4():
		return fmt.Sprintf("%s, the peer's GID is %s", family(e.GID.Addr()), family(w.PeerGID.Addr()))
	}
	return ""
}

// unfit says why the entry is not chosen without being asked for.
func (w GIDWant) unfit(e GIDEntry) string {
	if e.Type == TypeIB {
		return ""
	}
	routed := w.Route.Gateway.IsValid()
	switch {
	case w.Route.Netdev != "" && e.Netdev != w.Route.Netdev:
		return fmt.Sprintf("the route to the peer leaves by %s", w.Route.Netdev)
	case e.GID.IsLinkLocal() && routed:
		return fmt.Sprintf("link-local, the peer is behind router %v", w.Route.Gateway)
	case e.Type == TypeRoCEv1 && routed:
		return fmt.Sprintf("RoCE v1 is not routed, the peer is behind router %v", w.Route.Gateway)
	}
	return ""
}

// peer is the address that the chosen GID talks to.
func (w GIDWant) peer() netip.Addr {
	if !w.PeerGID.IsZero() {
		return w.PeerGID.Addr()
	}
	return w.Peer.WithZone("").Unmap()
}

// cause is the one line on top of the trace when nothing was chosen.
func (w GIDWant) cause(trace Trace) string {
	if w.Explicit >= 0 {
		for _, v := range trace {
			if v.Entry.Index == w.Explicit {
				return fmt.Sprintf("index %d, which was asked for, cannot be used", w.Explicit)
			}
		}
		return fmt.Sprintf("index %d, which was asked for, is empty", w.Explicit)
	}
	if len(trace) == 0 {
		return "the table is empty: give the netdev an address, and bring it up"
	}
	return fmt.Sprintf("none of %d entries fits", len(trace))
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
