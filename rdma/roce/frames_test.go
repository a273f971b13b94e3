package roce

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Frames that soft-RoCE devices sent, annotated in the file.
//
//go:embed testdata/frames.txt
var framesText string

// frame returns a copy of a golden frame, from its Ethernet header on.
func frame(tb testing.TB, name string) []byte {
	tb.Helper()
	var frame []byte
	found := false
	for line := range strings.Lines(framesText) {
		text, _, _ := strings.Cut(line, "#")
		text = strings.TrimSpace(text)
		if title, ok := strings.CutPrefix(text, "== "); ok {
			if found {
				break
			}
			found = strings.TrimSpace(title) == name
			continue
		}
		if found {
			b, err := hex.DecodeString(text)
			if err != nil {
				tb.Fatalf("frame %s: %v", name, err)
			}
			frame = append(frame, b...)
		}
	}
	if len(frame) == 0 {
		tb.Fatalf("no frame %s", name)
	}
	return frame
}

func frameNames() []string {
	var names []string
	for line := range strings.Lines(framesText) {
		if title, ok := strings.CutPrefix(line, "== "); ok {
			title, _, _ = strings.Cut(title, "#")
			names = append(names, strings.TrimSpace(title))
		}
	}
	return names
}

// parse decodes a frame; a panic in a decoder is a panic.
func parse(frame []byte) gopacket.Packet {
	return gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{SkipDecodeRecovery: true})
}

// rebuild serializes the layers of a packet, from the first on.
func rebuild(tb testing.TB, p gopacket.Packet, opts gopacket.SerializeOptions) []byte {
	tb.Helper()
	var out []gopacket.SerializableLayer
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *Other:
			out = append(out, gopacket.Payload(l.Contents))
		case gopacket.SerializableLayer:
			out = append(out, l)
		default:
			tb.Fatalf("layer %v cannot be serialized", l.LayerType())
		}
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, opts, out...); err != nil {
		tb.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

func TestGoldenFrames(t *testing.T) {
	for _, c := range []struct {
		name    string
		opcode  Opcode
		text    string
		qp, psn uint32
		pad     uint8
		layers  string // after UDP
		payload int
	}{
		{"read-request", ReadRequest, "RC READ request", 0x11, 0x08f920, 0, "BTH RETH", 0},
		{"read-response-only", ReadResponseOnly, "RC READ response only", 0x13, 0x9b5fc4, 1, "BTH AETH Payload", 99},
		{"read-response-first", ReadResponseFirst, "RC READ response first", 0x11, 0xe8e4ea, 0, "BTH AETH Payload", 256},
		{"read-response-middle", ReadResponseMid, "RC READ response middle", 0x11, 0xe8e4eb, 0, "BTH Payload", 256},
		{"read-response-last", ReadResponseLast, "RC READ response last", 0x11, 0xe8e4ec, 1, "BTH AETH Payload", 87},
		{"ipv6-read-request", ReadRequest, "RC READ request", 0x12, 0xa1bd3b, 0, "BTH RETH", 0},
		{"ipv6-read-response", ReadResponseOnly, "RC READ response only", 0x12, 0xa1bd3b, 1, "BTH AETH Payload", 255},
		{"vlan-read-request", ReadRequest, "RC READ request", 0x1a, 0x034658, 0, "BTH RETH", 0},
		{"vlan-read-response", ReadResponseOnly, "RC READ response only", 0x1a, 0x034658, 0, "BTH AETH Payload", 64},
		{"send-only", SendOnly, "RC SEND only", 0x11, 0x75a7b0, 3, "BTH Payload", 101},
		{"acknowledge", Acknowledge, "RC acknowledge", 0x11, 0x75a7b0, 0, "BTH AETH", 0},
		{"nak", Acknowledge, "RC acknowledge", 0x11, 0xf2510f, 0, "BTH AETH", 0},
		{"ud-send", 0x64, "UD SEND only", 0x19, 0x5fa54a, 0, "BTH DETH Payload", 64},
		{"fetch-add", FetchAdd, "RC fetch and add", 0x18, 0xf320ab, 0, "BTH RoCE extension header", 0},
		{"atomic-acknowledge", AtomicAcknowledge, "RC atomic acknowledge", 0x18, 0xf320ab, 0, "BTH AETH RoCE extension header", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := frame(t, c.name)
			p := parse(f)
			if failure := p.ErrorLayer(); failure != nil {
				t.Fatal(failure.Error())
			}
			bth, ok := p.Layer(LayerTypeBTH).(*BTH)
			if !ok {
				t.Fatalf("no BTH: %v", p)
			}
			if bth.Opcode != c.opcode || bth.Opcode.String() != c.text || bth.DestQP != c.qp || bth.PSN != c.psn || bth.PadCount != c.pad || bth.PKey != 0xffff {
				t.Errorf("%+v", bth)
			}
			var names []string
			after := false
			for _, l := range p.Layers() {
				if after {
					names = append(names, l.LayerType().String())
				}
				after = after || l.LayerType() == layers.LayerTypeUDP
			}
			if got := strings.Join(names, " "); got != c.layers {
				t.Errorf("layers %q, want %q", got, c.layers)
			}
			if got := len(payload(p)); got != c.payload {
				t.Errorf("%d bytes of payload, want %d", got, c.payload)
			}
			if err := CheckICRC(p); err != nil {
				t.Error(err)
			}
			if got := rebuild(t, p, gopacket.SerializeOptions{}); !bytes.Equal(got, f) {
				t.Errorf("serialized\n%x\nwant\n%x", got, f)
			}
			// The writer's own lengths, pad and ICRC come out as soft-RoCE's.
			bth.ICRC, bth.PadCount = 0, 0
			got := rebuild(t, p, gopacket.SerializeOptions{FixLengths: true})
			start := len(p.Layer(layers.LayerTypeEthernet).LayerContents())
			if tag := p.Layer(layers.LayerTypeDot1Q); tag != nil {
				start += len(tag.LayerContents())
			}
			if err := SetICRC(got[start:]); err != nil || !bytes.Equal(got, f) {
				t.Errorf("%v, built\n%x\nwant\n%x", err, got, f)
			}
		})
	}
}

func TestGoldenFields(t *testing.T) {
	reth := parse(frame(t, "read-request")).Layer(LayerTypeRETH).(*RETH)
	if reth.Address != 0x560c66ab1000 || reth.Key != 0x2da || reth.DMALength != 4096 {
		t.Errorf("RETH %x %x %d", reth.Address, uint32(reth.Key), reth.DMALength)
	}
	if text := gopacket.LayerString(reth); strings.Contains(text, "730") || strings.Contains(text, "2da") || !strings.Contains(text, "Key=hidden") {
		t.Errorf("the key shows in %q", text)
	}
	aeth := parse(frame(t, "read-response-only")).Layer(LayerTypeAETH).(*AETH)
	if aeth.MSN != 1 || !aeth.Syndrome.IsACK() || aeth.Syndrome.IsNAK() {
		t.Errorf("AETH %+v", aeth)
	}
	if nak := parse(frame(t, "nak")).Layer(LayerTypeAETH).(*AETH); nak.Syndrome.String() != "NAK: remote access error" || !nak.Syndrome.IsNAK() || nak.MSN != 0 {
		t.Errorf("AETH %+v", nak)
	}
	if bth := parse(frame(t, "read-request")).Layer(LayerTypeBTH).(*BTH); !bth.AckReq {
		t.Errorf("BTH %+v", bth)
	}
	deth := parse(frame(t, "ud-send")).Layer(LayerTypeDETH).(*DETH)
	if deth.SourceQP != 0x19 {
		t.Errorf("DETH %+v", deth)
	}
}

func TestSyndromeText(t *testing.T) {
	for s, want := range map[Syndrome]string{
		0x1f: "ACK", 0x00: "ACK", 0x2c: "RNR NAK, timer 12", 0x60: "NAK: PSN sequence error",
		0x62: "NAK: remote access error", 0x7f: "NAK, code 31", 0x40: "syndrome 0x40",
	} {
		if s.String() != want {
			t.Errorf("0x%02x: %q, want %q", uint8(s), s, want)
		}
		if s.IsACK() != (want == "ACK") || s.IsNAK() != strings.HasPrefix(want, "NAK") {
			t.Errorf("0x%02x: ACK %v, NAK %v", uint8(s), s.IsACK(), s.IsNAK())
		}
	}
}

func TestOpcodeText(t *testing.T) {
	for o, want := range map[Opcode]string{
		0x00: "RC SEND first", 0x17: "RC SEND only with invalidate", 0x0b: "RC WRITE only with immediate",
		0x24: "UC SEND only", 0x65: "UD SEND only with immediate", 0x81: "CNP", 0x1f: "opcode 0x1f", 0xff: "opcode 0xff",
	} {
		if o.String() != want {
			t.Errorf("0x%02x: %q, want %q", uint8(o), o, want)
		}
	}
	for o := range 256 {
		if o := Opcode(o); o.IsReadResponse() && !o.IsRead() {
			t.Errorf("%v is a READ response and no READ", o)
		}
	}
}
