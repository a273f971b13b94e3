package doctor

import (
	"fmt"

	"github.com/rmatail/rmatail/rdma"
)

// headers is what RoCE v2 needs of a netdev's MTU around the payload of a packet
// (Linux, include/rdma/ib_addr.h, iboe_get_mtu; soft-RoCE reckons with 80).
const (
	headers    = 96
	rxeHeaders = 80
	chunk      = 4096
	// jumbo is the usual large MTU of Ethernet.
	jumbo = 9000
)

// roceMTU is the path MTU that a netdev's MTU leaves room for.
func roceMTU(netdev, around int) int {
	for _, m := range []int{4096, 2048, 1024, 512} {
		if netdev >= m+around {
			return m
		}
	}
	return 256
}

// checkMTU is about how many packets a chunk takes.
func (e *exam) checkMTU() {
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		v, known := e.Verbs.Devices[d.Name]
		port, asked := v.Ports[p.Number]
		if !p.Active() || !known || v.OpenErr != nil || !asked {
			return // says so elsewhere
		}
		active := int(port.ActiveMTU)
		if p.LinkLayer == rdma.LinkLayerInfiniBand {
			if active < chunk {
				e.say("mtu", on, Warn, fmt.Sprintf("active MTU %d: a chunk of 4 KiB takes %d packets", active, chunk/max(active, 1)), "set mtu=5 (4096) for the partition in the subnet manager's partitions.conf")
			} else {
				e.say("mtu", on, OK, fmt.Sprintf("active MTU %d: a chunk of 4 KiB is one packet", active))
			}
			return
		}
		netdev := e.netdev(p)
		size, ok := e.number("sys/class/net/" + netdev + "/mtu")
		around := headers
		if _, soft := e.rxe(d); soft {
			around = rxeHeaders
		}
		found := fmt.Sprintf("active MTU %d", active)
		if ok {
			found += fmt.Sprintf(", %s has %d", netdev, size)
		}
		switch should := roceMTU(int(size), around); {
		case active >= chunk:
			e.say("mtu", on, OK, found+": a chunk of 4 KiB is one packet")
		case !ok:
			e.say("mtu", on, Warn, fmt.Sprintf("%s: a chunk of 4 KiB takes %d packets; the netdev's MTU is not known", found, chunk/max(active, 1)), "ip link set dev NETDEV mtu 9000   # on both ends, and the switch between")
		case should > active:
			e.say("mtu", on, Warn, fmt.Sprintf("%s, which would do for %d: the port has not noticed", found, should),
				"ip link set dev "+netdev+" down && ip link set dev "+netdev+" up")
		default:
			e.say("mtu", on, Warn, fmt.Sprintf("%s: a chunk of 4 KiB takes %d packets, which is slower, and each is a snapshot of its own", found, chunk/max(active, 1)),
				fmt.Sprintf("ip link set dev %s mtu %d   # on both ends, and the switch between; %d is enough", netdev, jumbo, chunk+headers))
		}
	})
}
