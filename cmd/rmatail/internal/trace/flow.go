package trace

import (
	"math/bits"
	"slices"
	"time"

	"github.com/rmatail/rmatail/rdma/roce"
)

const (
	// maxOpen bounds the READs of a direction that wait for their responses. A
	// queue pair has 255 in flight at most (max_rd_atomic is a byte).
	maxOpen = 256
	// restart is a jump of sequence numbers that no connection makes: its queue
	// pair number is in use by another one.
	restart = 1 << 16
	minMTU  = 256
	maxMTU  = 4096
)

// flow is one direction of a connection: the READ requests of the sending end,
// and the responses to the READs of the other.
type flow struct {
	key  roce.Flow
	peer *flow // the other direction; nil until it is known
	vlan uint16
	used time.Time // when its last packet came
	born time.Time

	prev, next *flow // by used

	counts
	latency  *histogram // of its READs; nil before the first
	open     []open     // its READs without all of their responses, by PSN
	requests window
	// edge is the PSN behind the last request, once it is known: exact if the path
	// MTU was.
	edge struct {
		last   psn    // of the last request
		length uint32 // of its READ
	}
	responses window
	// mtu is the most data that a packet of this direction had; exact if a READ was
	// answered by several.
	mtu      uint32
	mtuExact bool
	// strangers is responses in a row that no READ of the peer waits for.
	strangers int
	lonely    bool // among those that look for their other direction
}

// open is a READ that waits for responses.
type open struct {
	psn    psn
	length uint32
	got    uint32
	began  time.Time // its first request
}

// counts are what a direction has counted.
type counts struct {
	packets, wireBytes uint64
	ce, cnps           uint64
	badICRC, unchecked uint64
	other              uint64 // packets that have no part in READs
	acks               uint64 // of those, acknowledges that do not refuse

	reads, requested  uint64
	completed, failed uint64
	lost              uint64 // given up: too many others are open, or the connection began anew
	retransmits       uint64
	requestGaps       uint64
	requestsMissing   uint64
	requestsLate      uint64
	restarts          uint64
	responsePackets   uint64
	responseBytes     uint64
	repeats           uint64
	responseGaps      uint64
	responsesMissing  uint64
	responsesLate     uint64
	unmatched         uint64 // responses to no known READ
	naks              [len(nakNames)]uint64
}

// packetsOf is how many packets answer a READ at a path MTU.
func packetsOf(length, mtu uint32) uint32 {
	if length == 0 {
		return 1
	}
	return uint32((uint64(length) + uint64(mtu) - 1) / uint64(mtu))
}

// span is how many sequence numbers a READ of this direction takes; exact is
// false while the path MTU is not known well enough.
func (f *flow) span(length uint32) (n uint32, exact bool) {
	mtu, known := uint32(minMTU), false
	if f.peer != nil && f.peer.mtu != 0 {
		mtu, known = f.peer.mtu, f.peer.mtuExact
	}
	if length <= mtu {
		return 1, true
	}
	return packetsOf(length, mtu), known
}

// learnMTU takes the data of a response of this direction for what it says about
// the path MTU.
func (f *flow) learnMTU(op roce.Opcode, data int) {
	if data <= 0 || data > maxMTU {
		return
	}
	least := uint32(max(minMTU, 1<<bits.Len(uint(data-1))))
	switch {
	case op == roce.ReadResponseFirst || op == roce.ReadResponseMid:
		if int(least) == data {
			f.mtu, f.mtuExact = least, true
		}
	case !f.mtuExact && least > f.mtu:
		f.mtu, f.mtuExact = least, least == maxMTU
	}
}

// request takes a READ request of this direction.
func (f *flow) request(p psn, length uint32, at time.Time) {
	if !f.requests.used {
		f.begin(p, length, at)
		return
	}
	last := f.edge.last
	n, exact := f.span(f.edge.length)
	next := last.add(n)
	switch d := p.minus(next); {
	case d >= restart || d < -restart-int(n):
		f.startAgain()
		f.begin(p, length, at)
	case p.minus(last) <= 0:
		f.again(p, length, at)
	case exact && d < 0:
		f.retransmits++ // the rest of the last READ
	default:
		if !exact {
			// The last READ took what lies between, as far as can be known.
			f.requests.mark(last, uint32(p.minus(last)))
		} else if f.requests.mark(last, n); d > 0 {
			f.requestGaps++
			f.requestsMissing += uint64(d)
		}
		f.begin(p, length, at)
	}
}

// begin notes a READ that was not seen before, beyond all others.
func (f *flow) begin(p psn, length uint32, at time.Time) {
	f.requests.mark(p, 1)
	f.edge.last, f.edge.length = p, length
	f.reads++
	f.requested += uint64(length)
	if len(f.open) == maxOpen {
		f.open = slices.Delete(f.open, 0, 1)
		f.lost++
	}
	f.open = append(f.open, open{psn: p, length: length, began: at})
}

// again takes a request below others: sent again, or late.
func (f *flow) again(p psn, length uint32, at time.Time) {
	i, inside := f.find(p)
	if inside || f.requests.seen(p) {
		f.retransmits++ // of a READ, or of the rest of one
		return
	}
	f.requestsLate++
	n, _ := f.span(length)
	f.requestsMissing -= min(uint64(n), f.requestsMissing)
	f.requests.mark(p, n)
	f.reads++
	f.requested += uint64(length)
	if len(f.open) == maxOpen {
		f.lost++
		return
	}
	f.open = slices.Insert(f.open, i, open{psn: p, length: length, began: at})
}

// find returns the open READ that a sequence number belongs to, or where one
// that begins with it would be. While the path MTU is not known, the last one is
// taken for as long as it can be.
func (f *flow) find(p psn) (int, bool) {
	i, exact := slices.BinarySearchFunc(f.open, p, func(o open, p psn) int { return o.psn.minus(p) })
	if exact || i == 0 {
		return i, exact
	}
	if n, _ := f.span(f.open[i-1].length); p.minus(f.open[i-1].psn) < int(n) {
		return i - 1, true
	}
	return i, false
}

// startAgain forgets the connection that had this queue pair number before.
func (f *flow) startAgain() {
	f.restarts++
	f.lost += uint64(len(f.open))
	f.open = f.open[:0]
	f.requests = window{}
	if g := f.peer; g != nil {
		g.responses, g.mtu, g.mtuExact = window{}, 0, false
		f.part()
	}
}

// part ends the pairing with the other direction.
func (f *flow) part() {
	if f.peer != nil {
		f.peer.peer, f.peer.strangers = nil, 0
		f.peer, f.strangers = nil, 0
	}
}

// response takes a READ response of this direction. It returns false when it
// answers nothing that is known.
func (g *flow) response(op roce.Opcode, p psn, data int, at time.Time) bool {
	g.learnMTU(op, data)
	if g.responses.used {
		switch d := p.minus(g.responses.next); {
		case d >= restart || d < -restart:
			g.responses = window{} // of another connection
		case g.responses.seen(p):
			g.repeats++
			return true
		case d < 0:
			g.responsesLate++
			g.responsesMissing -= min(1, g.responsesMissing)
		case d > 0 && (g.acks == 0 || op == roce.ReadResponseMid || op == roce.ReadResponseLast):
			// Other operations than READs take sequence numbers too, and are
			// acknowledged: then only inside of a READ it is known what comes next.
			g.responseGaps++
			g.responsesMissing += uint64(d)
		}
	}
	g.responses.mark(p, 1)
	g.responsePackets++
	g.responseBytes += uint64(data)
	if g.peer == nil {
		return false
	}
	return g.peer.answered(p, uint32(data), at)
}

// answered takes a response to a READ of this direction.
func (f *flow) answered(p psn, data uint32, at time.Time) bool {
	i, ok := f.find(p)
	if !ok {
		return false
	}
	o := &f.open[i]
	if o.got += data; o.got < o.length {
		return true
	}
	if f.latency == nil {
		f.latency = &histogram{}
	}
	f.latency.add(at.Sub(o.began))
	f.completed++
	f.open = slices.Delete(f.open, i, i+1)
	return true
}

// refused takes a NAK for a READ of this direction that breaks the connection:
// it and all behind it come to nothing.
func (f *flow) refused(p psn) {
	i, _ := f.find(p)
	f.failed += uint64(len(f.open) - i)
	f.open = f.open[:i]
}
