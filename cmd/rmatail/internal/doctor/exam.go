package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/rdma"
)

// exam is one run of the checks.
type exam struct {
	*Host
	devices []rdma.Device
	err     error // of listing them
	out     []Finding
}

// Examine runs all checks of a host. It takes as long as reading its files does.
func Examine(h Host) Report {
	e := &exam{Host: &h}
	e.devices, e.err = h.Devices()
	for _, check := range []func(){
		e.checkKernel, e.checkDevices, e.checkModules, e.checkRxeKernel, e.checkLibrary, e.checkProviders, e.checkAccess, e.checkCgroup,
		e.checkPorts, e.checkNetns, e.checkGIDs, e.checkSubnets, e.checkMTU, e.checkMemlock, e.checkRegister, e.checkResources, e.checkHugePages, e.checkFork,
		e.checkFirewall, e.checkCongestion, e.checkCounters, e.checkPCIe, e.checkClock,
	} {
		check()
	}
	r := NewReport(e.out)
	r.RDMA = e.usable()
	return r
}

// say adds a finding.
func (e *exam) say(check, on string, v Verdict, found string, fix ...string) *Finding {
	e.out = append(e.out, Finding{Check: check, On: on, Verdict: v, Found: found, Fix: fix})
	return &e.out[len(e.out)-1]
}

// usable reports whether at least one device passed everything that was checked
// of it.
func (e *exam) usable() bool {
	if slices.ContainsFunc(e.out, func(f Finding) bool {
		return f.On == "" && f.Verdict == Fail && slices.Contains([]string{"modules", "library", "firewall"}, f.Check)
	}) {
		return false
	}
	return slices.ContainsFunc(e.devices, func(d rdma.Device) bool {
		if _, opened := e.Verbs.Devices[d.Name]; !opened {
			return false
		}
		good := false
		for _, p := range d.Ports {
			good = good || p.Active() && !slices.ContainsFunc(e.out, func(f Finding) bool { return f.On == portName(d, p) && f.Verdict == Fail })
		}
		return good && !slices.ContainsFunc(e.out, func(f Finding) bool { return f.On == d.Name && f.Verdict == Fail })
	})
}

// eachPort calls f for each port that neither the settings nor its kind leave out.
func (e *exam) eachPort(f func(d rdma.Device, p rdma.Port, on string)) {
	for _, d := range e.devices {
		if d.NodeType == "RNIC" || e.Want.Device != "" && e.Want.Device != d.Name {
			continue
		}
		for _, p := range d.Ports {
			f(d, p, portName(d, p))
		}
	}
}

func portName(d rdma.Device, p rdma.Port) string { return fmt.Sprintf("%s port %d", d.Name, p.Number) }

// netdev is the one that a port is on: that of its GIDs below any VLAN.
func (e *exam) netdev(p rdma.Port) string {
	for _, g := range p.GIDs {
		if g.Parent != "" {
			return g.Parent
		}
	}
	for _, name := range p.Netdevs {
		if i := slices.IndexFunc(e.Netdevs, func(d rdma.Netdev) bool { return d.Name == name }); i >= 0 && e.Netdevs[i].Parent != "" {
			return e.Netdevs[i].Parent
		}
	}
	if len(p.Netdevs) > 0 {
		return p.Netdevs[0]
	}
	return ""
}

// rxe reports whether a device is soft-RoCE, on which netdev.
func (e *exam) rxe(d rdma.Device) (netdev string, ok bool) {
	netdev = e.text("sys/class/infiniband/" + d.Name + "/parent")
	return netdev, netdev != "" || d.Software && e.driver(d) == ""
}

// driver is the kernel's driver of a device, "" for a virtual one.
func (e *exam) driver(d rdma.Device) string {
	return e.linkBase("sys/class/infiniband/" + d.Name + "/device/driver")
}

// mib is a number of bytes for people.
func mib(n uint64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return strconv.FormatUint(n>>30, 10) + " GiB"
	case n >= 1<<20:
		return strconv.FormatUint(n>>20, 10) + " MiB"
	}
	return strconv.FormatUint(n>>10, 10) + " KiB"
}

func list(names []string) string { return strings.Join(names, ", ") }
