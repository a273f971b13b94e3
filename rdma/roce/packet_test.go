package roce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// agrees wants a Packet to say what the layers of gopacket say.
func agrees(t *testing.T, p *Packet, whole gopacket.Packet) {
	t.Helper()
	ip, bth := find(whole)
	if bth == nil {
		t.Fatalf("gopacket finds no BTH in what Decode takes for %+v: %v", p, whole)
	}
	want := *bth
	want.BaseLayer = layers.BaseLayer{}
	if !sameBTH(p.BTH, want) {
		t.Errorf("BTH %+v, want %+v", p.BTH, want)
	}
	if got := len(payload(whole)); p.Data != got {
		t.Errorf("%d bytes of data, want %d", p.Data, got)
	}
	if l, ok := whole.Layer(LayerTypeRETH).(*RETH); ok != p.HasRETH() || ok && (l.Address != p.RETH.Address || l.DMALength != p.RETH.DMALength || l.Key != p.RETH.Key) {
		t.Errorf("RETH %+v, want %+v", p.RETH, l)
	}
	if l, ok := whole.Layer(LayerTypeAETH).(*AETH); ok != p.HasAETH() || ok && (l.Syndrome != p.AETH.Syndrome || l.MSN != p.AETH.MSN) {
		t.Errorf("AETH %+v, want %+v", p.AETH, l)
	}
	var tos uint8
	switch ip := ip.(type) {
	case *layers.IPv4:
		tos = ip.TOS
	case *layers.IPv6:
		tos = ip.TrafficClass
	}
	if p.CE != (tos&3 == 3) || p.Cut {
		t.Errorf("CE %v of TOS %02x, cut %v", p.CE, tos, p.Cut)
	}
	if tag, ok := whole.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); ok && p.VLAN == 0 && tag.VLANIdentifier != 0 {
		t.Errorf("VLAN %d, want %d", p.VLAN, tag.VLANIdentifier)
	}
}

// sameBTH compares all but the bytes that a layer keeps.
func sameBTH(a, b BTH) bool {
	a.BaseLayer, b.BaseLayer = layers.BaseLayer{}, layers.BaseLayer{}
	return a.Opcode == b.Opcode && a.Solicited == b.Solicited && a.MigReq == b.MigReq && a.PadCount == b.PadCount && a.PKey == b.PKey &&
		a.FECN == b.FECN && a.BECN == b.BECN && a.DestQP == b.DestQP && a.AckReq == b.AckReq && a.PSN == b.PSN && a.ICRC == b.ICRC
}

func TestPacketOfGoldenFrames(t *testing.T) {
	for _, name := range frameNames() {
		t.Run(name, func(t *testing.T) {
			f := frame(t, name)
			var p Packet
			if err := p.Decode(layers.LinkTypeEthernet, f); err != nil {
				t.Fatal(err)
			}
			agrees(t, &p, parse(f))
			// Ethernet pads short frames, and some captures have the FCS too.
			padded := append(bytes.Clone(f), 1, 2, 3, 4)
			var again Packet
			if err := again.Decode(layers.LinkTypeEthernet, padded); err != nil || again.Data != p.Data || !sameBTH(again.BTH, p.BTH) {
				t.Errorf("with a trailer: %+v, %v", again, err)
			}
		})
	}
	var p Packet
	if err := p.Decode(layers.LinkTypeEthernet, frame(t, "vlan-read-request")); err != nil || p.VLAN != 10 {
		t.Errorf("VLAN %d, %v", p.VLAN, err)
	}
	if err := p.Decode(layers.LinkTypeEthernet, frame(t, "read-request")); err != nil ||
		p.Flow != (Flow{Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), DestQP: 0x11}) || p.RETH.DMALength != 4096 || p.VLAN != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestPacketOfOtherLinks(t *testing.T) {
	f := frame(t, "ipv6-read-response")
	var p Packet
	cooked := append(make([]byte, 14), f[12:]...)
	doubly := append(bytes.Clone(f[:12]), 0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x20, 0x09)
	doubly = append(doubly, f[12:]...)
	for _, c := range []struct {
		link layers.LinkType
		data []byte
		vlan uint16
	}{
		{layers.LinkTypeRaw, f[14:], 0}, {layers.LinkTypeLinuxSLL, cooked, 0}, {layers.LinkTypeEthernet, doubly, 9},
	} {
		if err := p.Decode(c.link, c.data); err != nil || p.Data != 255 || p.VLAN != c.vlan {
			t.Errorf("%v: %+v, %v", c.link, p, err)
		}
	}
	if err := p.Decode(layers.LinkTypeIEEE802_11, f); !errors.Is(err, ErrNotRoCE) {
		t.Errorf("802.11: %v", err)
	}
	many := bytes.Clone(f[:12])
	for range 9 {
		many = append(many, 0x81, 0x00, 0x00, 0x01)
	}
	if err := p.Decode(layers.LinkTypeEthernet, append(many, f[12:]...)); !errors.Is(err, ErrNotRoCE) {
		t.Errorf("nine tags: %v", err)
	}
}

// A capture that keeps the headers only is enough for everything but the ICRC.
func TestPacketCutByTheCapture(t *testing.T) {
	for _, name := range frameNames() {
		f := frame(t, name)
		var whole Packet
		if err := whole.Decode(layers.LinkTypeEthernet, f); err != nil {
			t.Fatal(err)
		}
		headers := len(f) - whole.Data - int(whole.BTH.PadCount) - icrcSize
		for n := range f {
			var p Packet
			err := p.Decode(layers.LinkTypeEthernet, f[:n:n])
			other := whole.BTH.Opcode.headers().other
			if whole.BTH.Opcode.headers().deth {
				other += dethSize // not needed either
			}
			switch {
			case n < headers-other && err == nil:
				t.Errorf("%s cut to %d of %d bytes of headers: no error", name, n, headers)
			case n >= headers && (err != nil || !p.Cut || p.Data != whole.Data || p.BTH.PSN != whole.BTH.PSN || p.BTH.ICRC != 0):
				t.Errorf("%s cut to %d bytes: %+v, %v", name, n, p, err)
			}
		}
	}
}

func TestPacketErrors(t *testing.T) {
	changed := func(name string, at int, b ...byte) []byte {
		f := frame(t, name)
		copy(f[at:], b)
		return f
	}
	const ip, udp, bth = 14, 34, 42
	for _, c := range []struct {
		what  string
		frame []byte
		want  error
	}{
		{"nothing", nil, ErrNotRoCE},
		{"ARP", changed("acknowledge", 12, 0x08, 0x06), ErrNotRoCE},
		{"TCP", changed("acknowledge", ip+9, 6), ErrNotRoCE},
		{"another port", changed("acknowledge", udp+2, 0x12, 0xb8), ErrNotRoCE},
		{"IP version", changed("acknowledge", ip, 0x55), ErrNotRoCE},
		{"header length", changed("acknowledge", ip, 0x42), ErrNotRoCE},
		{"later fragment", changed("acknowledge", ip+6, 0x00, 0x05), ErrNotRoCE},
		{"first fragment", changed("acknowledge", ip+6, 0x20, 0x00), ErrHeaders},
		{"UDP length", changed("acknowledge", udp+4, 0, 9), ErrTruncated},
		{"too short for its opcode", changed("acknowledge", bth, byte(FetchAdd)), ErrTruncated},
		{"version", changed("acknowledge", bth+1, 0x01), ErrVersion},
		{"one bit", changed("read-response-only", bth+40, 0x55), ErrICRC},
	} {
		var p Packet
		if err := p.Decode(layers.LinkTypeEthernet, c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	options := frame(t, "acknowledge")
	options = append(options[:ip+20:ip+20], append([]byte{1, 1, 1, 1}, options[ip+20:]...)...)
	options[ip] = 0x46
	binary.BigEndian.PutUint16(options[ip+2:], uint16(len(options)-ip))
	var p Packet
	if err := p.Decode(layers.LinkTypeEthernet, options); !errors.Is(err, ErrHeaders) {
		t.Errorf("IPv4 options: %v", err)
	}
}

func TestPacketSeesCongestion(t *testing.T) {
	for _, name := range []string{"read-request", "ipv6-read-request"} {
		for ecn := range byte(4) {
			f := frame(t, name)
			mark := ecn
			if name[0] == 'i' {
				mark <<= 4 // the traffic class ends in the upper half of the second byte
			}
			f[15] |= mark
			var p Packet
			if err := p.Decode(layers.LinkTypeEthernet, f); err != nil || p.CE != (ecn == 3) {
				t.Errorf("%s, ECN %d: CE %v, %v", name, ecn, p.CE, err)
			}
		}
	}
}

func TestPacketAllocatesNothing(t *testing.T) {
	f := frame(t, "read-response-only")
	var p Packet
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Decode(layers.LinkTypeEthernet, f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// FuzzPacket: what Decode takes, gopacket's layers take too and see the same in.
func FuzzPacket(f *testing.F) {
	for _, name := range frameNames() {
		f.Add(frame(f, name))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Packet
		for _, link := range []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeRaw} {
			err := p.Decode(link, data)
			if err != nil || p.Cut || link != layers.LinkTypeEthernet {
				continue
			}
			whole := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
			if _, bth := find(whole); bth == nil {
				continue // more than gopacket's layers take: QinQ
			}
			agrees(t, &p, whole)
			if err := CheckICRC(whole); err != nil {
				t.Errorf("Decode finds no fault, CheckICRC %v", err)
			}
		}
	})
}
