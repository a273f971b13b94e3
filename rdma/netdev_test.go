package rdma

import (
	"net/netip"
	"testing"
)

func TestAnnotateGIDs(t *testing.T) {
	netdevs := []Netdev{
		netdev("eth2", 3, "1c:34:da:12:34:56", "10.9.0.1/24", "fe80::1234/64", "fd00:9::1/48"),
		vlanOf("eth2", 10, netdev("eth2.10", 4, "1c:34:da:12:34:56", "10.10.0.1/16")),
		netdev("tun0", 5, "", "10.8.0.1/32", "10.8.0.2/32"),
	}
	for _, c := range []struct {
		name   string
		gid    string
		netdev string
		index  int
		want   Presence
		prefix string // "" none
	}{
		{"IPv4", "10.9.0.1", "eth2", 0, Present, "10.9.0.1/24"},
		{"IPv6", "fd00:9::1", "eth2", 0, Present, "fd00:9::1/48"},
		{"stable-privacy link-local", "fe80::1234", "eth2", 0, Present, "fe80::1234/64"},
		{"default GID, of the MAC", "fe80::1e34:daff:fe12:3456", "eth2", 0, Present, ""},
		{"default GID with a VLAN ID in it", "fe80::1e34:da00:0a12:3456", "eth2.10", 0, Present, ""},
		{"of another MAC: stale", "fe80::1e34:daff:fe12:3457", "eth2", 0, Foreign, ""},
		{"MAC, but not link-local", "fd80::1e34:daff:fe12:3456", "eth2", 0, Foreign, ""},
		{"address of the other netdev", "10.9.0.1", "eth2.10", 0, Foreign, ""},
		{"address that was removed", "10.9.0.9", "eth2", 0, Foreign, ""},
		{"another namespace's", "10.9.0.1", "eth7", 0, Absent, ""},
		{"no netdev", "10.9.0.1", "", 0, Absent, ""},
		{"point-to-point, the kernel uses the peer's address", "10.8.0.2", "tun0", 0, Present, "10.8.0.2/32"},
		{"by index", "10.10.0.1", "", 4, Present, "10.10.0.1/16"},
		{"index and name agree", "10.10.0.1", "eth2.10", 4, Present, "10.10.0.1/16"},
		{"index and name differ", "10.10.0.1", "eth2", 4, Foreign, ""},
		{"index of no netdev", "10.9.0.1", "eth2", 99, Absent, ""},
		{"no MAC", "fe80::1", "tun0", 0, Foreign, ""},
	} {
		table := []GIDEntry{{Port: 1, Index: 7, GID: gid(c.gid), Type: TypeRoCEv2, Netdev: c.netdev, NetdevIndex: c.index}}
		AnnotateGIDs(table, netdevs)
		e := table[0]
		want := netip.Prefix{}
		if c.prefix != "" {
			want = netip.MustParsePrefix(c.prefix)
		}
		if e.Presence != c.want || e.Prefix != want {
			t.Errorf("%s: presence %d, prefix %v; want %d, %v", c.name, e.Presence, e.Prefix, c.want, want)
		}
		if e.Presence == Present && (e.Netdev == "" || e.NetdevIndex == 0 || (e.VLAN == 10) != (e.Netdev == "eth2.10")) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func TestOwnerOf(t *testing.T) {
	netdevs := append([]Netdev{loopback}, rxeNetdevs[1:]...)
	for text, want := range map[string]string{
		"10.9.0.1": "v0", "10.10.0.2": "v1.10", "127.0.0.1": "lo", "127.1.2.3": "lo", "::1": "lo", "::ffff:10.9.0.1": "v0",
		"fe80::e8b3:88ff:fe12:7609%v0.10": "v0.10", "fe80::e8b3:88ff:fe12:7609%v0": "v0", "10.9.0.7": "", "fe80::1%v0": "",
	} {
		if got, ok := ownerOf(addr(text), netdevs); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got, ok := ownerOf(netip.Addr{}, netdevs); ok {
		t.Errorf("no address: %q", got)
	}
}
