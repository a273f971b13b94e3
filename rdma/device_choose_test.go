package rdma

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// ask is a Query in the tables of this file.
func ask(peer string, change ...func(*Query)) Query {
	q := Query{GIDIndex: -1}
	if peer != "" {
		q.Peer = addr(peer)
	}
	for _, c := range change {
		c(&q)
	}
	return q
}

func device(name string) func(*Query) { return func(q *Query) { q.Device = name } }
func index(i int) func(*Query)        { return func(q *Query) { q.GIDIndex = i } }
func port(n int) func(*Query)         { return func(q *Query) { q.Port = n } }
func local(a string) func(*Query)     { return func(q *Query) { q.Local = addr(a) } }
func peerGID(g string) func(*Query) {
	return func(q *Query) { q.PeerGID, q.PeerType = gid(g), TypeRoCEv2 }
}

// hosts are machines of real shapes.
func hosts(t *testing.T) map[string]Host {
	vlanTree := parseSysfs(t, sysfsRxeVLAN)
	out := map[string]Host{
		"rxe": host(vlanTree, append([]Netdev{netdev("eth0", 9, "", "192.168.0.2/24")}, rxeNetdevs...),
			"10.10.0.0/24 v0.10", "10.9.0.0/24 v0", "fe80::/10 v0", "192.0.2.0/24 v0 10.9.0.254", "192.168.0.0/24 eth0"),
	}
	add := func(name string, tree sysTree, netdevs []Netdev, routes ...string) {
		out[name] = host(tree, append([]Netdev{loopback}, netdevs...), routes...)
	}
	mac := "1c:34:da:12:34:56"

	mlx := parseSysfs(t, "")
	mlx.device("mlx5_0", []string{"device/vendor=0x15b3"}, []string{
		"1 0 v1 eth2 fe80::1e34:daff:fe12:3456", "1 1 v2 eth2 fe80::1e34:daff:fe12:3456", "1 2 v1 eth2 ::ffff:10.9.0.1", "1 3 v2 eth2 ::ffff:10.9.0.1"})
	mlx.device("irxe0", []string{"parent=eth2"}, []string{"1 0 v2 eth2 fe80::1e34:daff:fe12:3456", "1 1 v2 eth2 ::ffff:10.9.0.1"})
	mlx.device("siw0", []string{"node_type=4: RNIC"}, []string{"1 0 v1 eth2 fe80::1"})
	eth2 := netdev("eth2", 3, mac, "10.9.0.1/24")
	add("two on a netdev", mlx, []Netdev{eth2}, "10.9.0.0/24 eth2")

	down := parseSysfs(t, "")
	down.device("mlx5_0", []string{"device/vendor=0x15b3", "ports/1/state=1: DOWN"}, []string{"1 3 v2 eth2 ::ffff:10.9.0.1"})
	down.device("rxe0", []string{"parent=eth2"}, []string{"1 1 v2 eth2 ::ffff:10.9.0.1"})
	add("hardware is down", down, []Netdev{eth2}, "10.9.0.0/24 eth2")

	bare := parseSysfs(t, "")
	bare.device("mlx5_0", []string{"device/net/eth2/dev_port=0"}, nil)
	bare.device("mlx5_1", []string{"device/net/eth3/dev_port=0"}, []string{"1 0 v1 eth3 fe80::1e34:daff:fe12:3457"})
	add("no GID yet", bare, []Netdev{eth2, netdev("eth3", 4, "1c:34:da:12:34:57")}, "10.9.0.0/24 eth2", "10.8.0.0/24 eth3 10.8.0.1")

	special := parseSysfs(t, "")
	special.device("rxe_lo", []string{"parent=lo"}, []string{"1 0 v2 lo ::ffff:127.0.0.1", "1 1 v2 lo ::1"})
	special.device("rxe_tun", []string{"parent=tun0"}, []string{"1 0 v2 tun0 ::ffff:10.8.0.1"})
	add("lo and tun", special, []Netdev{netdev("tun0", 5, "", "10.8.0.1/32", "10.8.0.2/32")}, "10.8.0.2/32 tun0")

	ib := parseSysfs(t, "")
	ib.device("mlx5_0", []string{"device/vendor=0x15b3", "ports/1/link_layer=InfiniBand", "ports/1/lid=0x7", "ports/2/link_layer=InfiniBand"},
		[]string{"1 0 ib - fe80::506b:4b03:69:1234", "2 0 ib - fe80::506b:4b03:69:1235"})
	add("InfiniBand", ib, []Netdev{
		netdev("ib0", 6, "00:00:04:0a:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:69:12:34", "10.7.0.1/24"),
		netdev("ib1", 7, "00:00:04:0a:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:69:12:35", "10.6.0.1/24"),
	}, "10.7.0.0/24 ib0", "10.6.0.0/24 ib1", "192.168.0.0/24 eth0")

	pod := parseSysfs(t, "")
	pod.device("mlx5_0", []string{"device/vendor=0x15b3"}, []string{"1 0 v2 eth0 fe80::1e34:daff:fe12:3456", "1 1 v2 eth0 ::ffff:10.9.0.1"})
	pod.device("mlx5_1", []string{"device/vendor=0x15b3"}, []string{"1 0 v2 ens2f1 ::ffff:10.9.0.2"})
	add("pod", pod, []Netdev{netdev("eth0", 3, "0a:58:0a:f4:00:07", "10.244.0.7/24")}, "10.9.0.0/24 eth0 10.244.0.1")

	bond := parseSysfs(t, "")
	bond.device("mlx5_bond_0", []string{"device/vendor=0x15b3"}, []string{"1 0 v1 bond0 fe80::1e34:daff:fe12:3456", "1 1 v2 bond0 ::ffff:172.16.4.2"})
	add("bond", bond, []Netdev{netdev("eth2", 3, mac), netdev("eth3", 4, mac), netdev("bond0", 5, mac, "172.16.4.2/20")}, "172.16.0.0/20 bond0", "0.0.0.0/0 bond0 172.16.0.1")

	add("none", parseSysfs(t, ""), nil)
	return out
}

func TestChoose(t *testing.T) {
	hosts := hosts(t)
	for _, c := range []struct {
		name, host string
		query      Query
		want       string // device, port, index
		why        string
	}{
		{"by the route", "rxe", ask("10.9.0.77"), "rxe0 1 1", "the route to 10.9.0.77 leaves by v0, by sysfs"},
		{"by the route of a VLAN", "rxe", ask("10.10.0.77"), "rxe0 1 4", "leaves by v0.10"},
		{"routed", "rxe", ask("192.0.2.1"), "rxe0 1 1", "leaves by v0"},
		{"IPv4-mapped", "rxe", ask("::ffff:10.9.0.77"), "rxe0 1 1", "leaves by v0"},
		{"link-local with zone", "rxe", ask("fe80::77%v0"), "rxe0 1 0", "leaves by v0"},
		{"own address", "rxe", ask("10.9.0.2"), "rxe1 1 1", "peer 10.9.0.2 is this host, the address is on v1"},
		{"own address on a VLAN", "rxe", ask("10.10.0.2"), "rxe1 1 4", "the address is on v1.10"},
		{"own IPv6 address", "rxe", ask("fd00:9::2"), "rxe1 1 3", "the address is on v1"},
		{"loopback", "rxe", ask("127.0.0.1"), "rxe0 1 1", "the peer is this host, any device"},
		{"asked for, same host", "rxe", ask("10.9.0.2", device("rxe0")), "rxe0 1 1", "asked for; the peer is this host"},
		{"asked for, on the route", "rxe", ask("10.10.0.77", device("rxe0")), "rxe0 1 4", "asked for; the route to 10.10.0.77 leaves by v0.10"},
		{"asked for, off the route", "rxe", ask("192.168.0.9", device("rxe1")), "rxe1 1 1", "asked for; no route"},
		{"asked for, no route at all", "rxe", ask("203.0.113.1", device("rxe1")), "rxe1 1 1", "asked for; no route"},
		{"asked for, index too", "rxe", ask("10.9.0.77", device("rxe1"), index(0)), "rxe1 1 0", "asked for"},
		{"index", "rxe", ask("10.9.0.77", index(2)), "rxe0 1 2", "leaves by v0"},
		{"answer: local address, not the route", "rxe", ask("10.9.0.1", local("10.9.0.2"), peerGID("10.9.0.1")), "rxe1 1 1", "v1 owns the local address 10.9.0.2"},
		{"answer: local address over loopback", "rxe", ask("127.0.0.1", local("127.0.0.1"), peerGID("10.9.0.1")), "rxe0 1 1", "peer 10.9.0.1 is this host"},
		{"answer: bootstrap by another network", "rxe", ask("192.168.0.9", local("192.168.0.2"), peerGID("10.9.0.77")), "rxe0 1 1", "the route to 10.9.0.77 leaves by v0"},
		{"answer: link-local", "rxe", ask("10.9.0.77", local("10.9.0.1"), peerGID("fe80::77")), "rxe0 1 0", "v0 owns the local address"},
		{"answer: link-local, by the bootstrap's route", "rxe", ask("10.10.0.77", peerGID("fe80::77")), "rxe0 1 2", "the route to 10.10.0.77 leaves by v0.10"},
		{"hardware before software", "two on a netdev", ask("10.9.0.2"), "mlx5_0 1 3", "3 on eth2, in this order: mlx5_0, irxe0, siw0"},
		{"software when asked for", "two on a netdev", ask("10.9.0.2", device("irxe0")), "irxe0 1 1", "asked for"},
		{"active before hardware", "hardware is down", ask("10.9.0.2"), "rxe0 1 1", "rxe0, mlx5_0"},
		{"lo", "lo and tun", ask("127.0.0.1"), "rxe_lo 1 0", "the address is on lo"},
		{"all of 127/8", "lo and tun", ask("127.9.9.9"), "rxe_lo 1 0", "the address is on lo"},
		{"lo, IPv6", "lo and tun", ask("::1"), "rxe_lo 1 1", "the address is on lo"},
		{"tun", "lo and tun", ask("10.8.0.2", local("10.8.0.1")), "rxe_tun 1 0", "tun0 owns"},
		{"IPoIB", "InfiniBand", ask("10.7.0.9"), "mlx5_0 1 0", "leaves by ib0"},
		{"IPoIB on the second port", "InfiniBand", ask("10.6.0.9"), "mlx5_0 2 0", "leaves by ib1"},
		{"port asked for", "InfiniBand", ask("192.168.0.9", device("mlx5_0"), port(2)), "mlx5_0 2 0", "asked for"},
		{"bond", "bond", ask("172.16.5.1"), "mlx5_bond_0 1 1", "leaves by bond0"},
		{"no peer address", "bond", ask(""), "mlx5_bond_0 1 1", "no peer address, any device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := hosts[c.host].Choose(c.query)
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(got.Device.Name, " ", got.GID.Port, " ", got.GID.Index); text != c.want {
				t.Errorf("%s, want %s\n%v", text, c.want, got.Trace)
			}
			if !strings.Contains(got.Why, c.why) {
				t.Errorf("why %q, want %q", got.Why, c.why)
			}
			if got.Port.Number != got.GID.Port || len(got.Trace) != len(got.Port.GIDs) || !strings.Contains(got.String(), got.Why) {
				t.Errorf("%v: port %d, %d verdicts on %d entries", got, got.Port.Number, len(got.Trace), len(got.Port.GIDs))
			}
		})
	}
}

func TestChooseNothing(t *testing.T) {
	hosts := hosts(t)
	for _, c := range []struct {
		name, host string
		query      Query
		gid        bool // a device was there but for its GIDs
		reasons    []string
	}{
		{"no device", "none", ask("10.9.0.2"), false, []string{"for peer 10.9.0.2", "this host has none", "rdma link add"}},
		{"netdev without a device", "rxe", ask("192.168.0.9"), false, []string{"rxe0 port 1: on v0, v0.10; the route to 192.168.0.9 leaves by eth0", "rxe1 port 1", "set the device"}},
		{"no route", "rxe", ask("203.0.113.1"), false, []string{"no route to 203.0.113.1", "network is unreachable", "rxe0 port 1: on v0"}},
		{"no such device", "rxe", ask("10.9.0.2", device("mlx5_0")), false, []string{"mlx5_0, which was asked for, is not here; there are: rxe0, rxe1"}},
		{"no such index", "rxe", ask("10.9.0.77", index(3)), true, []string{"index 3, which was asked for, is empty"}},
		{"no such index on the device", "rxe", ask("10.9.0.77", device("rxe0"), index(99)), true, []string{"rxe0, which was asked for, cannot be used", "index 99"}},
		{"no such port", "rxe", ask("10.9.0.77", port(2)), false, []string{"port 2 was asked for"}},
		{"another type than the peer's", "rxe", ask("10.9.0.77", func(q *Query) { q.PeerGID, q.PeerType = gid("10.9.0.77"), TypeRoCEv1 }), true, []string{"RoCE v2, the peer uses RoCE v1"}},
		{"InfiniBand peer", "rxe", ask("10.9.0.77", func(q *Query) { q.PeerGID, q.PeerType = gid("fe80::1"), TypeIB }), true, []string{"RoCE v2, the peer uses IB"}},
		{"iWARP", "two on a netdev", ask("10.9.0.2", device("siw0")), false, []string{"iWARP"}},
		{"down", "hardware is down", ask("10.9.0.2", device("mlx5_0")), false, []string{"mlx5_0 port 1: port is DOWN"}},
		{"no GID yet", "no GID yet", ask("10.9.0.2"), true, []string{"mlx5_0 port 1: no usable GID: the table is empty", "mlx5_1 port 1: on eth3"}},
		{"only link-local v1, routed", "no GID yet", ask("10.8.0.9"), true, []string{"mlx5_1 port 1", "link-local, the peer is behind router 10.8.0.1"}},
		{"peer's link-local GID, routed", "rxe", ask("192.0.2.1", local("10.9.0.1"), peerGID("fe80::77")), true, []string{"link-local, the peer is behind router 10.9.0.254"}},
		{"pod without the netdevs", "pod", ask("10.9.0.9"), true, []string{"eth0 of this network namespace does not own it", "mlx5_1 port 1: on ens2f1"}},
		{"InfiniBand without a way", "InfiniBand", ask("192.168.0.9"), false, []string{"mlx5_0 port 1: on ib0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := hosts[c.host].Choose(c.query)
			var typed *NoDeviceError
			if !errors.Is(err, ErrNoDevice) || !errors.As(err, &typed) {
				t.Fatalf("%v, %T %v, want a *NoDeviceError", got, err, err)
			}
			if errors.Is(err, ErrNoGID) != c.gid {
				t.Errorf("ErrNoGID: %v, want %v: %v", !c.gid, c.gid, err)
			}
			for _, r := range c.reasons {
				if !strings.Contains(err.Error(), r) {
					t.Errorf("no %q in: %v", r, err)
				}
			}
		})
	}
}

// rdmamap is asked about a netdev that sysfs does not know, and only then.
func TestChooseAsksRdmamap(t *testing.T) {
	tree := parseSysfs(t, "")
	tree.device("hfi1_0", []string{"device/vendor=0x8086", "ports/1/link_layer=InfiniBand"}, []string{"1 0 ib - fe80::11:7501:1:1"})
	h := host(tree, []Netdev{netdev("ib0", 3, "", "10.7.0.1/24")}, "10.7.0.0/24 ib0")
	for _, c := range []struct {
		mapped string
		err    error
		ok     bool
	}{
		{"hfi1_0", nil, true}, {"", nil, false}, {"gone0", nil, false}, {"", errors.New("unknown device type"), false},
	} {
		h.mapped = func(netdev string) (string, error) {
			if netdev != "ib0" {
				t.Errorf("asked about %s", netdev)
			}
			return c.mapped, c.err
		}
		got, err := h.Choose(ask("10.7.0.2"))
		if (err == nil) != c.ok || c.ok && (got.Device.Name != "hfi1_0" || !strings.Contains(got.Why, "by rdmamap")) || !c.ok && !errors.Is(err, ErrNoDevice) {
			t.Errorf("rdmamap %q, %v: %v, %v", c.mapped, c.err, got, err)
		}
	}

	known := hosts(t)["rxe"]
	known.mapped = func(netdev string) (string, error) {
		t.Errorf("asked about %s, which sysfs knows", netdev)
		return "", nil
	}
	if _, err := known.Choose(ask("10.9.0.77")); err != nil {
		t.Error(err)
	}
}
