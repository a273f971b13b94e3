package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rmatail/rmatail/rdma"
)

// maxDetails bounds the lines of a finding: a GID table may have a thousand rows.
const maxDetails = 32

// maxGIDIndex is what a queue pair's attributes have room for.
const maxGIDIndex = 255

// checkGIDs is about the address that packets are sent from. Without a peer the
// choice is by the table alone; with one its route decides too.
func (e *exam) checkGIDs() {
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		if !p.Active() {
			return
		}
		if p.Err != nil {
			e.say("gid", on, Fail, fmt.Sprintf("nothing of the GID table can be read, so the device counts as absent: %v", p.Err), "rdma link show "+d.Name, "cat /"+portFile(d, p, "gids/0"))
			return
		}
		want := rdma.GIDWant{LinkLayer: p.LinkLayer, Explicit: e.Want.GIDIndex}
		entry, trace, err := rdma.ChooseGID(p.GIDs, want)
		if err != nil {
			f := e.say("gid", on, Fail, gidCause(err)+"; the device counts as absent", e.giveGID(d, p)...)
			f.Details = traceLines(trace)
			return
		}
		e.judgeGID(d, p, on, entry, trace)
	})
}

// judgeGID says what is wrong with the entry that was chosen.
func (e *exam) judgeGID(d rdma.Device, p rdma.Port, on string, g rdma.GIDEntry, trace rdma.Trace) {
	chosen := fmt.Sprintf("index %d, %s %s", g.Index, g.GID, g.Type)
	if g.Netdev != "" {
		chosen += " on " + g.Netdev
	}
	if g.VLAN != 0 {
		chosen += fmt.Sprintf(" (VLAN %d)", g.VLAN)
	}
	verdict, found := OK, "would use "+chosen
	var fix []string
	switch {
	case g.Index > maxGIDIndex:
		verdict, found = Fail, chosen+": a queue pair cannot name an index above 255"
		fix = []string{"ip addr show dev " + g.Netdev + "   # remove addresses that nobody needs"}
	case g.Type == rdma.TypeIB:
	case g.GID.IsLinkLocal():
		verdict, found = Warn, "would use "+chosen+", for want of another: link-local, so only peers on the same link are reached"
		fix = e.giveGID(d, p)
	case g.Type == rdma.TypeRoCEv1:
		verdict, found = Warn, "would use "+chosen+", as there is no RoCE v2 entry: version 1 is not routed, and does not talk to version 2"
		fix = []string{"cma_roce_mode -d " + d.Name + " -p " + fmt.Sprint(p.Number) + " -m 2", "the card's firmware setting for RoCE v2"}
	}
	f := e.say("gid", on, verdict, found, fix...)
	f.Details = traceLines(trace)
	e.staleGIDs(on, p)
	if left, ends := e.Lifetimes[g.GID.Addr()]; ends && g.Type != rdma.TypeIB && !g.GID.IsLinkLocal() {
		e.say("address", on, Warn, fmt.Sprintf("%v is lent to %s (by DHCP, or a router) for %s more: when it changes, the GID table does, and connections are made anew", g.GID.Addr(), g.Netdev, left.Round(time.Second)),
			fmt.Sprintf("ip addr change %v dev %s valid_lft forever preferred_lft forever   # and a static address in the network configuration", g.Prefix, g.Netdev))
	}
}

// staleGIDs is about entries whose netdev does not own them.
func (e *exam) staleGIDs(on string, p rdma.Port) {
	var netdev string
	n := 0
	for _, g := range p.GIDs {
		if g.Presence == rdma.Foreign {
			n, netdev = n+1, g.Netdev
		}
	}
	if n > 0 {
		e.say("gid", on, Warn, fmt.Sprintf("%d entries name %s, which does not own them: left from an earlier address (kernels before 7.0 may keep those of an old MAC), or another namespace's %[2]s; they are not used", n, netdev),
			"ip link set dev "+netdev+" down && ip link set dev "+netdev+" up")
	}
}

// giveGID is how a port gets a usable GID.
func (e *exam) giveGID(d rdma.Device, p rdma.Port) []string {
	var away []string
	for _, g := range p.GIDs {
		if g.Presence == rdma.Absent && g.Netdev != "" {
			away = appendNew(away, g.Netdev)
		}
	}
	netdev := e.netdev(p)
	switch {
	case len(away) > 0 && !slices.ContainsFunc(p.GIDs, func(g rdma.GIDEntry) bool { return g.Presence == rdma.Present }):
		return e.enterNetns(d, away)
	case netdev == "":
		return []string{"rdma link show   # the port has no netdev in this network namespace"}
	}
	return []string{"ip addr add ADDRESS/PREFIX dev " + netdev, "ip link set dev " + netdev + " up"}
}

// gidCause is the one line of why no entry was chosen; the trace has the rest.
func gidCause(err error) string {
	var none *rdma.NoGIDError
	if errors.As(err, &none) {
		return none.Cause
	}
	return err.Error()
}

func traceLines(trace rdma.Trace) []string {
	var lines []string
	for i, v := range trace {
		if i == maxDetails {
			return append(lines, fmt.Sprintf("... and %d more", len(trace)-maxDetails))
		}
		lines = append(lines, v.String())
	}
	return lines
}

// checkSubnets is about two netdevs in one subnet: either may answer for the
// other's address, and then a GID does not resolve, or packets go the wrong way.
func (e *exam) checkSubnets() {
	type owner struct {
		prefix netip.Prefix
		netdev string
	}
	var owners []owner
	e.eachPort(func(_ rdma.Device, p rdma.Port, _ string) {
		for _, g := range p.GIDs {
			if !g.Prefix.IsValid() || g.GID.IsLinkLocal() || g.Type == rdma.TypeIB {
				continue
			}
			owners = append(owners, owner{g.Prefix.Masked(), g.Netdev})
		}
	})
	if e.text("proc/sys/net/ipv4/conf/all/arp_ignore") == "1" && e.text("proc/sys/net/ipv4/conf/all/arp_announce") == "2" {
		return
	}
	said := map[netip.Prefix]bool{}
	for i, a := range owners {
		for _, b := range owners[i+1:] {
			if a.netdev != b.netdev && a.prefix == b.prefix && !said[a.prefix] {
				said[a.prefix] = true
				e.say("subnet", a.netdev, Warn, fmt.Sprintf("%s and %s are both in %v: each may answer for the other's address, and packets leave by either", a.netdev, b.netdev, a.prefix),
					"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=2", "or a subnet of its own for each")
			}
		}
	}
}
