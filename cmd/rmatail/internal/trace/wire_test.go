package trace

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/rdma/roce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link is a made-up connection: it builds the frames that its two ends send.
type link struct {
	reader, memory     netip.Addr
	readerQP, memoryQP uint32
	vlan               uint16
	mtu                int
	tos                uint8
}

func newLink() *link {
	return &link{reader: netip.MustParseAddr("10.9.0.1"), memory: netip.MustParseAddr("10.9.0.2"), readerQP: 0x11, memoryQP: 0x22, mtu: 4096}
}

// frame builds one frame with a fitting ICRC.
func (l *link) frame(from, to netip.Addr, bth *roce.BTH, rest ...gopacket.SerializableLayer) []byte {
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	all := []gopacket.SerializableLayer{eth}
	if l.vlan != 0 {
		all = append(all, &layers.Dot1Q{VLANIdentifier: l.vlan, Type: layers.EthernetTypeIPv4})
	}
	udp := &layers.UDP{SrcPort: 49152, DstPort: roce.Port}
	if from.Is4() {
		all = append(all, &layers.IPv4{Version: 4, TTL: 64, TOS: l.tos, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()})
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		if l.vlan != 0 {
			eth.EthernetType, all[1].(*layers.Dot1Q).Type = layers.EthernetTypeIPv4, layers.EthernetTypeIPv6
		}
		all = append(all, &layers.IPv6{Version: 6, HopLimit: 64, TrafficClass: l.tos, NextHeader: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()})
	}
	if l.vlan != 0 {
		eth.EthernetType = layers.EthernetTypeDot1Q
	}
	bth.PKey = 0xffff
	all = append(all, udp, bth)
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, append(all, rest...)...); err != nil {
		panic(err)
	}
	f := bytes.Clone(buf.Bytes())
	ip := 14
	if l.vlan != 0 {
		ip += 4
	}
	if err := roce.SetICRC(f[ip:]); err != nil {
		panic(err)
	}
	return f
}

func (l *link) request(p uint32, length int) []byte {
	return l.frame(l.reader, l.memory, &roce.BTH{Opcode: roce.ReadRequest, DestQP: l.memoryQP, PSN: p & roce.PSNMask, AckReq: true},
		&roce.RETH{Address: 0x1000, Key: 0x5ec4e7, DMALength: uint32(length)})
}

// responses are all packets that answer a READ.
func (l *link) responses(p uint32, length int) [][]byte {
	var out [][]byte
	n := max((length+l.mtu-1)/l.mtu, 1)
	for i := range n {
		op := roce.ReadResponseMid
		switch {
		case n == 1:
			op = roce.ReadResponseOnly
		case i == 0:
			op = roce.ReadResponseFirst
		case i == n-1:
			op = roce.ReadResponseLast
		}
		out = append(out, l.response(op, p+uint32(i), min(l.mtu, length-i*l.mtu)))
	}
	return out
}

func (l *link) response(op roce.Opcode, p uint32, size int) []byte {
	rest := []gopacket.SerializableLayer{}
	if op != roce.ReadResponseMid {
		rest = append(rest, &roce.AETH{Syndrome: 0x1f, MSN: 1})
	}
	rest = append(rest, gopacket.Payload(bytes.Repeat([]byte{0xda}, size)))
	return l.frame(l.memory, l.reader, &roce.BTH{Opcode: op, DestQP: l.readerQP, PSN: p & roce.PSNMask}, rest...)
}

func (l *link) nak(p uint32, syndrome uint8) []byte {
	return l.frame(l.memory, l.reader, &roce.BTH{Opcode: roce.Acknowledge, DestQP: l.readerQP, PSN: p & roce.PSNMask},
		&roce.AETH{Syndrome: roce.Syndrome(syndrome), MSN: 1})
}

func (l *link) cnp() []byte {
	return l.frame(l.memory, l.reader, &roce.BTH{Opcode: roce.CNP, DestQP: l.readerQP, BECN: true}, gopacket.Payload(make([]byte, 16)))
}

// epoch is when the made-up captures begin.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tape is a made-up capture.
type tape struct {
	frames []Frame
	at     time.Time
	next   int
	lost   uint64
}

// add puts frames on the tape, a step of time before each.
func (t *tape) add(step time.Duration, frames ...[]byte) {
	if t.at.IsZero() {
		t.at = epoch
	}
	for _, f := range frames {
		t.at = t.at.Add(step)
		t.frames = append(t.frames, Frame{Data: f, Length: len(f), Time: t.at, Link: layers.LinkTypeEthernet})
	}
}

// table reads the tape into a table.
func (t *tape) table(connections int) *Table {
	table := NewTable(connections)
	var p roce.Packet
	for _, f := range t.frames {
		table.Add(&p, p.Decode(f.Link, f.Data), f.Length, f.Time)
	}
	return table
}

// one is the only connection on the tape.
func (t *tape) one(tb testing.TB) Connection {
	tb.Helper()
	r := t.table(0).Report()
	if len(r.Connections) != 1 {
		tb.Fatalf("%d connections, want 1: %+v", len(r.Connections), r.Connections)
	}
	return r.Connections[0]
}
