package roce

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestSummaryOneSided(t *testing.T) {
	var s Summary
	for _, name := range []string{"read-response-first", "read-response-middle", "read-response-last", "read-request", "read-response-only", "ipv6-read-request", "vlan-read-response"} {
		if err := s.Add(parse(frame(t, name))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := s.OneSided(); err != nil {
		t.Error(err)
	}
	total := s.Total()
	if total.Packets[ReadRequest] != 2 || total.ReadResponses() != 5 || total.Requested != 4096+255 || total.Repeated != 0 || total.NAKs != 0 {
		t.Errorf("%+v", total)
	}
	if got := total.Bytes[ReadResponseFirst] + total.Bytes[ReadResponseMid] + total.Bytes[ReadResponseLast]; got != 599 {
		t.Errorf("%d bytes of a READ of 599", got)
	}
	flow := Flow{Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), DestQP: 0x11}
	if c := s.Flows[flow]; c == nil || c.Requested != 4096 || len(c.Packets) != 1 {
		t.Errorf("flow %v: %+v\n%v", flow, c, &s)
	}
	if text := s.String(); !strings.Contains(text, "10.9.0.1 > 10.9.0.2 qp 17  RC READ request  1 packets, 0 bytes\n") {
		t.Errorf("text\n%s", text)
	}
}

func TestSummaryNotOneSided(t *testing.T) {
	reads := []string{"read-request", "read-response-only"}
	for _, c := range []struct {
		frames []string
		reason string
	}{
		{nil, "0 READ requests"},
		{reads[:1], "0 response packets"},
		{reads[1:], "0 READ requests"},
		{append(reads, "send-only"), "1 packets RC SEND only"},
		{append(reads, "acknowledge"), "1 packets RC acknowledge"},
		{append(reads, "ud-send"), "1 packets UD SEND only"},
		{append(reads, "fetch-add"), "1 packets RC fetch and add"},
	} {
		var s Summary
		for _, name := range c.frames {
			if err := s.Add(parse(frame(t, name))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.OneSided(); !errors.Is(err, ErrNotOneSided) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v: %v, want %q", c.frames, err, c.reason)
		}
	}
}

func TestSummaryBad(t *testing.T) {
	var s Summary
	for _, name := range []string{"read-request", "read-response-only"} {
		if err := s.Add(parse(frame(t, name))); err != nil {
			t.Fatal(err)
		}
	}
	flipped := frame(t, "read-response-only")
	flipped[len(flipped)-20] ^= 1
	if err := s.Add(parse(flipped)); !errors.Is(err, ErrICRC) {
		t.Errorf("%v, want ErrICRC", err)
	}
	if err := s.Add(parse(frame(t, "read-response-only")[:100])); !errors.Is(err, ErrTruncated) {
		t.Errorf("cut by the capture: %v, want ErrTruncated", err)
	}
	short := frame(t, "acknowledge")
	binary.BigEndian.PutUint16(short[14+20+4:], 8+10) // UDP length
	if err := s.Add(parse(short)); !errors.Is(err, ErrTruncated) {
		t.Errorf("UDP too short for a BTH: %v, want ErrTruncated", err)
	}
	if s.Bad != 3 || !errors.Is(s.OneSided(), ErrNotOneSided) {
		t.Errorf("%d bad, %v", s.Bad, s.OneSided())
	}
	// What is not RoCE does not count at all.
	dns := frame(t, "acknowledge")
	binary.BigEndian.PutUint16(dns[14+20+2:], 4792)
	if err := s.Add(parse(dns)); err != nil || s.Bad != 3 {
		t.Errorf("another port: %v, %d bad", err, s.Bad)
	}
	if err := s.Add(parse([]byte{1, 2, 3})); err != nil || s.Bad != 3 {
		t.Errorf("no frame: %v, %d bad", err, s.Bad)
	}
}

// changed is a frame with a changed BTH or AETH and a fitting ICRC. Offsets are
// from the BTH on.
func changed(t *testing.T, name string, change func(bth []byte)) []byte {
	t.Helper()
	f := frame(t, name)
	change(f[14+20+8:])
	if err := SetICRC(f[14:]); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSummaryRepeats(t *testing.T) {
	for _, name := range []string{"read-request", "read-response-only", "send-only"} {
		var s Summary
		for _, psn := range []uint32{PSNMask - 1, PSNMask, 0, 1, 1, PSNMask, 2} { // 1 and PSNMask again
			f := changed(t, name, func(bth []byte) { putUint24(bth[9:], psn) })
			if err := s.Add(parse(f)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Total().Repeated; got != 2 {
			t.Errorf("%s: %d repeated, want 2", name, got)
		}
	}
	// An ACK may come again; a request and its response have the same PSN.
	var s Summary
	for _, name := range []string{"acknowledge", "acknowledge", "vlan-read-request", "vlan-read-response"} {
		if err := s.Add(parse(frame(t, name))); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Total().Repeated; got != 0 {
		t.Errorf("%d repeated, want 0\n%v", got, &s)
	}
}

func TestSummaryNAK(t *testing.T) {
	var s Summary
	for _, syndrome := range []byte{0x1f, 0x2c, 0x62} { // ACK, RNR NAK, remote access error
		if err := s.Add(parse(changed(t, "acknowledge", func(bth []byte) { bth[bthSize] = syndrome }))); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Total().NAKs; got != 1 {
		t.Errorf("%d NAKs, want 1", got)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	var s Summary
	const more = 100
	for qp := range uint32(maxFlows + more) {
		if err := s.Add(parse(changed(t, "acknowledge", func(bth []byte) { putUint24(bth[5:], qp) }))); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Flows) != maxFlows+1 || s.Flows[Flow{}].Packets[Acknowledge] != more {
		t.Errorf("%d flows, %+v", len(s.Flows), s.Flows[Flow{}])
	}
	if got := s.Total().Packets[Acknowledge]; got != maxFlows+more {
		t.Errorf("%d packets in total", got)
	}
}
