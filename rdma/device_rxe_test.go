//go:build linux

package rdma

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// rxeHost is the topology that scripts/rxe-up makes.
type rxeHost struct {
	dev, addr, net [2]string
}

func needRxe(t *testing.T) rxeHost {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("RMATAIL_RXE is not set: no soft-RoCE devices promised")
	}
	var h rxeHost
	for i, n := range []string{"0", "1"} {
		h.dev[i], h.addr[i], h.net[i] = os.Getenv("RMATAIL_RXE_DEV"+n), os.Getenv("RMATAIL_RXE_ADDR"+n), os.Getenv("RMATAIL_RXE_NET"+n)
		if h.dev[i] == "" || h.addr[i] == "" || h.net[i] == "" {
			t.Fatalf("RMATAIL_RXE is set, but not all of RMATAIL_RXE_DEV%s, _ADDR%[1]s and _NET%[1]s", n)
		}
	}
	return h
}

// kernelDoes waits for the kernel, which fills GID tables asynchronously.
func kernelDoes(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		<-tick.C
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// choose expects a choice and returns it.
func choose(t *testing.T, q Query) Choice {
	t.Helper()
	c, err := DeviceFor(q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return c
}

func TestRxeDevices(t *testing.T) {
	h := needRxe(t)
	devices, err := Devices()
	must(t, err)
	for i := range 2 {
		at := slices.IndexFunc(devices, func(d Device) bool { return d.Name == h.dev[i] })
		if at < 0 {
			t.Fatalf("no %s in %+v", h.dev[i], devices)
		}
		d := devices[at]
		if d.NodeType != "CA" || d.Err != nil || len(d.Ports) != 1 || !d.Ports[0].Active() || d.Ports[0].LinkLayer != LinkLayerEthernet || !slices.Contains(d.Ports[0].Netdevs, h.net[i]) {
			t.Errorf("%+v", d)
		}
		own := slices.IndexFunc(d.Ports[0].GIDs, func(e GIDEntry) bool { return e.GID == gid(h.addr[i]) })
		if own < 0 {
			t.Fatalf("%s has no GID of %s:\n%s", h.dev[i], h.addr[i], table(d.Ports[0].GIDs))
		}
		for _, e := range d.Ports[0].GIDs {
			if e.Type != TypeRoCEv2 || e.Presence != Present {
				t.Errorf("%v: presence %d", e, e.Presence)
			}
		}
		if mapped, err := mappedDevice(h.net[i]); err != nil || mapped != h.dev[i] {
			t.Errorf("rdmamap says %q for %s, %v; we say %s", mapped, h.net[i], err, h.dev[i])
		}

		// The peer's address is this host's own: its netdev's device.
		c := choose(t, ask(h.addr[i]))
		if c.Device.Name != h.dev[i] || c.GID.GID != gid(h.addr[i]) || !c.Route.Local {
			t.Errorf("to %s: %v", h.addr[i], c)
		}
		// The two devices to each other, which the other tests of the ring need.
		if c := choose(t, ask(h.addr[1-i], device(h.dev[i]))); c.Device.Name != h.dev[i] || c.GID.GID != gid(h.addr[i]) {
			t.Errorf("%s to %s: %v", h.dev[i], h.addr[1-i], c)
		}
		if c := choose(t, ask(h.addr[1-i], local(h.addr[i]), peerGID(h.addr[1-i]))); c.Device.Name != h.dev[i] || c.GID.GID != gid(h.addr[i]) {
			t.Errorf("answer from %s to %s: %v", h.addr[i], h.addr[1-i], c)
		}
	}
	if mode, err := NetnsMode(); err != nil || mode != "shared" && mode != "exclusive" {
		t.Errorf("namespace mode %q, %v", mode, err)
	}
}

// Addresses come and go under a running process.
func TestRxeAddressChange(t *testing.T) {
	h := needRxe(t)
	at := link(t, h.net[0])
	own, err := netlink.ParseAddr("10.77.0.1/24")
	must(t, err)
	before := choose(t, ask("10.77.0.9", device(h.dev[0])))
	must(t, netlink.AddrAdd(at, own))
	t.Cleanup(func() { _ = netlink.AddrDel(at, own) })

	kernelDoes(t, "the GID of an address that was added", func() bool {
		c, err := DeviceFor(ask("10.77.0.9"))
		return err == nil && c.GID.GID == gid("10.77.0.1")
	})
	c := choose(t, ask("10.77.0.9"))
	if c.Device.Name != h.dev[0] || c.Route.Netdev != h.net[0] || c.GID.Index == before.GID.Index {
		t.Errorf("%v, before %v", c, before)
	}
	must(t, netlink.AddrDel(at, own))
	kernelDoes(t, "no GID after the address was removed", func() bool {
		c, err := DeviceFor(ask("10.77.0.9", device(h.dev[0])))
		return err == nil && c.GID.GID == before.GID.GID
	})
	if _, err := DeviceFor(ask("10.77.0.9", device(h.dev[0]), index(c.GID.Index))); !errors.Is(err, ErrNoGID) || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("asked for the index that was: %v", err)
	}
}

func TestRxeVLAN(t *testing.T) {
	h := needRxe(t)
	parent := link(t, h.net[0])
	name := h.net[0] + ".77"
	err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: name, ParentIndex: parent.Attrs().Index}, VlanId: 77})
	if errors.Is(err, errors.ErrUnsupported) || err != nil && strings.Contains(err.Error(), "not supported") {
		t.Skipf("this kernel has no VLANs: %v", err)
	}
	must(t, err)
	tagged := link(t, name)
	t.Cleanup(func() { _ = netlink.LinkDel(tagged) })
	must(t, netlink.LinkSetUp(tagged))
	own, err := netlink.ParseAddr("10.78.0.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(tagged, own))
	kernelDoes(t, "the GID of a VLAN", func() bool {
		c, err := DeviceFor(ask("10.78.0.9"))
		return err == nil && c.GID.GID == gid("10.78.0.1")
	})
	c := choose(t, ask("10.78.0.9"))
	if c.Device.Name != h.dev[0] || c.GID.Netdev != name || c.GID.VLAN != 77 || c.GID.Parent != h.net[0] {
		t.Errorf("%+v", c.GID)
	}
	// The untagged network is not served by the tagged netdev.
	if c := choose(t, ask(h.addr[1], device(h.dev[0]))); c.GID.VLAN != 0 || c.GID.GID != gid(h.addr[0]) {
		t.Errorf("%v\n%v", c, c.Trace)
	}
	if mapped, err := mappedDevice(name); err != nil || mapped != h.dev[0] {
		t.Errorf("rdmamap says %q, %v", mapped, err)
	}
}

// A device on lo, which rdmamap cannot find.
func TestRxeLoopback(t *testing.T) {
	needRxe(t)
	const name = "rmatail_lo"
	must(t, netlink.RdmaLinkAdd(name, "rxe", "lo"))
	t.Cleanup(func() {
		if err := netlink.RdmaLinkDel(name); err != nil {
			t.Error(err)
		}
	})
	if mapped, err := mappedDevice("lo"); err == nil {
		t.Errorf("rdmamap knows lo now: %q", mapped)
	}
	kernelDoes(t, "the GID of 127.0.0.1", func() bool {
		c, err := DeviceFor(ask("127.0.0.1"))
		return err == nil && c.Device.Name == name
	})
	if c := choose(t, ask("127.0.0.1")); c.GID.GID != gid("127.0.0.1") || !strings.Contains(c.Why, "by sysfs") {
		t.Errorf("%v", c)
	}
}

// Two devices on one netdev are not possible with rxe alone (the second is
// refused), so that rule has fixtures only. A port that is down is.
func TestRxeDown(t *testing.T) {
	h := needRxe(t)
	at := link(t, h.net[0])
	must(t, netlink.LinkSetDown(at))
	t.Cleanup(func() {
		must(t, netlink.LinkSetUp(at))
		kernelDoes(t, "the device back", func() bool {
			c, err := DeviceFor(ask(h.addr[0]))
			return err == nil && c.Device.Name == h.dev[0] && c.GID.GID == gid(h.addr[0])
		})
	})
	kernelDoes(t, "the port down", func() bool {
		_, err := DeviceFor(ask(h.addr[1], device(h.dev[0])))
		return err != nil
	})
	_, err := DeviceFor(ask(h.addr[1], device(h.dev[0])))
	if !errors.Is(err, ErrNoDevice) || errors.Is(err, ErrNoGID) || !strings.Contains(err.Error(), "port is DOWN") {
		t.Error(err)
	}
}
