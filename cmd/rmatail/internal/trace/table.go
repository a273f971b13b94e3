package trace

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rmatail/rmatail/rdma/roce"
)

// DefaultConnections is how many connections a Table tracks if nothing else is
// said.
const DefaultConnections = 1024

// maxStrangers is how many responses in a row may answer nothing known before a
// pairing is taken for a wrong one.
const maxStrangers = 32

// Table follows connections, packet by packet in the order of their capture. One
// goroutine at a time.
type Table struct {
	limit int // directions
	flows map[roce.Flow]*flow
	// The least and the most recently used one.
	oldest, newest *flow
	// alone has the directions with READ requests whose other direction is not
	// known, by their hosts.
	alone map[hosts][]*flow

	folded  Connection // of connections that were folded
	evicted uint64
	first   time.Time
	last    time.Time
	seen    counters
}

// counters are what no connection has.
type counters struct {
	frames, packets             uint64
	badICRC, malformed, trimmed uint64
}

type hosts struct{ src, dst netip.Addr }

// NewTable tracks so many connections at a time; 0 is DefaultConnections.
func NewTable(connections int) *Table {
	if connections <= 0 {
		connections = DefaultConnections
	}
	return &Table{limit: 2 * connections, flows: map[roce.Flow]*flow{}, alone: map[hosts][]*flow{}}
}

// Packets is how many RoCE packets there were, bad ones included.
func (t *Table) Packets() uint64 { return t.seen.packets }

// Add takes a frame of n bytes on the wire: what [roce.Packet.Decode] made of it.
// It returns false when the frame was not RoCE.
func (t *Table) Add(p *roce.Packet, err error, n int, at time.Time) bool {
	t.seen.frames++
	if errors.Is(err, roce.ErrNotRoCE) {
		return false
	}
	t.seen.packets++
	if t.first.IsZero() {
		t.first = at
	}
	if at.After(t.last) {
		t.last = at
	}
	switch {
	case errors.Is(err, roce.ErrICRC):
		// The receiver drops it. It may not be of the connection that it names, so
		// it does not begin one.
		t.seen.badICRC++
		if f := t.flows[p.Flow]; f != nil {
			f.badICRC++
		}
		return true
	case err != nil:
		t.seen.malformed++
		return true
	}
	f := t.flow(p.Flow, at)
	f.packets++
	f.wireBytes += uint64(n)
	f.vlan = p.VLAN
	if p.CE {
		f.ce++
	}
	if p.Cut {
		t.seen.trimmed++
		f.unchecked++
	}
	t.count(f, p, at)
	return true
}

func (t *Table) count(f *flow, p *roce.Packet, at time.Time) {
	number := psn(p.BTH.PSN)
	switch op := p.BTH.Opcode; {
	case op == roce.ReadRequest:
		f.request(number, p.RETH.DMALength, at)
		if f.peer == nil {
			t.leaveAlone(f)
		}
	case op.IsReadResponse():
		if f.peer == nil {
			t.pair(f, func(o open) bool {
				return o.psn == number && (op == roce.ReadResponseOnly && int(o.length) == p.Data || op == roce.ReadResponseFirst && int(o.length) > p.Data)
			})
		}
		f.matched(f.response(op, number, p.Data, at))
	case p.HasAETH():
		t.acknowledge(f, p, number)
	case op == roce.CNP:
		f.cnps++
	default:
		f.other++
	}
}

// matched notes whether a response answered something.
func (f *flow) matched(ok bool) {
	if ok {
		f.strangers = 0
		return
	}
	f.unmatched++
	if f.strangers++; f.strangers == maxStrangers {
		f.part()
	}
}

func (t *Table) acknowledge(f *flow, p *roce.Packet, number psn) {
	kind, breaks := nakOf(p.AETH.Syndrome)
	if kind < 0 {
		f.acks++
		f.other++
		return
	}
	if f.peer == nil {
		t.pair(f, func(o open) bool { return o.psn == number })
	}
	f.naks[kind]++
	if breaks && f.peer != nil {
		f.peer.refused(number)
	}
}

// pair looks for the direction that g answers: the only one with an open READ
// that fits.
func (t *Table) pair(g *flow, fits func(open) bool) {
	var found *flow
	for _, f := range t.alone[hosts{g.key.Dst, g.key.Src}] {
		if f.peer == nil && f != g && slices.ContainsFunc(f.open, fits) {
			if found != nil {
				return // the next response will tell
			}
			found = f
		}
	}
	if found != nil {
		found.peer, g.peer = g, found
		t.noLonger(found)
		t.noLonger(g)
	}
}

// leaveAlone puts a direction among those that look for their other one.
func (t *Table) leaveAlone(f *flow) {
	if f.lonely {
		return
	}
	f.lonely = true
	h := hosts{f.key.Src, f.key.Dst}
	t.alone[h] = append(t.alone[h], f)
}

func (t *Table) noLonger(f *flow) {
	if !f.lonely {
		return
	}
	f.lonely = false
	h := hosts{f.key.Src, f.key.Dst}
	list := t.alone[h]
	if i := slices.Index(list, f); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(t.alone, h)
	} else {
		t.alone[h] = list
	}
}

// flow returns the direction, the most recently used one from now on.
func (t *Table) flow(key roce.Flow, at time.Time) *flow {
	f := t.flows[key]
	if f == nil {
		for len(t.flows) >= t.limit {
			t.evict(t.oldest)
		}
		f = &flow{key: key, born: at}
		t.flows[key] = f
	} else {
		t.unlink(f)
	}
	f.used = at
	f.prev, f.next = t.newest, nil
	if t.newest != nil {
		t.newest.next = f
	} else {
		t.oldest = f
	}
	t.newest = f
	return f
}

func (t *Table) unlink(f *flow) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		t.oldest = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		t.newest = f.prev
	}
}

// evict folds a connection, both directions of it.
func (t *Table) evict(f *flow) {
	t.evicted++
	g := f.peer
	for _, r := range rowsOf(f, g) {
		t.folded.add(r)
	}
	t.drop(f)
	if g != nil {
		t.drop(g)
	}
}

func (t *Table) drop(f *flow) {
	t.noLonger(f)
	t.unlink(f)
	delete(t.flows, f.key)
}
