package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/rdma"
)

// portFile is a file of a port's directory in sysfs.
func portFile(d rdma.Device, p rdma.Port, name string) string {
	return fmt.Sprintf("sys/class/infiniband/%s/ports/%d/%s", d.Name, p.Number, name)
}

// checkPorts is about links and what they are plugged into.
func (e *exam) checkPorts() {
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		netdev := e.netdev(p)
		rate := e.text(portFile(d, p, "rate"))
		phys := afterColon(e.text(portFile(d, p, "phys_state")))
		facts := []string{p.State, p.LinkLayer.String()}
		if rate != "" {
			facts = append(facts, rate)
		}
		if netdev != "" {
			facts = append(facts, "on "+netdev)
		}
		found := strings.Join(facts, ", ")
		switch {
		case p.State == "":
			e.say("port", on, Unknown, "the state cannot be read", "rdma link show")
		case !p.Active() && p.LinkLayer == rdma.LinkLayerInfiniBand && p.State != "DOWN":
			e.say("port", on, Fail, found+": no subnet manager has set it up", "systemctl start opensm   # on one host of the fabric, or look at the switch's")
		case !p.Active() && netdev != "":
			found += withPhys(phys)
			e.say("port", on, Fail, found, "ip link set dev "+netdev+" up", "ethtool "+netdev+"   # is there a link?")
		case !p.Active():
			e.say("port", on, Fail, found+withPhys(phys), "rdma link show", "ibstat "+d.Name)
		case p.LinkLayer == rdma.LinkLayerUnknown:
			e.say("port", on, Warn, found+": it is not known what the port is plugged into, so RoCE and InfiniBand peers cannot be told apart", "cat /"+portFile(d, p, "link_layer"))
		default:
			e.say("port", on, OK, found)
		}
		if p.LinkLayer == rdma.LinkLayerInfiniBand {
			e.checkPKey(d, p, on)
		}
	})
}

func withPhys(state string) string {
	if state == "" {
		return ""
	}
	return "; the cable's state is " + state
}

// checkPKey is about partitions: two limited members of one do not talk.
func (e *exam) checkPKey(d rdma.Device, p rdma.Port, on string) {
	key, err := strconv.ParseUint(e.text(portFile(d, p, "pkeys/0")), 0, 16)
	if err == nil && key != 0 && key&0x8000 == 0 {
		e.say("pkey", on, Warn, fmt.Sprintf("limited member of partition %#04x: it talks to full members only, not to another limited one", key),
			"cat /"+portFile(d, p, "pkeys/*"), "the subnet manager's partitions.conf gives full membership")
	}
}

// checkNetns is about network namespaces: a RoCE queue pair needs the netdev of
// its GID in that of the process.
func (e *exam) checkNetns() {
	if len(e.devices) == 0 {
		return
	}
	switch {
	case e.NetnsModeErr != nil:
		e.say("netns", "", Unknown, fmt.Sprintf("whether RDMA devices are shared by network namespaces cannot be found out: %v", e.NetnsModeErr), "rdma system show netns")
	case e.NetnsMode == "exclusive":
		e.say("netns", "", OK, "mode exclusive: an RDMA device is in one network namespace. Device plugins that share devices do not start in this mode; it can be changed only while there is no other namespace")
	default:
		e.say("netns", "", OK, "mode "+e.NetnsMode+": RDMA devices are seen from all network namespaces, but each works only where its netdev is")
	}
	own, first := e.linkBase("proc/self/ns/net"), e.linkBase("proc/1/ns/net")
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		var here, away int
		var names []string
		for _, g := range p.GIDs {
			switch {
			case g.Type == rdma.TypeIB || g.Netdev == "":
			case g.Presence == rdma.Absent:
				away++
				names = appendNew(names, g.Netdev)
			case g.Presence == rdma.Present:
				here++
			}
		}
		_, soft := e.rxe(d)
		switch {
		case away > 0 && here == 0:
			e.say("netns", on, Fail, fmt.Sprintf("its netdev %s is not in this network namespace: queue pairs fail with ENODEV", list(names)), e.enterNetns(d, names)...)
		case soft && own != "" && first != "" && own != first:
			e.say("netns", on, Warn, "soft-RoCE outside of the initial network namespace: up to Linux 6.12 at least its packets are routed in the initial one, and do not arrive",
				e.enterNetns(d, nil)...)
		}
	})
}

// enterNetns is how process and netdev get into one network namespace.
func (e *exam) enterNetns(d rdma.Device, netdevs []string) []string {
	var fix []string
	switch e.container() {
	case "kubernetes":
		fix = append(fix, "add to the pod: hostNetwork: true")
	case "":
		fix = append(fix, "nsenter --net=/proc/1/ns/net rmatail ...   # in the host's network namespace")
	default:
		fix = append(fix, "docker run --network=host ...")
	}
	if _, soft := e.rxe(d); soft {
		return fix // its netdev must stay in the initial one
	}
	for _, n := range netdevs {
		fix = append(fix, "ip link set dev "+n+" netns NAME   # or the netdev comes to this one: on the host, or by a CNI plug-in")
	}
	if e.NetnsMode == "exclusive" {
		fix = append(fix, "rdma dev set "+d.Name+" netns NAME   # with it the device")
	}
	return fix
}

func appendNew(names []string, name string) []string {
	for _, n := range names {
		if n == name {
			return names
		}
	}
	return append(names, name)
}

// afterColon is the word in "5: LinkUp".
func afterColon(text string) string {
	if _, word, ok := strings.Cut(text, ":"); ok {
		return strings.TrimSpace(word)
	}
	return text
}
