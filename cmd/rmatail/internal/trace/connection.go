package trace

import (
	"net/netip"
	"time"
)

// Connection is what was seen of the READs over one connection, in one
// direction of reading. Its JSON keys are an interface.
type Connection struct {
	Reader   netip.Addr `json:"reader"` // sends READ requests
	Memory   netip.Addr `json:"memory"` // answers them
	ReaderQP uint32     `json:"reader_qp,omitempty"`
	MemoryQP uint32     `json:"memory_qp,omitempty"` // 0: not in the capture
	VLAN     uint16     `json:"vlan,omitempty"`
	PathMTU  uint32     `json:"path_mtu,omitempty"` // 0: not known; the largest response says at least so much
	First    time.Time  `json:"first"`
	Last     time.Time  `json:"last"`

	Packets   uint64 `json:"packets"`
	WireBytes uint64 `json:"wire_bytes"`

	Reads          uint64   `json:"reads"`           // READ requests, each once however often it was sent
	RequestedBytes uint64   `json:"requested_bytes"` // that they ask for
	Completed      uint64   `json:"completed"`       // all of their responses came
	Failed         uint64   `json:"failed"`          // refused, or behind one that was
	Unanswered     uint64   `json:"unanswered"`      // not all responses are in the capture
	Responses      uint64   `json:"responses"`       // packets, each once
	ResponseBytes  uint64   `json:"response_bytes"`  // data in them
	Latency        *Latency `json:"latency,omitempty"`

	Retransmits uint64            `json:"retransmits"` // requests that were sent again
	Repeats     uint64            `json:"repeats"`     // responses that were sent again
	Gaps        uint64            `json:"gaps"`        // times that a sequence number was not the next
	Late        uint64            `json:"late"`        // packets that filled a gap
	Missing     uint64            `json:"missing"`     // sequence numbers that never came
	Unmatched   uint64            `json:"unmatched"`   // responses to a READ that is not in the capture
	Restarts    uint64            `json:"restarts"`    // times that the queue pair number came with far other sequence numbers
	NAKs        map[string]uint64 `json:"naks"`        // refusals by kind

	ECNMarked    uint64 `json:"ecn_marked"` // packets that a switch has marked
	CNPs         uint64 `json:"cnps"`       // congestion notifications
	BadICRC      uint64 `json:"bad_icrc"`
	Unchecked    uint64 `json:"unchecked"` // packets that the capture cut: no ICRC to check
	OtherPackets uint64 `json:"other_packets"`

	latency histogram
}

// Latency is from a READ's first request to its last response. Percentiles are
// off by 3 % at most.
type Latency struct {
	Count uint64  `json:"count"`
	Min   float64 `json:"min_us"` // microseconds, as all
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// rowsOf are the rows of a connection, of which g may not be known.
func rowsOf(f, g *flow) []*Connection {
	var rows []*Connection
	if f.reads > 0 {
		rows = append(rows, newRow(f, g))
	}
	switch {
	case g == nil:
		if f.responsePackets > 0 || len(rows) == 0 {
			rows = append(rows, newRow(nil, f))
		}
	case g.reads > 0 || len(rows) == 0:
		rows = append(rows, newRow(g, f))
	}
	// What is not of one direction of reading is shown once.
	for i, d := range []*flow{f, g} {
		if d == nil {
			continue
		}
		r := rows[min(i, len(rows)-1)]
		r.Packets += d.packets
		r.WireBytes += d.wireBytes
		r.ECNMarked += d.ce
		r.CNPs += d.cnps
		r.BadICRC += d.badICRC
		r.Unchecked += d.unchecked
		r.OtherPackets += d.other
	}
	return rows
}

// newRow has the requests of one direction and the responses of the other;
// either may be nil.
func newRow(requests, responses *flow) *Connection {
	r := &Connection{NAKs: map[string]uint64{}}
	if f := requests; f != nil {
		r.Reader, r.Memory, r.MemoryQP = f.key.Src, f.key.Dst, f.key.DestQP
		r.VLAN, r.First, r.Last = f.vlan, f.born, f.used
		r.Reads, r.RequestedBytes = f.reads, f.requested
		r.Completed, r.Failed, r.Unanswered = f.completed, f.failed, f.lost+uint64(len(f.open))
		r.Retransmits, r.Gaps, r.Late, r.Missing = f.retransmits, f.requestGaps, f.requestsLate, f.requestsMissing
		r.Restarts = f.restarts
		if f.latency != nil {
			r.latency = *f.latency
		}
	}
	if g := responses; g != nil {
		r.Reader, r.Memory, r.ReaderQP = g.key.Dst, g.key.Src, g.key.DestQP
		r.VLAN, r.PathMTU = g.vlan, g.mtu
		if r.First.IsZero() || g.born.Before(r.First) {
			r.First = g.born
		}
		if g.used.After(r.Last) {
			r.Last = g.used
		}
		r.Responses, r.ResponseBytes = g.responsePackets, g.responseBytes
		r.Repeats, r.Unmatched = g.repeats, g.unmatched
		r.Gaps += g.responseGaps
		r.Late += g.responsesLate
		r.Missing += g.responsesMissing
		for i, n := range g.naks {
			if n > 0 {
				r.NAKs[nakNames[i]] = n
			}
		}
	}
	return r
}

// add adds the counts of another row.
func (r *Connection) add(o *Connection) {
	if r.NAKs == nil {
		r.NAKs = map[string]uint64{}
	}
	if r.First.IsZero() || o.First.Before(r.First) {
		r.First = o.First
	}
	if o.Last.After(r.Last) {
		r.Last = o.Last
	}
	for _, c := range []struct{ to, from *uint64 }{
		{&r.Packets, &o.Packets}, {&r.WireBytes, &o.WireBytes},
		{&r.Reads, &o.Reads}, {&r.RequestedBytes, &o.RequestedBytes}, {&r.Completed, &o.Completed}, {&r.Failed, &o.Failed},
		{&r.Unanswered, &o.Unanswered}, {&r.Responses, &o.Responses}, {&r.ResponseBytes, &o.ResponseBytes},
		{&r.Retransmits, &o.Retransmits}, {&r.Repeats, &o.Repeats}, {&r.Gaps, &o.Gaps}, {&r.Late, &o.Late},
		{&r.Missing, &o.Missing}, {&r.Unmatched, &o.Unmatched}, {&r.Restarts, &o.Restarts},
		{&r.ECNMarked, &o.ECNMarked}, {&r.CNPs, &o.CNPs}, {&r.BadICRC, &o.BadICRC}, {&r.Unchecked, &o.Unchecked},
		{&r.OtherPackets, &o.OtherPackets},
	} {
		*c.to += *c.from
	}
	for kind, n := range o.NAKs {
		r.NAKs[kind] += n
	}
	r.latency.merge(&o.latency)
}

// finish fills what is computed from the rest.
func (r *Connection) finish() {
	h := &r.latency
	if h.count == 0 {
		return
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	r.Latency = &Latency{Count: h.count, Min: us(h.min), P50: us(h.quantile(0.5)), P90: us(h.quantile(0.9)),
		P99: us(h.quantile(0.99)), P999: us(h.quantile(0.999)), Max: us(h.max)}
}

// refusals is the number of NAKs of all kinds.
func (r *Connection) refusals() uint64 {
	var n uint64
	for _, c := range r.NAKs {
		n += c
	}
	return n
}
