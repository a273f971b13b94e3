package doctor

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/rdma"
)

// counter is a counter of a port; ok is false where the device has none of it.
func (e *exam) counter(d rdma.Device, p rdma.Port, name string) (n uint64, ok bool) {
	for _, dir := range []string{"hw_counters", "counters"} {
		if n, err := strconv.ParseUint(e.text(portFile(d, p, dir+"/"+name)), 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// sum adds up the counters that there are.
func (e *exam) sum(d rdma.Device, p rdma.Port, names ...string) (total uint64) {
	for _, name := range names {
		n, _ := e.counter(d, p, name)
		total += n
	}
	return total
}

// Counters by driver, where names differ. Those of the first list are packets
// that were lost or late, as one or the other end noticed.
var (
	lossCounters = []string{"packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
		"completer_retry_err", "out_of_seq_request", "rcvd_seq_err", "seq_err_naks_rcvd", "to_retransmits", "rx_icrc_encapsulated", "roce_adp_retrans_to"}
	packetCounters = []string{"port_xmit_packets", "port_rcv_packets", "sent_pkts", "rcvd_pkts", "tx_roce_only_pkts", "rx_roce_only_pkts"}
	cnpCounters    = []string{"np_cnp_sent", "rp_cnp_handled", "tx_cnp", "rx_cnp"}
)

// tolerable is the share of lost packets below which nothing is said: one in
// 100,000. A lost packet costs its READ a time-out of some ms.
const tolerable = 1e-5

// checkCounters is about what ports have counted since they came up.
func (e *exam) checkCounters() {
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		if !p.Active() {
			return
		}
		lost, packets := e.sum(d, p, lossCounters...), e.sum(d, p, packetCounters...)
		errors := e.sum(d, p, "port_rcv_errors", "symbol_error", "link_error_recovery", "local_link_integrity_errors")
		downs, _ := e.counter(d, p, "link_downed")
		var facts []string
		for _, name := range append(append([]string{}, lossCounters...), "retry_exceeded_err", "req_transport_retries_exceeded", "link_downed", "port_rcv_errors", "port_xmit_discards") {
			if n, ok := e.counter(d, p, name); ok && n > 0 {
				facts = append(facts, fmt.Sprintf("%s %d", name, n))
			}
		}
		netdev := e.netdev(p)
		switch {
		case packets == 0:
			e.say("counters", on, OK, "no traffic yet")
		case float64(lost) > tolerable*float64(packets) && lost > 10:
			f := e.say("counters", on, Warn, fmt.Sprintf("%d of %d packets were lost or late since the port came up (%.1g): READs wait for time-outs", lost, packets, float64(lost)/float64(packets)),
				"rmatail trace -i "+netdev+"   # soft-RoCE; for hardware trace a capture of the switch", "rdma statistic show link "+d.Name+"/"+fmt.Sprint(p.Number), "ethtool -S "+netdev+" | grep -E 'discard|drop|pause|err'")
			f.Details = facts
		case errors > 100:
			f := e.say("counters", on, Warn, fmt.Sprintf("%d errors on the link: cable, plug or transceiver", errors), "ethtool -m "+netdev)
			f.Details = facts
		default:
			found := fmt.Sprintf("%d packets, %d lost or late", packets, lost)
			if downs > 0 {
				found += fmt.Sprintf("; the link was down %d times", downs)
			}
			e.say("counters", on, OK, found)
		}
	})
}

// checkCongestion is about how a network of hardware avoids loss: by pausing
// (PFC) or by slowing down (ECN).
func (e *exam) checkCongestion() {
	e.eachPort(func(d rdma.Device, p rdma.Port, on string) {
		if _, soft := e.rxe(d); soft || !p.Active() || p.LinkLayer != rdma.LinkLayerEthernet {
			return
		}
		netdev := e.netdev(p)
		look := []string{"dcb pfc show dev " + netdev, "ethtool -a " + netdev, "cat /" + portFile(d, p, "hw_counters/*cnp*")}
		turnOn := fmt.Sprintf("for f in /sys/class/net/%s/ecn/roce_*/enable/3; do echo 1 > $f; done   # and ECN for that priority on the switches", netdev)
		dir := path.Join("sys/class/net", netdev, "ecn")
		on1, off := 0, 0
		for _, side := range []string{"roce_np", "roce_rp"} {
			for _, prio := range e.entries(path.Join(dir, side, "enable")) {
				if e.text(path.Join(dir, side, "enable", prio)) == "1" {
					on1++
				} else {
					off++
				}
			}
		}
		marked, _ := e.counter(d, p, "np_ecn_marked_roce_packets")
		cnps := e.sum(d, p, cnpCounters...)
		lost := e.sum(d, p, lossCounters...)
		switch {
		case on1 == 0 && off > 0:
			e.say("congestion", on, Warn, "ECN is off for all priorities: a full switch drops packets unless it pauses (PFC)", turnOn, look[0])
		case cnps > 0 || marked > 0:
			e.say("congestion", on, OK, fmt.Sprintf("ECN works: %d packets marked, %d notifications", marked, cnps))
		case on1 > 0:
			e.say("congestion", on, OK, "ECN is on, and was not needed yet")
		case lost > 0:
			e.say("congestion", on, Warn, fmt.Sprintf("%d packets lost or late, and no congestion notification ever: neither PFC nor ECN seems to be set up on the way", lost), append([]string{turnOn}, look...)...)
		default:
			e.say("congestion", on, Unknown, "no sign of congestion, nor of what would prevent loss by it", look...)
		}
	})
}

// checkPCIe is about the slot of a card. Virtual devices have none.
func (e *exam) checkPCIe() {
	for _, d := range e.devices {
		dir := "sys/class/infiniband/" + d.Name + "/device"
		width, okw := e.number(path.Join(dir, "current_link_width"))
		most, okm := e.number(path.Join(dir, "max_link_width"))
		speed, best := e.text(path.Join(dir, "current_link_speed")), e.text(path.Join(dir, "max_link_speed"))
		if !okw || !okm || width == 0 {
			continue
		}
		found := fmt.Sprintf("PCIe x%d at %s", width, short(speed))
		if node, ok := e.number(path.Join(dir, "numa_node")); ok && node >= 0 {
			found += fmt.Sprintf(", NUMA node %d", node)
		}
		if width < most || short(speed) != short(best) {
			e.say("pcie", d.Name, Warn, fmt.Sprintf("%s, the card can x%d at %s: the slot bounds its rate", found, most, short(best)),
				fmt.Sprintf("lspci -vv -s %s | grep -E 'LnkCap|LnkSta'   # and another slot", strings.TrimPrefix(e.devlink(d), "pci/")))
			continue
		}
		e.say("pcie", d.Name, OK, found)
	}
}

// short is "16.0 GT/s" of "16.0 GT/s PCIe".
func short(speed string) string { return strings.TrimSuffix(speed, " PCIe") }

// checkClock is about the clocks that latencies and heartbeats are told by.
func (e *exam) checkClock() {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	source := e.text(dir + "current_clocksource")
	slow := source == "hpet" || source == "acpi_pm" || source == "jiffies"
	switch {
	case slow && strings.Contains(e.text(dir+"available_clocksource"), "tsc"):
		e.say("clock", "", Warn, "clock source "+source+": reading the time costs microseconds, as long as a READ", "echo tsc > /"+dir+"current_clocksource")
	case slow:
		e.say("clock", "", Warn, "clock source "+source+": reading the time costs microseconds, as long as a READ; the kernel does not trust the TSC here", "dmesg | grep -i tsc")
	case source != "":
		e.say("clock", "", OK, "clock source "+source)
	}
	const sync = "timedatectl set-ntp true"
	switch c := e.Clock; {
	case !c.Known:
		e.say("clock", "", Unknown, "whether the wall clock is synchronised cannot be found out", "timedatectl")
	case !c.Synced:
		e.say("clock", "", Warn, "the wall clock is not synchronised: ages of heartbeats by another host's clock are off by as much", sync)
	default:
		e.say("clock", "", OK, fmt.Sprintf("the wall clock is synchronised, to %v at worst", c.MaxError))
	}
}
