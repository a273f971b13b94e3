package roce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// maxFlows bounds the memory of a Summary; further flows are counted together,
// under the zero Flow.
const maxFlows = 4096

// Flow is one direction of a connection.
type Flow struct {
	Src, Dst netip.Addr
	DestQP   uint32
}

func (f Flow) String() string { return fmt.Sprintf("%v > %v qp %d", f.Src, f.Dst, f.DestQP) }

// Counts is what was seen of a flow, or of all.
type Counts struct {
	Packets   map[Opcode]uint64
	Bytes     map[Opcode]uint64 // payload without pad
	Requested uint64            // bytes that READ requests ask for
	// Repeated is packets, of those above, whose PSN was not beyond the last of
	// their kind: sent again after a loss, or a time-out of a slow host.
	Repeated uint64
	NAKs     uint64 // AETHs that refuse, RNR not included
}

// Summary counts the RoCE packets of a capture. The zero value is ready; one
// goroutine at a time.
type Summary struct {
	Flows map[Flow]*Counts
	// Bad is packets on the RoCE port that do not decode, were cut short by the
	// capture, or fail the ICRC. They are counted here only.
	Bad uint64

	last map[lane]uint32
}

// lane is packets of a flow that come with ascending PSNs.
type lane struct {
	flow Flow
	kind string
}

// Add counts a packet; one that is not RoCE v2 is ignored. The error says why a
// packet was counted as bad.
func (s *Summary) Add(p gopacket.Packet) error {
	ip, bth := find(p)
	if bth == nil {
		if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && udp.DstPort == Port {
			s.Bad++
			if failure := p.ErrorLayer(); failure != nil {
				return failure.Error()
			}
			return ErrNotRoCE
		}
		return nil
	}
	if err := CheckICRC(p); err != nil {
		s.Bad++
		return err
	}
	flow := Flow{DestQP: bth.DestQP}
	switch ip := ip.(type) {
	case *layers.IPv4:
		flow.Src, _ = netip.AddrFromSlice(ip.SrcIP.To4())
		flow.Dst, _ = netip.AddrFromSlice(ip.DstIP.To4())
	case *layers.IPv6:
		flow.Src, _ = netip.AddrFromSlice(ip.SrcIP)
		flow.Dst, _ = netip.AddrFromSlice(ip.DstIP)
	}
	s.count(flow, bth, p)
	return nil
}

func (s *Summary) count(flow Flow, bth *BTH, p gopacket.Packet) {
	if s.Flows == nil {
		s.Flows, s.last = map[Flow]*Counts{}, map[lane]uint32{}
	}
	c := s.Flows[flow]
	if c == nil && len(s.Flows) >= maxFlows {
		flow = Flow{}
		c = s.Flows[flow]
	}
	if c == nil {
		c = &Counts{}
		s.Flows[flow] = c
	}
	c.add(bth.Opcode, 1, uint64(len(payload(p))))
	if reth, ok := p.Layer(LayerTypeRETH).(*RETH); ok && bth.Opcode == ReadRequest {
		c.Requested += uint64(reth.DMALength)
	}
	if aeth, ok := p.Layer(LayerTypeAETH).(*AETH); ok && aeth.Syndrome.IsNAK() {
		c.NAKs++
	}
	kind := "request"
	switch {
	case bth.Opcode.IsReadResponse():
		kind = "response"
	case bth.Opcode == Acknowledge || bth.Opcode == AtomicAcknowledge:
		return // may acknowledge a PSN twice and mean it
	}
	l := lane{flow, kind}
	if last, seen := s.last[l]; seen && (bth.PSN-last-1)&PSNMask >= 1<<23 && flow != (Flow{}) {
		c.Repeated++
		return
	}
	s.last[l] = bth.PSN
}

func payload(p gopacket.Packet) []byte {
	if app := p.ApplicationLayer(); app != nil {
		return app.LayerContents()
	}
	return nil
}

func (c *Counts) add(o Opcode, packets, bytes uint64) {
	if c.Packets == nil {
		c.Packets, c.Bytes = map[Opcode]uint64{}, map[Opcode]uint64{}
	}
	c.Packets[o] += packets
	c.Bytes[o] += bytes
}

// Total adds up all flows.
func (s *Summary) Total() Counts {
	total := Counts{Packets: map[Opcode]uint64{}, Bytes: map[Opcode]uint64{}}
	for _, c := range s.Flows {
		for o, n := range c.Packets {
			total.add(o, n, c.Bytes[o])
		}
		total.Requested += c.Requested
		total.Repeated += c.Repeated
		total.NAKs += c.NAKs
	}
	return total
}

// ReadResponses is the number of packets that answered READs.
func (c Counts) ReadResponses() uint64 {
	return c.Packets[ReadResponseFirst] + c.Packets[ReadResponseMid] + c.Packets[ReadResponseLast] + c.Packets[ReadResponseOnly]
}

// OneSided returns nil if all packets were READ requests and READ responses,
// each of which passed its ICRC, and there was at least one of both. The other
// end's process has then no part in the transfer: nothing was sent that its
// software would have to answer.
func (s *Summary) OneSided() error {
	total := s.Total()
	if s.Bad > 0 {
		return fmt.Errorf("%w: %d bad packets", ErrNotOneSided, s.Bad)
	}
	for _, o := range slices.Sorted(maps.Keys(total.Packets)) {
		if !o.IsRead() {
			return fmt.Errorf("%w: %d packets %v", ErrNotOneSided, total.Packets[o], o)
		}
	}
	if total.Packets[ReadRequest] == 0 || total.ReadResponses() == 0 {
		return fmt.Errorf("%w: %d READ requests, %d response packets", ErrNotOneSided, total.Packets[ReadRequest], total.ReadResponses())
	}
	return nil
}

// String has a line per flow and opcode.
func (s *Summary) String() string {
	var b strings.Builder
	flows := slices.SortedFunc(maps.Keys(s.Flows), func(x, y Flow) int {
		return strings.Compare(x.String(), y.String())
	})
	for _, f := range flows {
		c := s.Flows[f]
		for _, o := range slices.Sorted(maps.Keys(c.Packets)) {
			fmt.Fprintf(&b, "%v  %v  %d packets, %d bytes\n", f, o, c.Packets[o], c.Bytes[o])
		}
		if c.Requested+c.Repeated+c.NAKs > 0 {
			fmt.Fprintf(&b, "%v  %d bytes requested, %d packets repeated, %d NAKs\n", f, c.Requested, c.Repeated, c.NAKs)
		}
	}
	if s.Bad > 0 {
		fmt.Fprintf(&b, "%d bad packets\n", s.Bad)
	}
	return b.String()
}
