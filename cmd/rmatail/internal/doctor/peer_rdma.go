package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/rmatail/rmatail/cgo/ibverbs"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// Thresholds for hardware, far off what it should give: a warning is for what is
// wrong, not for what could be tuned.
const (
	slowREAD  = 100.0 // microseconds for 4 KiB
	slowShare = 0.1   // of the link's rate, with 64 READs at once on one connection
)

// tryRDMA goes the way of a reader: choose, offer, ready to receive on the node's
// end, ready to receive on this one, READ.
func (t *trial) tryRDMA(ctx context.Context) {
	addr, ok := t.remote()
	if !ok {
		t.say("peer-rdma", OK, "not over a Unix socket: name the node by its address")
		return
	}
	if t.client.Hello().Features&wire.FeatureRDMA == 0 {
		t.say("peer-rdma", Warn, "the node exports no RDMA"+t.reason("rdma_reason"), "rmatail doctor   # on the node's host", "rmatail serve --rdma require ...")
		return
	}
	d, err := rdma.Prepare(rdma.Config{Device: t.Device, GIDIndex: t.GIDIndex, BufferBytes: 1 << 20, Logger: t.Logger}, addr)
	if err != nil {
		t.cannotPrepare(addr, err)
		return
	}
	f := t.say("peer-gid", OK, "would go by "+d.Choice.String())
	f.Details = append(traceLines(d.Choice.Trace), passedOver(d.Choice.PassedOver)...)

	ctx, cancel := context.WithTimeout(ctx, 2*peerTimeout)
	defer cancel()
	answer, err := t.client.Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
	if err != nil {
		t.say("peer-rtr", Fail, fmt.Sprintf("the node's end does not get ready to receive: %v", errors.Join(err, d.Close())), rtrFix(err, d.Choice, addr, "on the node's host: ")...)
		return
	}
	conn, err := d.Finish(ctx, answer)
	if err != nil {
		t.say("peer-rtr", Fail, fmt.Sprintf("this end does not get ready to receive: %v", err), rtrFix(err, d.Choice, addr, "")...)
		return
	}
	defer conn.Close()
	t.say("peer-rtr", OK, fmt.Sprintf("both ends are ready to receive: QP %d to %d, %v to %v, up to %d READs at once", conn.Path.QPN, conn.Path.PeerQPN, conn.Path.GID, conn.Path.PeerGID, conn.Path.Reads))
	t.pathMTU(conn, d.Choice)
	t.readRDMA(conn, d.Choice)
}

// cannotPrepare says why this end has no way to the node.
func (t *trial) cannotPrepare(addr netip.Addr, err error) {
	var none *rdma.NoDeviceError
	if !errors.As(err, &none) {
		t.say("peer-gid", Fail, fmt.Sprintf("RDMA cannot be used here: %v", err), "rmatail doctor")
		return
	}
	f := t.say("peer-gid", Warn, fmt.Sprintf("no RDMA device of this host leads to %v: %s", addr, none.Cause), "ip route get "+addr.String(), "rmatail doctor --all   # all devices and GIDs")
	f.Details = passedOver(none.Reasons)
	for _, r := range none.Reasons {
		var gid *rdma.NoGIDError
		if errors.As(r.Err, &gid) {
			f.Details = append(f.Details, traceLines(gid.Trace)...)
		}
	}
}

func passedOver(reasons []rdma.DeviceReason) []string {
	var lines []string
	for i, r := range reasons {
		if i == maxDetails {
			break
		}
		lines = append(lines, "- "+r.String())
	}
	return lines
}

// rtrFix is what to do when a queue pair does not get ready to receive.
func rtrFix(err error, c rdma.Choice, addr netip.Addr, where string) []string {
	netdev := c.GID.Netdev
	var refused *wire.Error
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ETIMEDOUT) || errors.As(err, &refused) && strings.Contains(text, syscall.ETIMEDOUT.Error()):
		return []string{where + "ping -c 3 -I " + netdev + " " + addr.String() + "   # the other end's address does not resolve: one link, one VLAN?", where + "ip neigh show dev " + netdev}
	case errors.Is(err, syscall.ENODEV):
		return []string{where + "rmatail doctor   # is the GID's netdev in this network namespace?"}
	case errors.Is(err, rdma.ErrIncompatible):
		return []string{"rmatail doctor --all   # on both hosts: GIDs of one type and family", "rmatail doctor --peer " + addr.String() + ":PORT --gid-index N"}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return []string{where + "ip neigh show dev " + netdev, where + "dmesg | tail"}
	}
	return []string{where + "rmatail doctor"}
}

// pathMTU says what was negotiated.
func (t *trial) pathMTU(conn *rdma.Conn, c rdma.Choice) {
	mtu := conn.Path.MTU
	if mtu >= chunk {
		t.say("peer-mtu", OK, fmt.Sprintf("path MTU %d: a chunk of 4 KiB is one packet", mtu))
		return
	}
	t.say("peer-mtu", Warn, fmt.Sprintf("path MTU %d, the smaller of both ends': a chunk of 4 KiB takes %d packets", mtu, chunk/max(mtu, 1)),
		fmt.Sprintf("ip link set dev %s mtu %d   # on both ends, and the switch between", c.GID.Netdev, jumbo))
}

// readRDMA reads little, then a chunk, then many.
func (t *trial) readRDMA(conn *rdma.Conn, c rdma.Choice) {
	p := way{"rdma", conn.Path.Length, func(n int) (batch, error) { return conn.NewBatch(n) }}
	if _, err := p.read(0, 64); err != nil {
		t.say("peer-rdma", Fail, fmt.Sprintf("ready, but no packet comes back: %v", err), append(completionFix(err, c), firstReadFix("peer-rdma")...)...)
		return
	}
	if _, err := p.read(0, chunk); err != nil {
		t.say("peer-rdma", Fail, fmt.Sprintf("64 bytes can be read, 4 KiB cannot: packets of the path MTU %d do not get through: %v", conn.Path.MTU, err),
			fmt.Sprintf("ping -M do -s %d -c 3 -I %s %v   # the switch's MTU", conn.Path.MTU+headers-28, c.GID.Netdev, conn.Path.PeerGID.Addr()))
		return
	}
	before := t.lossesOf(c)
	m, ok := t.measured("peer-rdma", p, "")
	if !ok {
		return
	}
	f := &t.peer.findings[len(t.peer.findings)-1]
	link := linkRate(c)
	if link > 0 {
		f.Found += fmt.Sprintf("; the link has %.0f MB/s", link/1e6)
	}
	switch lost := t.lossesOf(c) - before; {
	case lost > 1+uint64(m.Reads+m.Batched)/1000: // a busy host makes a few time-outs
		f.Verdict = Warn
		f.Found += fmt.Sprintf("; %d packets were lost or late meanwhile", lost)
		f.Fix = []string{"rmatail doctor --all   # counters and congestion", "rmatail trace -i " + c.GID.Netdev}
	case c.Device.Software:
		f.Found += "; soft-RoCE: the hosts' processors set the pace"
	case m.P50 > slowREAD || link > 0 && m.Rate < slowShare*link:
		f.Verdict = Warn
		f.Found += "; much below what such a link gives"
		f.Fix = []string{"rmatail doctor --all   # on both hosts: MTU, PCIe, counters, congestion", "cpupower frequency-set -g performance   # and power saving in the firmware"}
	}
}

// completionFix is what a failed READ points to.
func completionFix(err error, c rdma.Choice) []string {
	var failed *rdma.CompletionError
	if !errors.As(err, &failed) {
		return nil
	}
	switch failed.Status {
	case ibverbs.LocQPOpErr:
		return []string{"ip link show dev " + c.GID.Netdev}
	case ibverbs.RemAccessErr, ibverbs.RemInvReqErr:
		return []string{"rmatail stat --server ADDR   # has the node been started anew?"}
	}
	return nil
}

// lossesOf is what the port of a choice has counted of lost and late packets.
func (t *trial) lossesOf(c rdma.Choice) uint64 {
	e := exam{Host: &Host{Root: os.DirFS("/")}}
	return e.sum(c.Device, c.Port, lossCounters...)
}

// linkRate is a port's rate in bytes a second, 0 if it is not known or that of
// software.
func linkRate(c rdma.Choice) float64 {
	if c.Device.Software {
		return 0
	}
	e := exam{Host: &Host{Root: os.DirFS("/")}}
	return parseRate(e.text(portFile(c.Device, c.Port, "rate")))
}

// parseRate reads "100 Gb/sec (4X EDR)".
func parseRate(text string) float64 {
	var gigabits float64
	if _, err := fmt.Sscanf(text, "%g Gb/sec", &gigabits); err != nil {
		return 0
	}
	return gigabits * 1e9 / 8
}

// compare puts RDMA and TCP side by side.
func (t *trial) compare() {
	by := map[string]Measure{}
	for _, m := range t.peer.Measured {
		by[m.Transport] = m
	}
	tcp, rdma := by["tcp"], by["rdma"]
	if tcp.Reads == 0 || rdma.Reads == 0 {
		return
	}
	t.say("peer-best", OK, fmt.Sprintf("RDMA takes %.2f times as long as TCP for 4 KiB, and has %.2f times its rate", rdma.P50/tcp.P50, rdma.Rate/tcp.Rate))
}
