package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestDevicesOfRxe(t *testing.T) {
	devices, err := host(parseSysfs(t, sysfsRxeVLAN), rxeNetdevs).Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(devices) != 2 || devices[0].Name != "rxe0" || devices[1].Name != "rxe1" {
		t.Fatalf("%+v", devices)
	}
	for i, want := range []string{`port 1 gid 0 fe80::e8b3:88ff:fe12:7609 RoCE v2 on v0
port 1 gid 1 ::ffff:10.9.0.1 RoCE v2 on v0
port 1 gid 2 fe80::e8b3:88ff:fe12:7609 RoCE v2 on v0.10 (VLAN 10 of v0)
port 1 gid 4 ::ffff:10.10.0.1 RoCE v2 on v0.10 (VLAN 10 of v0)
`, `port 1 gid 0 fe80::7c8b:6fff:fe5f:9920 RoCE v2 on v1
port 1 gid 1 ::ffff:10.9.0.2 RoCE v2 on v1
port 1 gid 2 fe80::7c8b:6fff:fe5f:9920 RoCE v2 on v1.10 (VLAN 10 of v1)
port 1 gid 3 fd00:9::2 RoCE v2 on v1
port 1 gid 4 ::ffff:10.10.0.2 RoCE v2 on v1.10 (VLAN 10 of v1)
`} {
		d := devices[i]
		if !d.Software || d.NodeType != "CA" || len(d.Ports) != 1 {
			t.Fatalf("%+v", d)
		}
		p := d.Ports[0]
		if p.Number != 1 || !p.Active() || p.LinkLayer != LinkLayerEthernet || p.LID != 0 {
			t.Errorf("%+v", p)
		}
		netdev := fmt.Sprintf("v%d", i)
		if want := []string{netdev, netdev + ".10"}; !reflect.DeepEqual(p.Netdevs, want) {
			t.Errorf("%s: netdevs %v, want %v", d.Name, p.Netdevs, want)
		}
		if got := table(p.GIDs); got != want {
			t.Errorf("%s\n%swant\n%s", d.Name, got, want)
		}
		for _, e := range p.GIDs {
			if e.Presence != Present || e.NetdevIndex == 0 || !e.Prefix.IsValid() {
				t.Errorf("%v: presence %d, index %d, prefix %v", e, e.Presence, e.NetdevIndex, e.Prefix)
			}
		}
	}
}

func table(gids []GIDEntry) string {
	var b strings.Builder
	for _, e := range gids {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func TestDevicesOfNoHost(t *testing.T) {
	for name, tree := range map[string]sysTree{
		"no class":    parseSysfs(t, "class/net/lo/ifindex 1"),
		"empty class": {fstest.MapFS{"class/infiniband": &fstest.MapFile{Mode: fs.ModeDir}}, nil},
	} {
		devices, err := host(tree, nil).Devices()
		if err != nil || len(devices) != 0 {
			t.Errorf("%s: %v, %v", name, devices, err)
		}
	}
}

func TestDevicesOfHardware(t *testing.T) {
	tree := parseSysfs(t, "")
	tree.device("mlx5_10", []string{"device/vendor=0x15b3"}, nil)
	tree.device("mlx5_2", []string{"device/net/eth2/dev_port=0", "device/net/eth3/dev_port=0", "ports/1/state=1: DOWN"}, nil)
	tree.device("mlx4_0", []string{"device/net/ens1/dev_port=0", "device/net/ens1d1/dev_port=1", "ports/2/link_layer=InfiniBand", "ports/2/lid=0x1f", "ports/2/state=2: INIT"},
		[]string{"1 0 v1 ens1 fe80::1", "2 0 ib - fe80::506b:4b03:69:1235", "2 3 ib - fec0::506b:4b03:69:1235"})
	tree.device("siw0", []string{"node_type=4: RNIC"}, nil)
	tree.device("rxe0", []string{"parent=eth9", "device/vendor=0x8086"}, nil) // some kernels link it to the netdev's function
	devices, err := host(tree, []Netdev{
		netdev("ib1", 7, "00:00:04:0a:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:69:12:35"),
	}).Devices()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range devices {
		for _, p := range d.Ports {
			got = append(got, fmt.Sprintf("%s/%d %s %v lid %d software %v %s %v", d.Name, p.Number, d.NodeType, p.LinkLayer, p.LID, d.Software, p.State, p.Netdevs))
		}
	}
	want := []string{
		"mlx4_0/1 CA Ethernet lid 0 software false ACTIVE [ens1]",
		"mlx4_0/2 CA InfiniBand lid 31 software false INIT [ib1 ens1d1]",
		"mlx5_2/1 CA Ethernet lid 0 software false DOWN [eth2 eth3]",
		"mlx5_10/1 CA Ethernet lid 0 software false ACTIVE []",
		"rxe0/1 CA Ethernet lid 0 software true ACTIVE [eth9]",
		"siw0/1 RNIC Ethernet lid 0 software true ACTIVE []",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestGIDTableHoles(t *testing.T) {
	tree := parseSysfs(t, "")
	tree.device("mlx5_0", nil, []string{
		"1 0 v2 eth2 fe80::1e34:daff:fe12:3456",
		"1 1 v2 eth2 !EINVAL", // an address that went between listing and reading
		"1 2 - eth2 ::ffff:10.9.0.1",
		"1 3 v2 - ::ffff:10.9.0.2",
		"1 9 v1 eth2 ::ffff:10.9.0.3",
		"1 10 v2 eth2 !ENODATA",
		"1 11 v2 eth2 garbage",
		"1 12 v2 eth2 !EIO",
	})
	devices, err := host(tree, []Netdev{netdev("eth2", 3, "1c:34:da:12:34:56", "10.9.0.1/24", "10.9.0.3/24")}).Devices()
	if err != nil {
		t.Fatal(err)
	}
	want := `port 1 gid 0 fe80::1e34:daff:fe12:3456 RoCE v2 on eth2
port 1 gid 2 ::ffff:10.9.0.1 unknown type on eth2
port 1 gid 3 ::ffff:10.9.0.2 RoCE v2
port 1 gid 9 ::ffff:10.9.0.3 RoCE v1 on eth2
`
	if got := table(devices[0].Ports[0].GIDs); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Slots that kernels refuse to read are empty.
func TestGIDTableEmpty(t *testing.T) {
	for _, text := range []string{"!EINVAL", "!ENODATA", emptySlot} {
		tree := parseSysfs(t, "")
		tree.device("mlx5_0", nil, []string{"1 0 v2 eth2 " + text, "1 1 v2 eth2 " + text})
		devices, err := host(tree, nil).Devices()
		if err != nil || len(devices) != 1 || devices[0].Ports[0].Err != nil || len(devices[0].Ports[0].GIDs) != 0 {
			t.Errorf("%s: %+v, %v", text, devices, err)
		}
	}
}

// A table where nothing can be read is no empty table.
func TestGIDTableUnreadable(t *testing.T) {
	tree := parseSysfs(t, "")
	tree.device("mlx5_0", nil, []string{"1 0 v2 eth2 !EIO", "1 1 v2 eth2 !EIO"})
	tree.device("mlx5_1", nil, []string{"1 0 v2 eth2 ::ffff:10.9.0.1"})
	h := host(tree, []Netdev{netdev("eth2", 3, "", "10.9.0.1/24")}, "10.9.0.0/24 eth2")
	devices, err := h.Devices()
	if err != nil || len(devices) != 2 || !errors.Is(devices[0].Ports[0].Err, syscall.EIO) || devices[1].Ports[0].Err != nil {
		t.Errorf("%+v, %v", devices, err)
	}
	// The other device is not worse for it.
	if c, err := h.Choose(Query{Peer: addr("10.9.0.2"), GIDIndex: -1}); err != nil || c.Device.Name != "mlx5_1" {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := h.Choose(Query{Device: "mlx5_0", Peer: addr("10.9.0.2"), GIDIndex: -1}); !errors.Is(err, ErrNoDevice) || !errors.Is(err, syscall.EIO) {
		t.Errorf("asked for: %v", err)
	}
}

func TestDevicesNetdevsFail(t *testing.T) {
	broken := errors.New("no netlink")
	h := host(parseSysfs(t, sysfsRxeVLAN), nil)
	h.netdevs = func() ([]Netdev, error) { return nil, broken }
	if _, err := h.Devices(); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := h.Choose(Query{GIDIndex: -1}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// FuzzSysfs reads one port whose files hold anything.
func FuzzSysfs(f *testing.F) {
	f.Add("4: ACTIVE", "Ethernet", "0x0", "0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2", "v0")
	f.Add("1: DOWN", "InfiniBand", "0x1f", "fe80:0000:0000:0000:506b:4b03:0069:1234", "IB/RoCE v1", "")
	f.Add(":", "", "99999999999999999999", "", "\x00", "../../../..")
	f.Fuzz(func(t *testing.T, state, layer, lid, gid, kind, dev string) {
		tree := sysTree{fstest.MapFS{}, nil}
		dir := "class/infiniband/d0"
		for name, content := range map[string]string{
			"node_type": state, "parent": dev, "ports/1/state": state, "ports/1/link_layer": layer, "ports/1/lid": lid,
			"ports/1/gids/0": gid, "ports/1/gid_attrs/types/0": kind, "ports/1/gid_attrs/ndevs/0": dev,
		} {
			tree.MapFS[dir+"/"+name] = &fstest.MapFile{Data: []byte(content)}
		}
		h := host(tree, rxeNetdevs, "0.0.0.0/0 v0")
		devices, err := h.Devices()
		if err == nil {
			for _, e := range devices[0].Ports[0].GIDs {
				if e.GID.IsZero() || e.Index != 0 || e.Port != 1 {
					t.Errorf("%+v", e)
				}
			}
		}
		choice, err := h.Choose(Query{Peer: addr("10.9.0.9"), GIDIndex: -1})
		if err == nil && (choice.GID.Presence != Present && choice.GID.Type != TypeIB || !choice.Port.Active() && choice.Port.State != "") {
			t.Errorf("chose %+v", choice)
		}
		if err != nil && err.Error() == "" {
			t.Error("no message")
		}
	})
}
