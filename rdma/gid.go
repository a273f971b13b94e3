package rdma

import (
	"fmt"
	"net/netip"
	"strings"
)

// GID is the 16-byte address of a port: on RoCE the IPv6 form of an address of
// its netdev (IPv4 as ::ffff:a.b.c.d), on InfiniBand subnet prefix and port
// GUID. Bytes are in network order (IBA specification 1.4, section 4.1).
type GID [16]byte

// ParseGID parses the text of a sysfs gids file or of [GID.String]; white space
// around it is ignored. It is the inverse of String.
func ParseGID(text string) (GID, error) {
	text = strings.TrimSpace(text)
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		if len(text) > 64 {
			text = text[:64] + "..."
		}
		return GID{}, fmt.Errorf("%w: %q", ErrBadGID, text)
	}
	return addr.As16(), nil
}

// GIDFrom returns the GID that a RoCE port has for an address of its netdev.
// The zone is dropped; the zero Addr gives the zero GID.
func GIDFrom(addr netip.Addr) GID {
	if !addr.IsValid() {
		return GID{}
	}
	return addr.As16()
}

// String returns the shortest IPv6 text form, as `ip` and `rdma` print it.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Addr returns the address inside the GID, an IPv4-mapped one as IPv4. On
// InfiniBand it is no IP address, and only good for comparing.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero tells an empty slot of a GID table.
func (g GID) IsZero() bool { return g == GID{} }

// IsLinkLocal reports fe80::/10 and 169.254.0.0/16: bytes that routers drop. On
// InfiniBand fe80 is the default subnet prefix and says nothing of the kind.
func (g GID) IsLinkLocal() bool { return g.Addr().IsLinkLocalUnicast() }

// GIDType says how packets sent from a GID look. RoCE v1 and v2 do not talk to
// each other, though the two often have entries with the same bytes.
type GIDType uint8

const (
	TypeUnknown GIDType = iota // kernel older than 4.4, or not asked
	TypeIB                     // InfiniBand: LID and GRH
	TypeRoCEv1                 // Ethertype 0x8915: not routable
	TypeRoCEv2                 // UDP port 4791
)

// String returns the kernel's word for the type.
func (t GIDType) String() string {
	switch t {
	case TypeUnknown:
		return "unknown type"
	case TypeIB:
		return "IB"
	case TypeRoCEv1:
		return "RoCE v1"
	case TypeRoCEv2:
		return "RoCE v2"
	}
	return fmt.Sprintf("GID type %d", uint8(t))
}

// LinkLayer is what a port is plugged into.
type LinkLayer uint8

const (
	LinkLayerUnknown LinkLayer = iota
	LinkLayerInfiniBand
	LinkLayerEthernet
)

// String returns the text of the sysfs file link_layer.
func (l LinkLayer) String() string {
	switch l {
	case LinkLayerUnknown:
		return "Unknown"
	case LinkLayerInfiniBand:
		return "InfiniBand"
	case LinkLayerEthernet:
		return "Ethernet"
	}
	return fmt.Sprintf("link layer %d", uint8(l))
}

// Presence says what this network namespace knows about an entry's netdev. A
// RoCE QP needs its netdev here: modify to RTR fails with ENODEV otherwise.
type Presence uint8

const (
	// PresenceUnknown is an entry that [AnnotateGIDs] has not seen.
	PresenceUnknown Presence = iota
	// Present: the netdev is here and owns the address or the MAC in the GID.
	Present
	// Absent: no netdev of that name or index is in this namespace, or the
	// kernel names none for the entry.
	Absent
	// Foreign: a netdev of that name is here, but it does not own the GID:
	// another namespace's netdev has the same name, or the entry is stale.
	Foreign
)

// GIDEntry is one live row of a port's GID table.
type GIDEntry struct {
	Port  int // from 1
	Index int // sgid_index of an address handle; rows between may be empty
	GID   GID
	Type  GIDType

	Netdev      string // "" on InfiniBand
	NetdevIndex int    // 0 not known
	Presence    Presence

	// Filled by AnnotateGIDs for an entry that is Present.

	Prefix netip.Prefix // the netdev's address in the GID with its subnet; zero for a GID made from the MAC
	VLAN   int          // VLAN ID of the netdev, 0 none
	Parent string       // netdev below a VLAN netdev
}

// String is the entry as logs show it, without a verdict.
func (e GIDEntry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "port %d gid %d %s %s", e.Port, e.Index, e.GID, e.Type)
	if e.Netdev != "" {
		fmt.Fprintf(&b, " on %s", e.Netdev)
	}
	if e.VLAN != 0 {
		fmt.Fprintf(&b, " (VLAN %d of %s)", e.VLAN, e.Parent)
	}
	return b.String()
}
