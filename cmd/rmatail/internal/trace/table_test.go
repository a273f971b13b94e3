package trace

import (
	"io"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/rdma/roce"
)

const us = time.Microsecond

// near allows for the width of a bucket.
func near(got, want float64) bool { return got >= want*0.96 && got <= want*1.04 }

func TestReadsAtFullMTU(t *testing.T) {
	l, tp := newLink(), &tape{}
	for i := range uint32(100) {
		tp.add(us, l.request(0xfffff0+i, 4096)) // the PSN wraps
		tp.add(time.Duration(10+i)*us, l.responses(0xfffff0+i, 4096)...)
	}
	c := tp.one(t)
	if c.Reads != 100 || c.Completed != 100 || c.Unanswered != 0 || c.Responses != 100 || c.ResponseBytes != 409600 || c.RequestedBytes != 409600 {
		t.Errorf("%+v", c)
	}
	if c.ReaderQP != 0x11 || c.MemoryQP != 0x22 || c.Reader != l.reader || c.Memory != l.memory || c.PathMTU != 4096 || c.Packets != 200 {
		t.Errorf("%+v", c)
	}
	if c.Retransmits+c.Repeats+c.Gaps+c.Late+c.Missing+c.Unmatched+c.Restarts+c.Failed+c.OtherPackets != 0 || len(c.NAKs) != 0 {
		t.Errorf("trouble where there is none: %+v", c)
	}
	if l := c.Latency; l == nil || l.Count != 100 || l.Min != 10 || l.Max != 109 || !near(l.P50, 59) || !near(l.P90, 99) || !near(l.P99, 108) {
		t.Errorf("latency %+v", c.Latency)
	}
}

func TestReadsOfSeveralPackets(t *testing.T) {
	l, tp := newLink(), &tape{}
	l.mtu = 1024
	p := uint32(7)
	for range 10 {
		// Four are sent before the first is answered.
		q := p
		for range 4 {
			tp.add(us, l.request(p, 4000))
			p += 4
		}
		for ; q < p; q += 4 {
			tp.add(us, l.responses(q, 4000)...)
		}
	}
	c := tp.one(t)
	if c.Reads != 40 || c.Completed != 40 || c.Responses != 160 || c.ResponseBytes != 160000 || c.PathMTU != 1024 || c.Gaps+c.Late+c.Missing+c.Retransmits+c.Repeats != 0 {
		t.Errorf("%+v", c)
	}
	if c.Latency.Max != 16 { // the fourth waits for the three before it
		t.Errorf("latency %+v", c.Latency)
	}
}

func TestLostRequestIsSentAgain(t *testing.T) {
	l, tp := newLink(), &tape{}
	tp.add(us, l.request(1, 4096), l.responses(1, 4096)[0])
	tp.add(us, l.request(2, 4096)) // lost behind the capture
	tp.add(500*us, l.request(2, 4096), l.responses(2, 4096)[0])
	tp.add(us, l.request(3, 4096), l.responses(3, 4096)[0])
	c := tp.one(t)
	if c.Reads != 3 || c.Retransmits != 1 || c.Completed != 3 || c.Repeats != 0 || c.Gaps != 0 {
		t.Errorf("%+v", c)
	}
	if c.Latency.Max != 1000 { // from its first request
		t.Errorf("latency %+v", c.Latency)
	}
}

// The reader asks again for the part that did not come.
func TestLostResponseIsAskedForAgain(t *testing.T) {
	l, tp := newLink(), &tape{}
	l.mtu = 1024
	answer := l.responses(100, 4096)
	tp.add(us, l.request(100, 4096), answer[0], answer[2], answer[3]) // one is lost before the capture
	tp.add(us, l.request(101, 3072))
	tp.add(us, l.responses(101, 3072)...)
	tp.add(us, l.request(104, 4096))
	tp.add(us, l.responses(104, 4096)...)
	c := tp.one(t)
	if c.Reads != 2 || c.Retransmits != 1 || c.Completed != 2 || c.Gaps != 1 || c.Late != 1 || c.Missing != 0 || c.Repeats != 2 || c.ResponseBytes != 8192 {
		t.Errorf("%+v", c)
	}
	// Lost behind the capture: all was seen, and all comes again.
	tp = &tape{}
	tp.add(us, l.request(100, 4096))
	tp.add(us, answer...)
	tp.add(us, l.request(102, 2048))
	tp.add(us, l.responses(102, 2048)...)
	c = tp.one(t)
	if c.Reads != 1 || c.Retransmits != 1 || c.Completed != 1 || c.Gaps != 0 || c.Repeats != 2 || c.ResponseBytes != 4096 {
		t.Errorf("%+v", c)
	}
}

func TestMissingAndLatePackets(t *testing.T) {
	l, tp := newLink(), &tape{}
	for p := range uint32(20) {
		if p == 5 || p == 6 {
			continue // neither requests nor responses came to the capture
		}
		tp.add(us, l.request(p, 512), l.responses(p, 512)[0])
	}
	c := tp.one(t)
	if c.Reads != 18 || c.Completed != 18 || c.Gaps != 2 || c.Missing != 4 || c.Late != 0 {
		t.Errorf("%+v", c)
	}
	tp = &tape{}
	var answers [][]byte
	for p := range uint32(6) {
		tp.add(us, l.request(p, 512))
		answers = append(answers, l.responses(p, 512)...)
	}
	tp.add(us, answers[0], answers[2], answers[1], answers[4], answers[5], answers[3])
	c = tp.one(t)
	if c.Completed != 6 || c.Gaps != 2 || c.Late != 2 || c.Missing != 0 || c.Repeats != 0 {
		t.Errorf("%+v", c)
	}
	// Requests that the network has swapped.
	tp = &tape{}
	for _, p := range []uint32{0, 1, 3, 2, 4} {
		tp.add(us, l.request(p, 200), l.responses(p, 200)[0])
	}
	c = tp.one(t)
	if c.Reads != 5 || c.Completed != 5 || c.Retransmits != 0 || c.Gaps != 2 || c.Late != 2 || c.Missing != 0 {
		t.Errorf("%+v", c)
	}
}

func TestNAKs(t *testing.T) {
	for syndrome, want := range map[uint8]string{
		0x60: "psn_sequence_error", 0x61: "invalid_request", 0x62: "remote_access_error", 0x63: "remote_operational_error",
		0x64: "invalid_rd_request", 0x65: "other", 0x7f: "other", 0x2c: "rnr", 0x40: "other",
	} {
		l, tp := newLink(), &tape{}
		tp.add(us, l.request(9, 64), l.responses(9, 64)[0], l.request(10, 64), l.request(11, 64), l.nak(10, syndrome))
		c := tp.one(t)
		if !maps.Equal(c.NAKs, map[string]uint64{want: 1}) {
			t.Errorf("syndrome %#x: %v, want one %s", syndrome, c.NAKs, want)
		}
		failed, unanswered := uint64(2), uint64(0)
		if want == "psn_sequence_error" || want == "rnr" || syndrome == 0x40 {
			failed, unanswered = 0, 2
		}
		if c.Failed != failed || c.Unanswered != unanswered || c.Completed != 1 {
			t.Errorf("syndrome %#x: %+v", syndrome, c)
		}
	}
	// A refusal of the very first READ pairs the two directions too.
	l, tp := newLink(), &tape{}
	tp.add(us, l.request(9, 64), l.nak(9, 0x62))
	if c := tp.one(t); c.Failed != 1 || c.ReaderQP != 0x11 {
		t.Errorf("%+v", c)
	}
}

func TestVLANAndIPv6(t *testing.T) {
	tp := &tape{}
	four, six := newLink(), newLink()
	six.reader, six.memory = netip.MustParseAddr("fd00:9::1"), netip.MustParseAddr("fd00:9::2")
	four.vlan, six.vlan = 10, 4094
	six.readerQP, six.memoryQP = 0x11, 0x22 // the same numbers at other addresses
	for p := range uint32(50) {
		tp.add(us, four.request(p, 100), six.request(p, 300), six.responses(p, 300)[0], four.responses(p, 100)[0])
	}
	r := tp.table(0).Report()
	if len(r.Connections) != 2 || r.BadICRC+r.Malformed+r.Unchecked != 0 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []struct {
		l    *link
		each uint64
	}{{six, 300}, {four, 100}} {
		c := r.Connections[i]
		if c.VLAN != want.l.vlan || c.Reader != want.l.reader || c.ResponseBytes != 50*want.each || c.Completed != 50 {
			t.Errorf("%+v", c)
		}
	}
	if r.Total.Completed != 100 || r.Total.ResponseBytes != 20000 || r.Total.Latency.Count != 100 {
		t.Errorf("%+v", r.Total)
	}
}

func TestHeadersAreEnough(t *testing.T) {
	whole, cut := &tape{}, &tape{}
	l := newLink()
	l.mtu = 1024
	for i := range uint32(30) {
		whole.add(us, l.request(4*i, 4096))
		whole.add(us, l.responses(4*i, 4096)...)
	}
	for _, f := range whole.frames {
		f.Data = f.Data[:min(len(f.Data), 96)]
		cut.frames = append(cut.frames, f)
	}
	a, b := whole.one(t), cut.one(t)
	if b.Unchecked != 120 { // not the requests, which are shorter than that
		t.Errorf("%d packets unchecked, want 120", b.Unchecked)
	}
	b.Unchecked = 0
	if !reflect.DeepEqual(a, b) {
		t.Errorf("whole %+v\ncut %+v", a, b)
	}
}

func TestBadPackets(t *testing.T) {
	l, tp := newLink(), &tape{}
	tp.add(us, l.request(1, 4096))
	flipped := l.responses(1, 4096)[0]
	flipped[len(flipped)-9] ^= 4
	stranger := *l
	stranger.readerQP = 0x999
	never := stranger.responses(5, 64)[0]
	never[len(never)-9] ^= 4
	tp.add(us, flipped, never, l.request(2, 8)[:50])
	tp.add(us, l.responses(1, 4096)[0])
	r := tp.table(0).Report()
	// A bad packet begins no connection and answers nothing.
	if len(r.Connections) != 1 || r.BadICRC != 2 || r.Malformed != 1 || r.Packets != 5 {
		t.Fatalf("%+v", r)
	}
	if c := r.Connections[0]; c.Completed != 1 || c.Latency.Max != 4 || c.ResponseBytes != 4096 {
		t.Errorf("%+v", c)
	}
}

func TestCongestion(t *testing.T) {
	l, tp := newLink(), &tape{}
	tp.add(us, l.request(1, 4096))
	l.tos = 0x02
	tp.add(us, l.responses(1, 4096)[0])
	l.tos = 0x03
	tp.add(us, l.request(2, 4096), l.responses(2, 4096)[0], l.cnp())
	if c := tp.one(t); c.ECNMarked != 3 || c.CNPs != 1 || c.Completed != 2 {
		t.Errorf("%+v", c)
	}
}

func TestBothEndsRead(t *testing.T) {
	l := newLink()
	back := &link{reader: l.memory, memory: l.reader, readerQP: l.memoryQP, memoryQP: l.readerQP, mtu: 4096}
	tp := &tape{}
	for i := range uint32(20) {
		tp.add(us, l.request(100+i, 4096), l.responses(100+i, 4096)[0], back.request(7000+i, 512))
		tp.add(5*us, back.responses(7000+i, 512)[0])
	}
	r := tp.table(0).Report()
	if len(r.Connections) != 2 {
		t.Fatalf("%+v", r.Connections)
	}
	a, b := r.Connections[0], r.Connections[1]
	if a.Reader != l.reader || a.Completed != 20 || a.ResponseBytes != 81920 || a.Latency.Max != 1 || b.Reader != l.memory || b.Completed != 20 || b.Latency.Max != 5 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if r.Total.Packets != 80 || r.Total.Gaps+r.Total.Repeats+r.Total.Retransmits != 0 {
		t.Errorf("%+v", r.Total)
	}
}

func TestCaptureOfOneDirection(t *testing.T) {
	l := newLink()
	requests, responses := &tape{}, &tape{}
	for i := range uint32(20) {
		requests.add(us, l.request(i, 4096))
		responses.add(us, l.responses(i, 4096)...)
	}
	if c := requests.one(t); c.Reads != 20 || c.Unanswered != 20 || c.ReaderQP != 0 || c.MemoryQP != 0x22 || c.Latency != nil || c.Gaps != 0 {
		t.Errorf("%+v", c)
	}
	if c := responses.one(t); c.Reads != 0 || c.Responses != 20 || c.ResponseBytes != 81920 || c.ReaderQP != 0x11 || c.MemoryQP != 0 || c.Reader != l.reader {
		t.Errorf("%+v", c)
	}
}

func TestCaptureBeginsInTheMiddle(t *testing.T) {
	l, tp := newLink(), &tape{}
	l.mtu = 1024
	answer := l.responses(100, 4096)
	tp.add(us, answer[2], answer[3])
	for i := range uint32(10) {
		tp.add(us, l.request(104+4*i, 4096))
		tp.add(us, l.responses(104+4*i, 4096)...)
	}
	if c := tp.one(t); c.Reads != 10 || c.Completed != 10 || c.Unmatched != 2 || c.Gaps != 0 {
		t.Errorf("%+v", c)
	}
}

// A queue pair number comes back with another connection.
func TestConnectionBeginsAnew(t *testing.T) {
	l, tp := newLink(), &tape{}
	for i := range uint32(10) {
		tp.add(us, l.request(i, 4096), l.responses(i, 4096)[0])
	}
	tp.add(us, l.request(10, 4096)) // never answered
	for i := range uint32(10) {
		tp.add(us, l.request(0x800000+i, 4096), l.responses(0x800000+i, 4096)[0])
	}
	if c := tp.one(t); c.Reads != 21 || c.Completed != 20 || c.Unanswered != 1 || c.Restarts != 1 || c.Gaps+c.Missing+c.Unmatched != 0 {
		t.Errorf("%+v", c)
	}
}

// Two connections between the same hosts with the same PSN: what is ambiguous
// is not guessed, and pairs later.
func TestAmbiguousPairing(t *testing.T) {
	a, b := newLink(), newLink()
	b.readerQP, b.memoryQP = 0x33, 0x44
	tp := &tape{}
	tp.add(us, a.request(5, 512), b.request(5, 512), b.responses(5, 512)[0], a.responses(5, 512)[0])
	for i := range uint32(10) {
		tp.add(us, a.request(6+i, 512), a.responses(6+i, 512)[0], b.request(6+i, 512), b.responses(6+i, 512)[0])
	}
	r := tp.table(0).Report()
	if len(r.Connections) != 2 || r.Total.Completed != 20 {
		t.Fatalf("%+v", r.Connections)
	}
	for _, c := range r.Connections {
		if c.ReaderQP == 0x11 && c.MemoryQP != 0x22 || c.ReaderQP == 0x33 && c.MemoryQP != 0x44 {
			t.Errorf("paired qp %#x with %#x", c.ReaderQP, c.MemoryQP)
		}
	}
}

// Of two requests with the same PSN, the length of the answer tells which it is to.
func TestPairingByLength(t *testing.T) {
	a, b := newLink(), newLink()
	b.readerQP, b.memoryQP = 0x33, 0x44
	tp := &tape{}
	tp.add(us, a.request(5, 512), b.request(5, 256), b.responses(5, 256)[0], a.responses(5, 512)[0])
	r := tp.table(0).Report()
	if len(r.Connections) != 2 || r.Total.Completed != 2 || r.Connections[0].ReaderQP != 0x11 || r.Connections[0].MemoryQP != 0x22 {
		t.Errorf("%+v", r.Connections)
	}
}

// A pairing that turns out wrong ends, and the right one is found.
func TestWrongPairingEnds(t *testing.T) {
	a, b := newLink(), newLink()
	b.memoryQP = 0x99 // another connection that ends at the same queue pair number
	tp := &tape{}
	tp.add(us, a.request(1, 64), a.responses(1, 64)[0])
	for i := range uint32(maxStrangers) {
		tp.add(us, a.responses(2+i, 64)...)
	}
	tp.add(us, b.request(2+maxStrangers, 64), b.responses(2+maxStrangers, 64)[0])
	r := tp.table(0).Report()
	i := slices.IndexFunc(r.Connections, func(c Connection) bool { return c.MemoryQP == 0x99 })
	if i < 0 || r.Connections[i].Completed != 1 || r.Connections[i].ReaderQP != 0x11 || r.Connections[i].Unmatched != maxStrangers {
		t.Errorf("%+v", r.Connections)
	}
}

func TestTableIsBounded(t *testing.T) {
	const limit, many = 32, 5000
	tp := &tape{}
	for i := range uint32(many) {
		l := newLink()
		l.readerQP, l.memoryQP = 2*i+2, 2*i+3
		tp.add(us, l.request(i*16, 4096), l.responses(i*16, 4096)[0])
	}
	table := tp.table(limit)
	if len(table.flows) > 2*limit || len(table.alone) > 2*limit {
		t.Errorf("%d directions, %d alone, limit %d connections", len(table.flows), len(table.alone), limit)
	}
	r := table.Report()
	if len(r.Connections) != limit || r.FoldedCount != many-limit || r.Folded == nil {
		t.Fatalf("%d connections, %d folded", len(r.Connections), r.FoldedCount)
	}
	if r.Total.Reads != many || r.Total.Completed != many || r.Folded.Completed != many-limit || r.Total.Latency.Count != many || r.Total.Packets != 2*many {
		t.Errorf("%+v", r.Total)
	}
	// The most recent ones are there.
	for _, c := range r.Connections {
		if c.MemoryQP < 2*(many-limit) {
			t.Errorf("qp %d is still there", c.MemoryQP)
		}
	}
	if per := 2 * (int(unsafe.Sizeof(flow{})) + int(unsafe.Sizeof(histogram{})) + maxOpen*int(unsafe.Sizeof(open{}))); per > 32<<10 {
		t.Errorf("a connection takes up to %d bytes, 32 KiB are promised", per)
	}
}

// A reader that never gets an answer does not fill memory.
func TestOpenReadsAreBounded(t *testing.T) {
	l, tp := newLink(), &tape{}
	for i := range uint32(1000) {
		tp.add(us, l.request(i, 100))
	}
	table := tp.table(0)
	for _, f := range table.flows {
		if len(f.open) > maxOpen {
			t.Errorf("%d open READs", len(f.open))
		}
	}
	if c := table.Report().Connections[0]; c.Unanswered != 1000 {
		t.Errorf("%+v", c)
	}
}

// Whatever lengths, MTU and pipelining: a sound connection shows nothing but its
// READs, and of what is then repeated and swapped exactly that is found.
func TestRandomConnections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLink()
		l.mtu = 256 << rapid.IntRange(0, 4).Draw(t, "mtu")
		p := rapid.Uint32Range(0, roce.PSNMask).Draw(t, "psn")
		tp := &tape{}
		var reads, bytes, packets int
		for range rapid.IntRange(1, 20).Draw(t, "bursts") {
			type read struct {
				psn    uint32
				length int
			}
			var burst []read
			for range rapid.IntRange(1, 8).Draw(t, "depth") {
				r := read{p, rapid.IntRange(1, 3*l.mtu).Draw(t, "length")}
				tp.add(us, l.request(r.psn, r.length))
				burst = append(burst, r)
				n := (r.length + l.mtu - 1) / l.mtu
				p += uint32(n)
				reads, bytes, packets = reads+1, bytes+r.length, packets+n
			}
			for _, r := range burst {
				tp.add(us, l.responses(r.psn, r.length)...)
			}
		}
		sound := tp.table(0).Report()
		c := sound.Connections[0]
		if len(sound.Connections) != 1 || int(c.Reads) != reads || int(c.Completed) != reads || int(c.ResponseBytes) != bytes || int(c.Responses) != packets ||
			c.Gaps+c.Late+c.Missing+c.Retransmits+c.Repeats+c.Unmatched+c.Restarts != 0 {
			t.Fatalf("%d READs, %d bytes, %d packets: %+v", reads, bytes, packets, c)
		}
		// Any packet once more, right behind itself.
		i := rapid.IntRange(0, len(tp.frames)-1).Draw(t, "again")
		again := &tape{frames: slices.Insert(slices.Clone(tp.frames), i, tp.frames[i])}
		c = again.table(0).Report().Connections[0]
		if c.Retransmits+c.Repeats != 1 || int(c.Reads) != reads || int(c.Completed) != reads || int(c.ResponseBytes) != bytes || c.Gaps+c.Late != 0 {
			t.Fatalf("frame %d twice: %+v", i, c)
		}
	})
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 1<<41), 1, 200).Draw(t, "durations")
		var h, half histogram
		for i, d := range all {
			if i%2 == 0 {
				h.add(time.Duration(d))
			} else {
				half.add(time.Duration(d))
			}
		}
		h.merge(&half)
		slices.Sort(all)
		if h.count != uint64(len(all)) || int64(h.min) != all[0] || int64(h.max) != all[len(all)-1] {
			t.Fatalf("%d of %d, %v to %v", h.count, len(all), h.min, h.max)
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			i := max(int(q*float64(len(all))+0.999999), 1) - 1
			got, want := float64(h.quantile(q)), float64(all[i])
			if want < 1<<40 && (got < want*0.965-1 || got > want*1.035+1) {
				t.Fatalf("quantile %v of %v: %v, want %v", q, all, got, want)
			}
		}
	})
}

func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		seen := map[psn]bool{}
		at := psn(rapid.Uint32Range(0, psnMask).Draw(t, "start"))
		for range 50 {
			p := at.add(uint32(rapid.IntRange(-3000, 6000).Draw(t, "step")) & psnMask)
			n := uint32(rapid.IntRange(1, 5000).Draw(t, "n"))
			w.mark(p, n)
			for i := range n {
				seen[p.add(i)] = true
			}
			at = w.next
			for _, d := range []uint32{1, 2, 100, 4000, 4096} {
				q := at.add(psnMask + 1 - d)
				if w.seen(q) != seen[q] {
					t.Fatalf("%d, %d behind the highest: %v, want %v", q, d, w.seen(q), seen[q])
				}
			}
			if w.seen(at) || w.seen(at.add(5)) || !w.seen(at.add(psnMask-windowSize)) {
				t.Fatal("outside of the window")
			}
		}
	})
}

// FuzzTable plays a conversation that the input makes up, and wants every READ to
// have exactly one outcome, within bounds.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 1, 1, 0, 1, 2, 1, 1, 1, 4, 1, 0x62, 0})
	f.Add([]byte{0, 0, 0, 16, 1, 0, 0, 4, 2, 1, 0, 4, 2, 1, 0, 4, 3, 1, 0, 4, 0, 250, 0, 16})
	f.Fuzz(func(t *testing.T, script []byte) {
		table := NewTable(2)
		p := roce.Packet{Flow: roce.Flow{Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2")}}
		there, here := p.Flow, roce.Flow{Src: p.Flow.Dst, Dst: p.Flow.Src}
		ops := []roce.Opcode{roce.ReadRequest, roce.ReadResponseFirst, roce.ReadResponseMid, roce.ReadResponseLast, roce.Acknowledge, roce.ReadResponseOnly, roce.CNP, roce.SendOnly}
		var number psn
		for i := 0; i+4 <= len(script) && i < 4*4096; i += 4 {
			op := ops[script[i]%8]
			p.Flow = here
			if op == roce.ReadRequest || op == roce.SendOnly {
				p.Flow = there
			}
			p.Flow.DestQP = uint32(script[i] >> 5)
			number = number.add(uint32(int32(int8(script[i+1]))) & psnMask)
			if script[i+1] == 128 {
				number = number.add(1 << 20)
			}
			p.BTH = roce.BTH{Opcode: op, PSN: uint32(number)}
			p.Data, p.RETH.DMALength = int(script[i+3])<<4, uint32(script[i+3])<<8
			if script[i+2] == 255 {
				p.RETH.DMALength = 1<<32 - 1
			}
			p.AETH.Syndrome = roce.Syndrome(script[i+2])
			table.Add(&p, nil, 100, epoch.Add(time.Duration(i)*us))
			if len(table.flows) > 4 {
				t.Fatalf("%d directions", len(table.flows))
			}
		}
		r := table.Report()
		all := append(slices.Clone(r.Connections), r.Total)
		for _, c := range all {
			if c.Completed+c.Failed+c.Unanswered != c.Reads {
				t.Errorf("%d READs: %d completed, %d failed, %d unanswered", c.Reads, c.Completed, c.Failed, c.Unanswered)
			}
		}
		if r.Total.Packets != r.Packets {
			t.Errorf("%d packets in rows, %d in all", r.Total.Packets, r.Packets)
		}
		_ = r.WriteText(io.Discard, 1)
	})
}
