package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// row is a table entry in the order that people write it. A prefix stands for
// the GID's address and its subnet; "mac:" for a default GID; "!" after the
// netdev for one that is not in this namespace; "?" for one of the same name.
func row(index int, kind GIDType, addr, netdev string) GIDEntry {
	e := GIDEntry{Port: 1, Index: index, Type: kind, Presence: Present}
	if p, err := netip.ParsePrefix(addr); err == nil {
		e.GID, e.Prefix = GIDFrom(p.Addr()), p
	} else if addr != "" {
		e.GID = GIDFrom(netip.MustParseAddr(strings.TrimPrefix(addr, "mac:")))
	}
	switch {
	case kind == TypeIB:
		e.Presence = PresenceUnknown
	case strings.HasSuffix(netdev, "!"):
		e.Presence = Absent
	case strings.HasSuffix(netdev, "?"):
		e.Presence = Foreign
	}
	e.Netdev = strings.TrimRight(netdev, "!?")
	if e.Presence != Present {
		e.Prefix = netip.Prefix{}
	}
	return e
}

const (
	v1 = TypeRoCEv1
	v2 = TypeRoCEv2
)

// Tables of real shapes. Twins: v1 and v2 rows with the same bytes, v1 first.
var (
	twins = []GIDEntry{ // mlx5: default GID, IPv6, IPv4
		row(0, v1, "mac:fe80::1e34:daff:fe12:3456", "eth2"),
		row(1, v2, "mac:fe80::1e34:daff:fe12:3456", "eth2"),
		row(2, v1, "fd00:9::1/64", "eth2"),
		row(3, v2, "fd00:9::1/64", "eth2"),
		row(4, v1, "10.9.0.1/24", "eth2"),
		row(5, v2, "10.9.0.1/24", "eth2"),
	}
	rxe = []GIDEntry{ // all v2, link-local at 0; 3 to 6 are holes
		row(0, v2, "fe80::5054:ff:fe12:3456/64", "v0"),
		row(1, v2, "10.9.0.1/24", "v0"),
		row(2, v2, "", "v0"),
		row(7, v2, "fd00:9::1/64", "v0"),
	}
	linkLocalOnly = []GIDEntry{
		row(0, v1, "mac:fe80::1e34:daff:fe12:3456", "eth2"),
		row(1, v2, "mac:fe80::1e34:daff:fe12:3456", "eth2"),
	}
	ipv6Only = []GIDEntry{ // Broadcom: nothing that looks like IPv4
		row(0, v1, "fe80::be97:e1ff:fe00:1/64", "ens3"),
		row(1, v2, "fe80::be97:e1ff:fe00:1/64", "ens3"),
		row(2, v1, "fd00:aa::7/64", "ens3"),
		row(3, v2, "fd00:aa::7/64", "ens3"),
	}
	vlan = []GIDEntry{
		row(0, v2, "mac:fe80::1e34:daff:fe12:3456", "eth2"),
		row(1, v2, "10.1.0.5/24", "eth2"),
		row(2, v2, "mac:fe80::1e34:daff:fe12:3456", "eth2.10"),
		row(3, v1, "10.10.0.5/24", "eth2.10"),
		row(4, v2, "10.10.0.5/24", "eth2.10"),
		row(5, v2, "10.20.0.5/24", "eth2.20"),
	}
	bond = []GIDEntry{
		row(0, v1, "mac:fe80::1e34:daff:fe12:3456", "bond0"),
		row(1, v2, "mac:fe80::1e34:daff:fe12:3456", "bond0"),
		row(2, v1, "172.16.4.2/20", "bond0"),
		row(3, v2, "172.16.4.2/20", "bond0"),
		row(4, v2, "172.16.9.9/24", "macvlan0"),
	}
	pod = []GIDEntry{ // shared mode: the host's rows, then the pod's own
		row(0, v2, "mac:fe80::1e34:daff:fe12:3456", "ens1f0!"),
		row(1, v2, "10.9.0.1/24", "ens1f0!"),
		row(2, v2, "10.9.0.7/24", "eth0?"),
		row(3, v2, "10.9.0.9/24", "net1"),
	}
	autoconf = []GIDEntry{ // no DHCP server
		row(0, v2, "fe80::be97:e1ff:fe00:1/64", "eth2"),
		row(1, v2, "169.254.7.7/16", "eth2"),
		row(2, v2, "fd00:9::1/64", "eth2"),
	}
	infiniband = []GIDEntry{
		row(0, TypeIB, "fe80::506b:4b03:69:1234", ""),
		row(1, TypeIB, "fec0:0:0:1:506b:4b03:69:1234", ""),
	}
	sameSubnet = []GIDEntry{
		row(4, v2, "10.0.0.9/8", "eth2"),
		row(5, v2, "10.9.0.1/24", "eth2"),
		row(6, v2, "10.9.0.2/24", "eth2"),
		row(7, v2, "10.9.0.3/24", "eth2"),
	}
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func gid(text string) GID { return GIDFrom(addr(text)) }

func onLink(netdev string) Route { return Route{Netdev: netdev} }

func behind(netdev, router string) Route { return Route{Netdev: netdev, Gateway: addr(router)} }

func TestChooseGID(t *testing.T) {
	eth := LinkLayerEthernet
	for _, c := range []struct {
		name  string
		table []GIDEntry
		want  GIDWant // Explicit is set to -1
		index int
	}{
		{"twins: v2, not v1 that comes first", twins, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("eth2")}, 5},
		{"twins: the peer's family", twins, GIDWant{Peer: addr("fd00:9::2"), LinkLayer: eth, Route: onLink("eth2")}, 3},
		{"twins: IPv4-mapped peer is IPv4", twins, GIDWant{Peer: addr("::ffff:10.9.0.2"), LinkLayer: eth}, 5},
		{"twins: nothing known", twins, GIDWant{}, 3},
		{"twins: the peer chose v1", twins, GIDWant{PeerGID: gid("10.9.0.2"), PeerType: v1, LinkLayer: eth, Route: onLink("eth2")}, 4},
		{"twins: the peer chose v2 over IPv6", twins, GIDWant{Peer: addr("10.9.0.2"), PeerGID: gid("fd00:9::2"), PeerType: v2, LinkLayer: eth}, 3},
		{"twins: link-local peer", twins, GIDWant{Peer: addr("fe80::2%eth2"), LinkLayer: eth, Route: onLink("eth2")}, 1},
		{"twins: routed peer", twins, GIDWant{Peer: addr("192.0.2.1"), LinkLayer: eth, Route: behind("eth2", "10.9.0.254")}, 5},
		{"rxe: IPv4-mapped, not link-local index 0", rxe, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("v0")}, 1},
		{"rxe: behind holes", rxe, GIDWant{Peer: addr("fd00:9::2"), LinkLayer: eth, Route: onLink("v0")}, 7},
		{"rxe: peer chose its link-local", rxe, GIDWant{Peer: addr("10.9.0.2"), PeerGID: gid("fe80::2"), PeerType: v2, Route: onLink("v0")}, 0},
		{"link-local only, on the link", linkLocalOnly, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("eth2")}, 1},
		{"IPv6 only, ULA peer", ipv6Only, GIDWant{Peer: addr("fd00:aa::8"), LinkLayer: eth, Route: onLink("ens3")}, 3},
		{"IPv6 only, bootstrap over IPv4", ipv6Only, GIDWant{Peer: addr("10.0.0.8"), LinkLayer: eth}, 3},
		{"IPv6 only, routed peer", ipv6Only, GIDWant{Peer: addr("2001:db8::8"), LinkLayer: eth, Route: behind("ens3", "fe80::1")}, 3},
		{"VLAN: by the route", vlan, GIDWant{Peer: addr("10.10.0.6"), LinkLayer: eth, Route: onLink("eth2.10")}, 4},
		{"VLAN: the other one", vlan, GIDWant{Peer: addr("10.20.0.6"), LinkLayer: eth, Route: onLink("eth2.20")}, 5},
		{"VLAN: untagged", vlan, GIDWant{Peer: addr("10.1.0.6"), LinkLayer: eth, Route: onLink("eth2")}, 1},
		{"VLAN: by subnet where no route is known", vlan, GIDWant{Peer: addr("10.10.0.6"), LinkLayer: eth}, 4},
		{"VLAN: routed over the tagged netdev", vlan, GIDWant{Peer: addr("192.0.2.1"), LinkLayer: eth, Route: behind("eth2.10", "10.10.0.1")}, 4},
		{"bond", bond, GIDWant{Peer: addr("172.16.5.1"), LinkLayer: eth, Route: onLink("bond0")}, 3},
		{"netdev above the bond", bond, GIDWant{Peer: addr("172.16.9.1"), LinkLayer: eth, Route: onLink("macvlan0")}, 4},
		{"container: only its own netdev", pod, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth}, 3},
		{"169.254 is no better than IPv6", autoconf, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("eth2")}, 2},
		{"169.254 for a 169.254 peer", autoconf, GIDWant{Peer: addr("169.254.1.1"), LinkLayer: eth, Route: onLink("eth2")}, 1},
		{"InfiniBand: fe80 is its default prefix", infiniband, GIDWant{Peer: addr("10.9.0.2"), LinkLayer: LinkLayerInfiniBand}, 0},
		{"InfiniBand: the peer's prefix", infiniband, GIDWant{PeerGID: gid("fec0:0:0:1::77"), PeerType: TypeIB, LinkLayer: LinkLayerInfiniBand}, 1},
		{"InfiniBand: a route by Ethernet says nothing", infiniband, GIDWant{Peer: addr("192.0.2.1"), Route: behind("eth0", "10.0.0.1"), LinkLayer: LinkLayerInfiniBand}, 0},
		{"the smaller subnet", sameSubnet, GIDWant{Peer: addr("10.9.0.77"), LinkLayer: eth}, 5},
		{"the wider subnet", sameSubnet, GIDWant{Peer: addr("10.8.0.77"), LinkLayer: eth}, 4},
		{"source address of the route", sameSubnet, GIDWant{Peer: addr("10.9.0.77"), LinkLayer: eth, Route: Route{Netdev: "eth2", Source: addr("10.9.0.3")}}, 7},
		{"source address of the route, routed peer", sameSubnet, GIDWant{Peer: addr("192.0.2.1"), LinkLayer: eth,
			Route: Route{Netdev: "eth2", Source: addr("10.9.0.2"), Gateway: addr("10.9.0.254")}}, 6},
		{"own address: loop through one GID", sameSubnet, GIDWant{Peer: addr("10.9.0.3"), LinkLayer: eth,
			Route: Route{Netdev: "eth2", Source: addr("10.9.0.3"), Local: true}}, 7},
		{"v1 only, on the link", twins[4:5], GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("eth2")}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Explicit = -1
			got, trace, err := ChooseGID(c.table, c.want)
			if err != nil {
				t.Fatalf("%v\n%v", err, trace)
			}
			if got.Index != c.index {
				t.Errorf("index %d, want %d\n%v", got.Index, c.index, trace)
			}
			checkTrace(t, c.table, trace, 1)
		})
	}
}

func TestChooseGIDNothing(t *testing.T) {
	eth := LinkLayerEthernet
	for _, c := range []struct {
		name    string
		table   []GIDEntry
		want    GIDWant // Explicit is set to -1
		reasons []string
	}{
		{"empty table", nil, GIDWant{}, []string{"table is empty"}},
		{"holes only", []GIDEntry{row(0, v2, "", "v0"), row(1, v2, "", "v0")}, GIDWant{}, []string{"table is empty"}},
		{"peer is v2, device is v1", twins[4:5], GIDWant{PeerType: v2, LinkLayer: eth}, []string{"RoCE v1, the peer uses RoCE v2"}},
		{"peer is v1, device is v2", rxe, GIDWant{PeerType: v1, LinkLayer: eth}, []string{"RoCE v2, the peer uses RoCE v1"}},
		{"v1 is not routed", twins[4:5], GIDWant{Peer: addr("192.0.2.1"), LinkLayer: eth, Route: behind("eth2", "10.9.0.254")},
			[]string{"RoCE v1 is not routed, the peer is behind router 10.9.0.254"}},
		{"link-local is not routed", linkLocalOnly, GIDWant{Peer: addr("192.0.2.1"), LinkLayer: eth, Route: behind("eth2", "10.9.0.254")},
			[]string{"link-local, the peer is behind router"}},
		{"peer's GID is IPv4", ipv6Only, GIDWant{PeerGID: gid("10.0.0.8"), LinkLayer: eth}, []string{"IPv6, the peer's GID is IPv4"}},
		{"container without a netdev", pod[:3], GIDWant{Peer: addr("10.9.0.2"), LinkLayer: eth},
			[]string{"ens1f0 is not in this network namespace", "eth0 of this network namespace does not own it"}},
		{"route by another netdev", twins, GIDWant{Peer: addr("10.0.0.2"), LinkLayer: eth, Route: onLink("eth0")}, []string{"leaves by eth0"}},
		{"kernel names no netdev", []GIDEntry{{Port: 1, GID: gid("10.9.0.1"), Type: v2}}, GIDWant{}, []string{"names no netdev"}},
		{"not annotated", []GIDEntry{{Port: 1, GID: gid("10.9.0.1"), Type: v2, Netdev: "v0"}}, GIDWant{}, []string{"v0 is not in this"}},
		{"type not known", []GIDEntry{row(0, TypeUnknown, "10.9.0.1/24", "v0")}, GIDWant{}, []string{"type is not known"}},
		{"IB entry on Ethernet", infiniband, GIDWant{LinkLayer: eth}, []string{"IB entry on an Ethernet port"}},
		{"RoCE entry on InfiniBand", rxe, GIDWant{LinkLayer: LinkLayerInfiniBand}, []string{"RoCE v2 entry on an InfiniBand port"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Explicit = -1
			got, trace, err := ChooseGID(c.table, c.want)
			if err == nil {
				t.Fatalf("chose %v\n%v", got, trace)
			}
			checkNoGID(t, err, trace, c.reasons)
			checkTrace(t, c.table, trace, 0)
		})
	}
}

func TestChooseGIDExplicit(t *testing.T) {
	eth := LinkLayerEthernet
	for _, c := range []struct {
		name    string
		table   []GIDEntry
		want    GIDWant
		reasons []string // nil: it is chosen
	}{
		{"against preference: link-local", twins, GIDWant{Explicit: 1, Peer: addr("10.9.0.2"), LinkLayer: eth, Route: onLink("eth2")}, nil},
		{"against preference: v1", twins, GIDWant{Explicit: 4, Peer: addr("10.9.0.2"), LinkLayer: eth}, nil},
		{"against the route", twins, GIDWant{Explicit: 5, Peer: addr("10.0.0.2"), LinkLayer: eth, Route: onLink("eth0")}, nil},
		{"index 0", rxe, GIDWant{Explicit: 0, Peer: addr("10.9.0.2"), LinkLayer: eth}, nil},
		{"a hole", rxe, GIDWant{Explicit: 2, LinkLayer: eth}, []string{"index 2, which was asked for, is empty", "gid 1"}},
		{"past the end", rxe, GIDWant{Explicit: 99, LinkLayer: eth}, []string{"index 99, which was asked for, is empty"}},
		{"not in this namespace", pod, GIDWant{Explicit: 1, LinkLayer: eth}, []string{"index 1, which was asked for, cannot be used", "ens1f0 is not in"}},
		{"stale", pod, GIDWant{Explicit: 2, LinkLayer: eth}, []string{"eth0 of this network namespace does not own it"}},
		{"v1 for a v2 peer", twins, GIDWant{Explicit: 4, PeerType: v2, LinkLayer: eth}, []string{"RoCE v1, the peer uses RoCE v2"}},
		{"IPv4 for an IPv6 peer", twins, GIDWant{Explicit: 5, PeerGID: gid("fd00:9::2"), LinkLayer: eth}, []string{"IPv4, the peer's GID is IPv6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, trace, err := ChooseGID(c.table, c.want)
			if c.reasons != nil {
				if err == nil {
					t.Fatalf("chose %v", got)
				}
				checkNoGID(t, err, trace, c.reasons)
				checkTrace(t, c.table, trace, 0)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Index != c.want.Explicit {
				t.Errorf("index %d", got.Index)
			}
			checkTrace(t, c.table, trace, 1)
		})
	}
}

func checkNoGID(t *testing.T, err error, trace Trace, reasons []string) {
	t.Helper()
	var typed *NoGIDError
	if !errors.Is(err, ErrNoGID) || !errors.As(err, &typed) {
		t.Fatalf("%T %v, want a *NoGIDError", err, err)
	}
	if fmt.Sprint(typed.Trace) != fmt.Sprint(trace) {
		t.Errorf("the error's trace differs:\n%v", typed.Trace)
	}
	for _, r := range reasons {
		if !strings.Contains(err.Error(), r) {
			t.Errorf("no %q in: %v", r, err)
		}
	}
}

// checkTrace wants one verdict with a reason for each live entry.
func checkTrace(t *testing.T, table []GIDEntry, trace Trace, chosen int) {
	t.Helper()
	live, marked := 0, 0
	for _, e := range table {
		if !e.GID.IsZero() {
			live++
		}
	}
	for _, v := range trace {
		if v.Chosen {
			marked++
		}
		if v.Reason == "" || strings.Contains(v.String(), "\n") {
			t.Errorf("verdict %q", v)
		}
	}
	if len(trace) != live || marked != chosen || strings.Count(trace.String(), "\n") != live {
		t.Errorf("%d verdicts, %d chosen; %d live entries\n%v", len(trace), marked, live, trace)
	}
}

func TestTraceText(t *testing.T) {
	table := []GIDEntry{vlan[1], vlan[3], vlan[4]}
	table[1].VLAN, table[1].Parent = 10, "eth2"
	table[2].VLAN, table[2].Parent = 10, "eth2"
	_, trace, err := ChooseGID(table, GIDWant{Peer: addr("10.10.0.6"), Explicit: -1, Route: onLink("eth2.10")})
	if err != nil {
		t.Fatal(err)
	}
	want := `- port 1 gid 1 ::ffff:10.1.0.5 RoCE v2 on eth2: the route to the peer leaves by eth2.10
- port 1 gid 3 ::ffff:10.10.0.5 RoCE v1 on eth2.10 (VLAN 10 of eth2): index 4 instead: RoCE v2 goes before v1
* port 1 gid 4 ::ffff:10.10.0.5 RoCE v2 on eth2.10 (VLAN 10 of eth2): chosen: the peer is in 10.10.0.0/24
`
	if got := trace.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
