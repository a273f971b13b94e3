package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Next makes a tape a Source.
func (t *tape) Next() (Frame, error) {
	if t.next == len(t.frames) {
		return Frame{}, io.EOF
	}
	t.next++
	return t.frames[t.next-1], nil
}
func (t *tape) Stop()        { t.next = len(t.frames) }
func (t *tape) Lost() uint64 { return t.lost }
func (t *tape) Close() error { return nil }

// trouble is a capture with something of everything.
func trouble() *tape {
	tp := &tape{}
	l := newLink()
	l.mtu = 1024
	for i := range uint32(40) {
		tp.add(us, l.request(4*i, 4096))
		tp.add(us, l.responses(4*i, 4096)...)
	}
	v := newLink()
	v.vlan, v.readerQP, v.memoryQP = 7, 3, 4
	tp.add(us, v.request(1, 512), v.request(1, 512), v.responses(1, 512)[0], v.request(2, 512), v.nak(2, 0x62))
	return tp
}

func report(t *testing.T, src Source, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opened(t *testing.T, b []byte) Source {
	t.Helper()
	src, err := OpenFile(io.NopCloser(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// What is written to a file reads like what it was made of, in all formats.
func TestFilesRoundTrip(t *testing.T) {
	var plain bytes.Buffer
	want := report(t, trouble(), Options{Write: NewWriter(&plain)})
	if want.Packets != 205 || len(want.Connections) != 2 || want.Total.NAKs["remote_access_error"] != 1 || want.Total.Retransmits != 1 {
		t.Fatalf("%+v", want)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain.Bytes())
	z.Close()

	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range trouble().frames {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: f.Time, CaptureLength: len(f.Data), Length: f.Length}, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{LastUpdate: epoch, PacketsReceived: 300, PacketsDropped: 3}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"pcap": plain.Bytes(), "gzip": zipped.Bytes(), "pcapng": ng.Bytes()} {
		got := report(t, opened(t, b), Options{})
		if name == "pcapng" {
			if got.Lost != 3 {
				t.Errorf("%d packets lost by the capture, the file says 3", got.Lost)
			}
			got.Lost = 0
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%+v\nwant\n%+v", name, got, want)
		}
	}
	// Two time stamps of a nanosecond's difference stay apart.
	near := &tape{}
	near.add(time.Nanosecond, trouble().frames[0].Data, trouble().frames[1].Data)
	var b bytes.Buffer
	report(t, near, Options{Write: NewWriter(&b)})
	if got := report(t, opened(t, b.Bytes()), Options{}); got.Seconds != 1e-9 {
		t.Errorf("%v s between two frames, want 1 ns", got.Seconds)
	}
}

func TestLimits(t *testing.T) {
	if r := report(t, trouble(), Options{Count: 7}); r.Packets != 7 {
		t.Errorf("%d packets, want 7", r.Packets)
	}
	if r := report(t, trouble(), Options{For: 20 * us}); r.Packets != 21 {
		t.Errorf("%d packets in 20 us, want 21", r.Packets)
	}
	var b bytes.Buffer
	dns := trouble().frames[0]
	dns.Data = bytes.Clone(dns.Data)
	binary.BigEndian.PutUint16(dns.Data[36:], 53)
	tp := trouble()
	tp.frames = append(tp.frames, dns)
	if r := report(t, tp, Options{Write: NewWriter(&b)}); r.Frames != 206 || r.Packets != 205 {
		t.Errorf("%d frames, %d packets", r.Frames, r.Packets)
	}
	if r := report(t, opened(t, b.Bytes()), Options{}); r.Frames != 205 {
		t.Errorf("the file has %d frames, want only the %d of RoCE", r.Frames, 205)
	}
	// A capture without a packet is a file too.
	b.Reset()
	report(t, &tape{}, Options{Write: NewWriter(&b)})
	if r := report(t, opened(t, b.Bytes()), Options{}); r.Frames != 0 || len(r.Connections) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestBrokenFiles(t *testing.T) {
	var whole bytes.Buffer
	report(t, trouble(), Options{Write: NewWriter(&whole)})
	for name, b := range map[string][]byte{
		"empty": {}, "short": {0x4d, 0x3c}, "text": []byte("this is no capture at all, whatever it is called"),
		"pcapng without section": {0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0},
		"header":                 whole.Bytes()[:20],
	} {
		if _, err := OpenFile(io.NopCloser(bytes.NewReader(b))); !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A file that ends in the middle says so, and what came before counts.
	r, err := Run(t.Context(), opened(t, whole.Bytes()[:whole.Len()-100]), Options{})
	if !errors.Is(err, ErrFormat) || r.Packets == 0 || r.Packets >= 205 {
		t.Errorf("%d packets, %v", r.Packets, err)
	}
	// A packet that claims more than a frame can have does not get the memory.
	huge := bytes.Clone(whole.Bytes())
	binary.LittleEndian.PutUint32(huge[16:], 1<<31)
	binary.LittleEndian.PutUint32(huge[24+8:], 1<<30)
	binary.LittleEndian.PutUint32(huge[24+12:], 1<<30)
	allocates(t, "pcap", huge)

	ng := []byte{0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0}
	iface := []byte{1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0}
	packet := make([]byte, 64)
	binary.LittleEndian.PutUint32(packet, blockEnhanced)
	binary.LittleEndian.PutUint32(packet[4:], 64)
	binary.LittleEndian.PutUint32(packet[20:], 1<<30)
	allocates(t, "pcapng enhanced", append(append(bytes.Clone(ng), iface...), packet...))
	binary.LittleEndian.PutUint32(packet[20:], 40) // of 32 that the block has room for
	if _, err := Run(t.Context(), opened(t, append(append(bytes.Clone(ng), iface...), packet...)), Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "40 bytes in a block of 64") {
		t.Errorf("a packet that is longer than its block: %v", err)
	}
	simple := make([]byte, 32)
	binary.LittleEndian.PutUint32(simple, blockSimple)
	binary.LittleEndian.PutUint32(simple[4:], 32)
	binary.LittleEndian.PutUint32(simple[8:], 1<<30)
	allocates(t, "pcapng simple", append(append(bytes.Clone(ng), iface...), simple...))
	many := bytes.Clone(ng)
	for range maxIfs + 1 {
		many = append(many, iface...)
	}
	allocates(t, "pcapng interfaces", many)
}

// allocates wants an error of a file, and little memory taken for it.
func allocates(t *testing.T, name string, b []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	src, err := OpenFile(io.NopCloser(bytes.NewReader(b)))
	if err == nil {
		_, err = Run(t.Context(), src, Options{})
	}
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrFormat) {
		t.Errorf("%s: %v", name, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%s: took %d bytes", name, took)
	}
}

// FuzzFile: no file panics, takes much memory, or is read for ever.
func FuzzFile(f *testing.F) {
	var b bytes.Buffer
	if _, err := Run(f.Context(), trouble(), Options{Write: NewWriter(&b)}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()[:300])
	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	if err != nil {
		f.Fatal(err)
	}
	for _, frame := range trouble().frames[:1] {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: frame.Time, CaptureLength: len(frame.Data), Length: frame.Length}, frame.Data); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(ng.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := OpenFile(io.NopCloser(bytes.NewReader(data)))
		if err != nil {
			return
		}
		r, err := Run(t.Context(), src, Options{Connections: 4})
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%v", err)
		}
		if r.Frames > uint64(len(data)) && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			t.Errorf("%d frames in %d bytes", r.Frames, len(data))
		}
	})
}

// The report's keys are an interface: scripts depend on them.
func TestReportKeys(t *testing.T) {
	r := report(t, trouble(), Options{})
	r.Source = "v0"
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"source", "first", "last", "seconds", "frames", "packets", "lost", "bad_icrc", "malformed", "unchecked", "total", "connections", "folded_count"} {
		if _, ok := m[k]; !ok {
			t.Errorf("no key %s in %s", k, b)
		}
	}
	c := m["connections"].([]any)[0].(map[string]any)
	for _, k := range []string{"reader", "memory", "reader_qp", "memory_qp", "path_mtu", "first", "last", "packets", "wire_bytes", "reads", "requested_bytes",
		"completed", "failed", "unanswered", "responses", "response_bytes", "latency", "retransmits", "repeats", "gaps", "late", "missing", "unmatched",
		"restarts", "naks", "ecn_marked", "cnps", "bad_icrc", "unchecked", "other_packets"} {
		if _, ok := c[k]; !ok {
			t.Errorf("no key %s in a connection", k)
		}
	}
	for _, k := range []string{"count", "min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"} {
		if _, ok := c["latency"].(map[string]any)[k]; !ok {
			t.Errorf("no key %s in the latency", k)
		}
	}
	if bytes.Contains(b, []byte("6210791")) || bytes.Contains(b, []byte("5ec4e7")) { // the key in the frames
		t.Errorf("a key shows in %s", b)
	}
}

func TestReportText(t *testing.T) {
	r := report(t, trouble(), Options{})
	r.Source, r.Lost = "v0", 2
	var b strings.Builder
	if err := r.WriteText(&b, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"v0: 205 RoCE v2 packets in 0.000 s, 2 lost by the capture, which may have made the gaps below\n",
		"READER          MEMORY          READS  DONE  BYTES   P50 us",
		"10.9.0.1 qp 17  10.9.0.2 qp 34  40     40    163840  4.0 ",
		"... and 1 more connections (--json has all)", "total                           42     41    164352",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := r.WriteText(&b, 2); err != nil || !strings.Contains(b.String(), "10.9.0.1 qp 3 > 10.9.0.2 qp 4: 1 NAK remote access error, 1 READs failed") || !strings.Contains(b.String(), "vlan 7") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
