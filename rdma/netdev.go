package rdma

import (
	"net"
	"net/netip"
)

// Netdev is a network interface of this namespace, as far as choosing a GID
// needs it.
type Netdev struct {
	Name     string
	Index    int
	MAC      net.HardwareAddr // 20 bytes on IPoIB, the last 8 are the port GUID
	Prefixes []netip.Prefix   // its addresses with their subnets, peers of point-to-point links as /32 or /128
	VLAN     int              // VLAN ID, 0 none
	Parent   string           // netdev below a VLAN netdev, "" none
}

// Route is how packets to an address leave this host. The zero value means: not
// known.
type Route struct {
	Netdev  string
	Source  netip.Addr // what the kernel takes as source address; may be invalid
	Gateway netip.Addr // invalid when the address is on the link
	Local   bool       // the address belongs to this host
}

// owns reports whether the GID was made from an address or the MAC of the
// netdev, and from which address.
//
// RoCE GIDs are the netdev's addresses plus one default GID, fe80 with the
// EUI-64 of the MAC, also where IPv6 is off or makes its link-local address
// otherwise (Linux drivers/infiniband/core/roce_gid_mgmt.c). The two middle
// bytes of that EUI-64 may carry a VLAN ID or a device ID.
func (d Netdev) owns(g GID) (netip.Prefix, bool) {
	addr := g.Addr()
	for _, p := range d.Prefixes {
		if p.Addr().WithZone("").Unmap() == addr {
			return netip.PrefixFrom(addr, p.Bits()), true
		}
	}
	if len(d.MAC) != 6 || g[0] != 0xfe || g[1] != 0x80 {
		return netip.Prefix{}, false
	}
	m := d.MAC
	front := [3]byte{m[0] ^ 2, m[1], m[2]}
	return netip.Prefix{}, [3]byte(g[8:11]) == front && [3]byte(g[13:16]) == [3]byte(m[3:6])
}

// AnnotateGIDs fills what this network namespace knows about each entry's
// netdev, found by index if the entry has one, else by name: Presence, Prefix,
// VLAN, Parent and the missing one of Netdev and NetdevIndex. It changes the
// table in place.
func AnnotateGIDs(table []GIDEntry, netdevs []Netdev) {
	for i := range table {
		e := &table[i]
		e.Presence = Absent
		for _, d := range netdevs {
			if e.NetdevIndex != 0 && e.NetdevIndex != d.Index || e.NetdevIndex == 0 && e.Netdev != d.Name {
				continue
			}
			if e.Netdev != "" && e.Netdev != d.Name {
				e.Presence = Foreign
				break
			}
			e.Presence = Foreign
			if prefix, ok := d.owns(e.GID); ok {
				e.Presence, e.Prefix = Present, prefix
				e.Netdev, e.NetdevIndex = d.Name, d.Index
				e.VLAN, e.Parent = d.VLAN, d.Parent
			}
			break
		}
	}
}
