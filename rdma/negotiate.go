package rdma

import (
	"fmt"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// terms are what both ends of a connection use.
type terms struct {
	pathMTU ibverbs.MTU
	reads   int // READs in flight: the requester's max_rd_atomic, the responder's max_dest_rd_atomic
}

// readsInFlight bounds the READs that are wanted by what a device can have under way
// as requester, and by what it can serve as responder. The two limits differ on
// some devices.
func readsInFlight(wanted int, attr ibverbs.DeviceAttr) (init, dest int) {
	return min(wanted, attr.MaxInitRdAtomic, 255), min(wanted, attr.MaxRdAtomic, 255)
}

// negotiate is what the exporting end does with an offer: the smaller of both
// active MTUs, and as many READs in flight as both the requester can have and
// this end can serve. (The reverse direction carries no READs.)
func negotiate(own, peer endpoint) (terms, error) {
	if err := compatible(own, peer); err != nil {
		return terms{}, err
	}
	t := terms{pathMTU: min(own.mtu, peer.mtu), reads: min(own.dest, peer.init)}
	if t.reads < 1 {
		return terms{}, fmt.Errorf("%w: %d READs in flight wanted, %d served", ErrIncompatible, peer.init, own.dest)
	}
	return t, nil
}

// agree is what the reading end does with the answer: it checks that the peer's
// terms are within its own limits, as the peer may be another implementation.
func agree(own endpoint, a answer) (terms, error) {
	if a.echo != own.nonce {
		return terms{}, ErrStaleAnswer
	}
	if err := compatible(own, a.endpoint); err != nil {
		return terms{}, err
	}
	if want := min(own.mtu, a.mtu); a.pathMTU > want {
		return terms{}, fmt.Errorf("%w: path MTU %d, the smaller of the ports' active MTUs (%d here, %d there) is %d",
			ErrHandshake, a.pathMTU, own.mtu, a.mtu, want)
	}
	return terms{pathMTU: a.pathMTU, reads: min(own.init, a.reads)}, nil
}

func compatible(own, peer endpoint) error {
	switch {
	case own.link != peer.link:
		return fmt.Errorf("%w: %v here, %v there", ErrIncompatible, own.link, peer.link)
	case own.gidType != peer.gidType:
		return fmt.Errorf("%w: %v here, %v there", ErrIncompatible, own.gidType, peer.gidType)
	case own.link == LinkLayerEthernet && own.gid.Addr().Is4() != peer.gid.Addr().Is4():
		return fmt.Errorf("%w: GID %v here, %v there", ErrIncompatible, own.gid, peer.gid)
	}
	return nil
}

// pathTo is the address vector for packets to the peer. On Ethernet a GRH is the
// only way (the kernel refuses others). On InfiniBand packets go by LID, with a
// GRH when the peer is in another subnet.
func pathTo(own, peer endpoint, port, sgidIndex int, trafficClass uint8) ibverbs.Path {
	p := ibverbs.Path{Port: port}
	grh := &ibverbs.GlobalRoute{DGID: peer.gid, SGIDIndex: sgidIndex, HopLimit: hopLimit, TrafficClass: trafficClass}
	if own.link == LinkLayerEthernet {
		p.GRH = grh
		return p
	}
	p.DLID = peer.lid
	if [8]byte(own.gid[:8]) != [8]byte(peer.gid[:8]) {
		p.GRH = grh
	}
	return p
}
