package rdma

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	netlinkTimeout = 2 * time.Second // of one receive; the kernel answers in microseconds
	netlinkTries   = 4               // dumps that a change of the table interrupted are asked for again
)

// routeTo asks the kernel's routing table of this network namespace. A
// link-local IPv6 address needs its zone: alone it does not name a link.
func routeTo(peer netip.Addr) (Route, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Route{}, fmt.Errorf("netlink socket: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(netlinkTimeout); err != nil {
		return Route{}, fmt.Errorf("netlink socket timeout: %w", err)
	}
	options := &netlink.RouteGetOptions{Oif: peer.Zone()}
	found, err := retryDump(func() ([]netlink.Route, error) {
		return h.RouteGetWithOptions(net.IP(peer.AsSlice()), options)
	})
	if err != nil {
		return Route{}, fmt.Errorf("%w to %v: %w", ErrNoRoute, peer, err)
	}
	for _, r := range found {
		link, err := retryDump(func() (netlink.Link, error) { return h.LinkByIndex(r.LinkIndex) })
		if err != nil {
			return Route{}, fmt.Errorf("netdev %d of the route to %v: %w", r.LinkIndex, peer, err)
		}
		src, _ := netip.AddrFromSlice(r.Src)
		gw, _ := netip.AddrFromSlice(r.Gw)
		if via, ok := r.Via.(*netlink.Via); ok && !gw.IsValid() {
			gw, _ = netip.AddrFromSlice(via.Addr) // an IPv4 route over an IPv6 gateway (RFC 5549)
		}
		return Route{
			Netdev:  link.Attrs().Name,
			Source:  src.Unmap(),
			Gateway: gw.Unmap(),
			Local:   r.Type == unix.RTN_LOCAL,
		}, nil
	}
	return Route{}, fmt.Errorf("%w to %v: empty answer", ErrNoRoute, peer)
}

// hostNetdevs lists the netdevs of this network namespace, loopback included.
func hostNetdevs() ([]Netdev, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(netlinkTimeout); err != nil {
		return nil, fmt.Errorf("netlink socket timeout: %w", err)
	}
	links, err := retryDump(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list of netdevs: %w", err)
	}
	addrs, err := retryDump(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list of addresses: %w", err)
	}
	return joinNetdevs(links, addrs), nil
}

func joinNetdevs(links []netlink.Link, addrs []netlink.Addr) []Netdev {
	out := make([]Netdev, 0, len(links))
	at := make(map[int]int, len(links))
	for _, l := range links {
		a := l.Attrs()
		d := Netdev{Name: a.Name, Index: a.Index, MAC: a.HardwareAddr}
		if v, ok := l.(*netlink.Vlan); ok {
			d.VLAN = v.VlanId
			for _, below := range links {
				if below.Attrs().Index == a.ParentIndex {
					d.Parent = below.Attrs().Name
				}
			}
		}
		at[a.Index] = len(out)
		out = append(out, d)
	}
	for _, a := range addrs {
		i, ok := at[a.LinkIndex]
		if !ok {
			continue // appeared between the two dumps
		}
		for _, n := range []*net.IPNet{a.IPNet, a.Peer} {
			if p, ok := prefixOf(n); ok {
				out[i].Prefixes = append(out[i].Prefixes, p)
			}
		}
	}
	return out
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), true
}

// retryDump repeats a query while the kernel says that its table changed under
// the dump, which makes the answer incomplete.
func retryDump[T any](query func() (T, error)) (T, error) {
	var got T
	var err error
	for range netlinkTries {
		if got, err = query(); !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return got, err
}

// mappedDevice asks rdmamap for the device of a netdev. It fails by design of
// that package for lo and tun, for IPoIB on a second port, and while the device
// has no GID; with several devices on a netdev it returns any.
func mappedDevice(netdev string) (string, error) {
	name, err := rdmamap.GetRdmaDeviceForNetdevice(netdev)
	if err != nil {
		return "", fmt.Errorf("rdmamap: %w", err)
	}
	return name, nil // "": nothing matches
}

// NetnsMode returns "shared" or "exclusive": whether RDMA devices are seen from
// every network namespace or only from the one they were moved to.
func NetnsMode() (string, error) {
	h, err := netlink.NewHandle(unix.NETLINK_RDMA)
	if err != nil {
		return "", fmt.Errorf("RDMA netlink socket: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(netlinkTimeout); err != nil {
		return "", fmt.Errorf("netlink socket timeout: %w", err)
	}
	mode, err := retryDump(h.RdmaSystemGetNetnsMode)
	if err != nil {
		return "", fmt.Errorf("RDMA network namespace mode: %w", err)
	}
	return mode, nil
}
