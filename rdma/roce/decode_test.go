package roce

import (
	"bytes"
	"errors"
	"net"
	"reflect"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"
)

func TestDecodeTruncated(t *testing.T) {
	for _, name := range frameNames() {
		f := frame(t, name)
		udp := len(f) - len(parse(f).Layer(layers.LayerTypeUDP).LayerPayload())
		for cut := udp; cut < len(f); cut++ {
			p := parse(f[:cut])
			if err := CheckICRC(p); err == nil {
				t.Fatalf("%s cut to %d of %d bytes passes", name, cut, len(f))
			}
			bth, _ := p.Layer(LayerTypeBTH).(*BTH)
			if bth == nil && (p.ErrorLayer() == nil || !errors.Is(p.ErrorLayer().Error(), ErrTruncated)) && cut > udp {
				t.Fatalf("%s cut to %d bytes: %v", name, cut, p.ErrorLayer())
			}
		}
	}
}

func TestDecodeRefused(t *testing.T) {
	f := frame(t, "read-request")
	bth := len(f) - len(parse(f).Layer(layers.LayerTypeUDP).LayerPayload())
	for _, c := range []struct {
		name   string
		change func(f []byte)
		want   error
	}{
		{"version 1", func(f []byte) { f[bth+1] |= 1 }, ErrVersion},
		{"no room for the RETH", func(f []byte) { f[bth+1] |= 0x30 }, ErrTruncated}, // pad 3, taken from the RETH
		{"no room for the headers", func(f []byte) { f[bth] = 0x13 }, ErrTruncated}, // atomic request: 28 bytes
	} {
		changed := bytes.Clone(f)
		c.change(changed)
		p := parse(changed)
		if p.ErrorLayer() == nil || !errors.Is(p.ErrorLayer().Error(), c.want) {
			t.Errorf("%s: %v, want %v", c.name, p.ErrorLayer(), c.want)
		}
		if !errors.Is(CheckICRC(p), ErrNotRoCE) {
			t.Errorf("%s: CheckICRC %v", c.name, CheckICRC(p))
		}
	}
}

// Each bit of a packet that the ICRC covers is covered, and no other bit.
func TestICRCCoverage(t *testing.T) {
	for _, name := range []string{"read-request", "send-only", "vlan-read-response", "ipv6-read-request", "ipv6-read-response"} {
		f := frame(t, name)
		ip := 14
		if f[12] == 0x81 {
			ip = 18
		}
		packet := f[ip:]
		variant := map[int]byte{1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff, 26: 0xff, 27: 0xff, 32: 0xff}
		if packet[0]>>4 == 6 {
			variant = map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 46: 0xff, 47: 0xff, 52: 0xff}
		}
		want, err := ICRC(packet)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(packet) - icrcSize {
			for b := range 8 {
				changed := bytes.Clone(packet)
				changed[i] ^= 1 << b
				got, err := ICRC(changed)
				free := variant[i]&(1<<b) != 0
				if (err == nil && got == want) != free {
					t.Errorf("%s: byte %d bit %d: %08x, was %08x, %v", name, i, b, got, want, err)
				}
			}
		}
	}
}

func TestICRCRefused(t *testing.T) {
	v4, v6 := frame(t, "read-request")[14:], frame(t, "ipv6-read-request")[14:]
	change := func(packet []byte, i int, b byte) []byte {
		changed := bytes.Clone(packet)
		changed[i] = b
		return changed
	}
	for _, c := range []struct {
		name   string
		packet []byte
		want   error
	}{
		{"empty", nil, ErrTruncated},
		{"IPv4 options", change(v4, 0, 0x46), ErrHeaders},
		{"more fragments", change(v4, 6, 0x20), ErrHeaders},
		{"fragment offset", change(v4, 7, 1), ErrHeaders},
		{"TCP", change(v4, 9, 6), ErrHeaders},
		{"hop-by-hop options", change(v6, 6, 0), ErrHeaders},
		{"IP version 5", change(v4, 0, 0x55), ErrNotRoCE},
		{"cut", v4[:len(v4)-1], ErrTruncated},
		{"longer than it says", append(bytes.Clone(v6), 0), ErrTruncated},
		{"shorter than its headers", change(v4, 3, 30)[:44], ErrTruncated},
	} {
		if _, err := ICRC(c.packet); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err := SetICRC(c.packet); err == nil {
			t.Errorf("%s: SetICRC: no error", c.name)
		}
	}
	p := parse(frame(t, "send-only"))
	p.Layer(LayerTypeBTH).(*BTH).ICRC ^= 1
	if err := CheckICRC(p); !errors.Is(err, ErrICRC) {
		t.Errorf("%v, want ErrICRC", err)
	}
}

// drawLayers builds a valid packet from the IP header on.
func drawLayers(t *rapid.T) (ip gopacket.SerializableLayer, rest []gopacket.SerializableLayer) {
	udp := &layers.UDP{SrcPort: layers.UDPPort(rapid.Uint16().Draw(t, "source port")), DstPort: Port}
	if rapid.Bool().Draw(t, "IPv6") {
		ip = &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolUDP, HopLimit: rapid.Uint8().Draw(t, "hops"),
			FlowLabel: uint32(rapid.IntRange(0, 1<<20-1).Draw(t, "flow")), SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
	} else {
		ip = &layers.IPv4{Version: 4, IHL: 5, Protocol: layers.IPProtocolUDP, TTL: rapid.Uint8().Draw(t, "TTL"),
			TOS: rapid.Uint8().Draw(t, "TOS"), SrcIP: net.IP{10, 9, 0, 1}, DstIP: net.IP{10, 9, 0, 2}}
	}
	bth := &BTH{
		Opcode: Opcode(rapid.IntRange(0, 255).Draw(t, "opcode")), PKey: rapid.Uint16().Draw(t, "pkey"),
		Solicited: rapid.Bool().Draw(t, "solicited"), MigReq: rapid.Bool().Draw(t, "migreq"),
		FECN: rapid.Bool().Draw(t, "fecn"), BECN: rapid.Bool().Draw(t, "becn"), AckReq: rapid.Bool().Draw(t, "ackreq"),
		DestQP: draw24(t, "qp"), PSN: draw24(t, "psn"),
	}
	rest = []gopacket.SerializableLayer{udp, bth}
	h := bth.Opcode.headers()
	if h.deth {
		rest = append(rest, &DETH{QKey: RKey(rapid.Uint32().Draw(t, "qkey")), SourceQP: draw24(t, "source qp")})
	}
	if h.reth {
		rest = append(rest, &RETH{Address: rapid.Uint64().Draw(t, "va"), Key: RKey(rapid.Uint32().Draw(t, "rkey")), DMALength: rapid.Uint32().Draw(t, "length")})
	}
	if h.aeth {
		rest = append(rest, &AETH{Syndrome: Syndrome(rapid.Byte().Draw(t, "syndrome")), MSN: draw24(t, "msn")})
	}
	if h.other > 0 {
		rest = append(rest, gopacket.Payload(rapid.SliceOfN(rapid.Byte(), h.other, h.other).Draw(t, "other")))
	}
	return ip, append(rest, gopacket.Payload(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")))
}

func draw24(t *rapid.T, label string) uint32 {
	return uint32(rapid.IntRange(0, PSNMask).Draw(t, label))
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ip, rest := drawLayers(t)
		buf := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, append([]gopacket.SerializableLayer{ip}, rest...)...); err != nil {
			t.Fatal(err)
		}
		packet := bytes.Clone(buf.Bytes())
		if err := SetICRC(packet); err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(packet, ip.LayerType(), gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if err := CheckICRC(p); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
		got := p.Layer(LayerTypeBTH).(*BTH)
		want := rest[1].(*BTH)
		got.BaseLayer, got.ICRC = layers.BaseLayer{}, 0
		want.BaseLayer, want.ICRC = layers.BaseLayer{}, 0
		if !reflect.DeepEqual(got, want) || len(packet)%4 != 0 {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
		var gotBody []byte
		for _, l := range p.Layers()[3:] {
			gotBody = append(gotBody, l.LayerContents()...)
		}
		body := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(body, gopacket.SerializeOptions{}, rest[2:]...); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(gotBody, body.Bytes()) {
			t.Fatalf("headers and payload\n%x\nwant\n%x", gotBody, body.Bytes())
		}
	})
}

func TestSerializeTooWide(t *testing.T) {
	for _, l := range []gopacket.SerializableLayer{
		&BTH{PSN: 1 << 24}, &BTH{DestQP: 1 << 24}, &BTH{PadCount: 4}, &AETH{MSN: 1 << 24}, &DETH{SourceQP: 1 << 24},
	} {
		if err := l.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}); err == nil {
			t.Errorf("%v: no error", gopacket.LayerString(l.(gopacket.Layer)))
		}
	}
}

// FuzzDecode takes its input for what a UDP payload, an IP packet and a frame
// may be. Only the first is for our decoders alone, so a panic shows there;
// gopacket's own layers panic on other protocols, which NewPacket recovers.
func FuzzDecode(f *testing.F) {
	for _, name := range frameNames() {
		whole := frame(f, name)
		udp := parse(whole).Layer(layers.LayerTypeUDP)
		f.Add(udp.LayerPayload())
		f.Add(whole[14:])
		f.Add(whole)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDecoded(t, data)

		before := bytes.Clone(data)
		crc, err := ICRC(data)
		if !bytes.Equal(before, data) {
			t.Error("ICRC changed the packet")
		}
		if serr := SetICRC(data); (err == nil) != (serr == nil) {
			t.Errorf("ICRC %v, SetICRC %v", err, serr)
		} else if again, _ := ICRC(data); err == nil && again != crc {
			t.Errorf("ICRC %08x, and %08x once it is set", crc, again)
		}

		var s Summary
		err = s.Add(gopacket.NewPacket(before, layers.LayerTypeEthernet, gopacket.Default))
		if counted := len(s.Flows) == 1; counted && (err != nil || s.Bad != 0) || !counted && (err != nil) != (s.Bad == 1) {
			t.Errorf("%d flows, %d bad, %v", len(s.Flows), s.Bad, err)
		}
		_, _ = s.OneSided(), s.String()
	})
}

// checkDecoded wants every byte of a UDP payload in exactly one place.
func checkDecoded(t *testing.T, data []byte) {
	p := gopacket.NewPacket(data, LayerTypeBTH, gopacket.DecodeOptions{SkipDecodeRecovery: true})
	bth, ok := p.Layer(LayerTypeBTH).(*BTH)
	if !ok {
		if p.ErrorLayer() == nil {
			t.Error("neither a BTH nor an error")
		}
		return
	}
	size := int(bth.PadCount) + icrcSize
	for _, l := range p.Layers() {
		size += len(l.LayerContents())
	}
	if p.ErrorLayer() != nil || size != len(data) {
		t.Errorf("layers of %d bytes in %d, %v", size, len(data), p.ErrorLayer())
	}
	_ = p.String()
}
