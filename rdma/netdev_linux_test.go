package rdma

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestRetryDump(t *testing.T) {
	for _, c := range []struct {
		fail, calls int
		err         error
	}{
		{0, 1, nil}, {netlinkTries - 1, netlinkTries, nil}, {99, netlinkTries, netlink.ErrDumpInterrupted},
	} {
		calls := 0
		got, err := retryDump(func() (int, error) {
			calls++
			if calls <= c.fail {
				return -1, netlink.ErrDumpInterrupted
			}
			return 7, nil
		})
		if calls != c.calls || !errors.Is(err, c.err) || err == nil && got != 7 {
			t.Errorf("%d interrupted: %d calls, %d, %v", c.fail, calls, got, err)
		}
	}
	calls := 0
	if _, err := retryDump(func() (int, error) { calls++; return 0, unix.ENOBUFS }); calls != 1 || !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("another error: %d calls, %v", calls, err)
	}
}

func TestJoinNetdevs(t *testing.T) {
	ipNet := func(text string) *net.IPNet {
		p := netip.MustParsePrefix(text)
		return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	}
	links := []netlink.Link{
		&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "eth2.10", Index: 4, ParentIndex: 3}, VlanId: 10},
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth2", Index: 3, HardwareAddr: net.HardwareAddr{1, 2, 3, 4, 5, 6}}},
		&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "moved.20", Index: 8, ParentIndex: 77}, VlanId: 20}, // parent in another namespace
	}
	got := joinNetdevs(links, []netlink.Addr{
		{IPNet: ipNet("10.9.0.1/24"), LinkIndex: 3},
		{IPNet: ipNet("10.8.0.1/32"), Peer: ipNet("10.8.0.2/32"), LinkIndex: 4},
		{IPNet: ipNet("fd00::1/64"), LinkIndex: 3},
		{IPNet: ipNet("192.0.2.1/24"), LinkIndex: 99}, // of a netdev that came between the two lists
	})
	if len(got) != 3 || got[0].VLAN != 10 || got[0].Parent != "eth2" || got[1].VLAN != 0 || got[2].VLAN != 20 || got[2].Parent != "" {
		t.Fatalf("%+v", got)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.8.0.1/32"), netip.MustParsePrefix("10.8.0.2/32")}; !slices.Equal(got[0].Prefixes, want) {
		t.Errorf("%v, want %v", got[0].Prefixes, want)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64")}; !slices.Equal(got[1].Prefixes, want) {
		t.Errorf("%v, want %v", got[1].Prefixes, want)
	}
}

// TestRealNetdevs compares with what the standard library says of this host.
func TestRealNetdevs(t *testing.T) {
	got, err := hostNetdevs()
	if err != nil {
		t.Fatal(err)
	}
	want, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d netdevs, net.Interfaces has %d", len(got), len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(d Netdev) bool { return d.Index == w.Index })
		if i < 0 {
			t.Errorf("no %s", w.Name)
			continue
		}
		addrs, err := w.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			if p := netip.MustParsePrefix(a.String()); !slices.Contains(got[i].Prefixes, p) {
				t.Errorf("%s has %v, not %v", w.Name, got[i].Prefixes, p)
			}
		}
		if got[i].Name != w.Name || len(w.HardwareAddr) > 0 && got[i].MAC.String() != w.HardwareAddr.String() {
			t.Errorf("%+v, want %+v", got[i], w)
		}
	}
}

// TestRealRoutes asks the kernel in a network namespace of its own.
func TestRealRoutes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	// The thread is not unlocked: it ends with the test's goroutine, and the
	// namespace with it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ra"}, PeerName: "rb"}))
	for name, addrs := range map[string][]string{"lo": nil, "rb": nil, "ra": {"10.77.0.1/24", "10.77.0.2/24", "fd00:77::1/64"}} {
		link, err := h.LinkByName(name)
		must(err)
		for _, a := range addrs {
			parsed, err := netlink.ParseAddr(a)
			must(err)
			parsed.Flags = unix.IFA_F_NODAD
			must(h.AddrAdd(link, parsed))
		}
		must(h.LinkSetUp(link))
	}
	ra, err := h.LinkByName("ra")
	must(err)
	route := func(dst, gw, src string) {
		t.Helper()
		p := netip.MustParsePrefix(dst)
		must(h.RouteAdd(&netlink.Route{
			LinkIndex: ra.Attrs().Index, Gw: net.ParseIP(gw), Src: net.ParseIP(src),
			Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
		}))
	}
	route("192.0.2.0/24", "10.77.0.254", "")
	route("198.51.100.0/24", "10.77.0.254", "10.77.0.2")
	route("2001:db8::/32", "fd00:77::fe", "")

	for _, c := range []struct {
		peer string
		want Route
	}{
		{"10.77.0.9", Route{Netdev: "ra", Source: addr("10.77.0.1")}},
		{"::ffff:10.77.0.9", Route{Netdev: "ra", Source: addr("10.77.0.1")}},
		{"192.0.2.9", Route{Netdev: "ra", Source: addr("10.77.0.1"), Gateway: addr("10.77.0.254")}},
		{"198.51.100.9", Route{Netdev: "ra", Source: addr("10.77.0.2"), Gateway: addr("10.77.0.254")}},
		{"fd00:77::9", Route{Netdev: "ra", Source: addr("fd00:77::1")}},
		{"2001:db8::9", Route{Netdev: "ra", Source: addr("fd00:77::1"), Gateway: addr("fd00:77::fe")}},
		{"10.77.0.2", Route{Netdev: "lo", Source: addr("10.77.0.2"), Local: true}},
		{"127.0.0.5", Route{Netdev: "lo", Source: addr("127.0.0.1"), Local: true}},
	} {
		got, err := RouteTo(addr(c.peer))
		if c.want.Local {
			got.Source = c.want.Source // differs between kernels, and does not matter
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.peer, got, err, c.want)
		}
	}
	if got, err := RouteTo(addr("fe80::9%ra")); err != nil || got.Netdev != "ra" {
		t.Errorf("link-local: %+v, %v", got, err)
	}
	if got, err := RouteTo(addr("203.0.113.1")); !errors.Is(err, ErrNoRoute) {
		t.Errorf("unreachable: %+v, %v", got, err)
	}
	if got, err := RouteTo(netip.Addr{}); err == nil {
		t.Errorf("no address: %+v", got)
	}
	if got, err := mappedDevice("lo"); err == nil {
		t.Errorf("rdmamap knows lo now: %q; the fallback's reason in Host.on is out of date", got)
	}
	if c, err := DeviceFor(ask("10.77.0.9")); err == nil {
		t.Errorf("chose %v", c) // a device there is, but not on a netdev of this namespace
	} else if !errors.Is(err, ErrNoDevice) {
		t.Error(err)
	}
}
