package trace

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a trace. Its JSON keys are an interface.
type Report struct {
	Source  string    `json:"source"` // netdev or file
	First   time.Time `json:"first"`  // packet; zero without any
	Last    time.Time `json:"last"`
	Seconds float64   `json:"seconds"` // between the two

	Frames    uint64 `json:"frames"`    // captured, RoCE or not
	Packets   uint64 `json:"packets"`   // of RoCE v2
	Lost      uint64 `json:"lost"`      // packets that the capture had no room for: gaps may be its own
	BadICRC   uint64 `json:"bad_icrc"`  // which receivers drop
	Malformed uint64 `json:"malformed"` // headers that are cut or wrong
	Unchecked uint64 `json:"unchecked"` // packets that the capture cut behind their headers
	Hint      string `json:"hint,omitempty"`

	Total       Connection   `json:"total"`
	Connections []Connection `json:"connections"` // the most data first
	// Folded is the sum of connections that had to make room for others: so many
	// they were.
	Folded      *Connection `json:"folded,omitempty"`
	FoldedCount uint64      `json:"folded_count"`
}

// Report sums up. The Table may go on afterwards.
func (t *Table) Report() Report {
	r := Report{
		First: t.first, Last: t.last, Seconds: t.last.Sub(t.first).Seconds(),
		Frames: t.seen.frames, Packets: t.seen.packets,
		BadICRC: t.seen.badICRC, Malformed: t.seen.malformed, Unchecked: t.seen.trimmed,
		Connections: []Connection{}, FoldedCount: t.evicted,
	}
	total := &Connection{NAKs: map[string]uint64{}}
	for _, f := range t.flows {
		// Of two directions, the one that reads has the row, or the first by address.
		if g := f.peer; g != nil && !shows(f, g) {
			continue
		}
		for _, c := range rowsOf(f, f.peer) {
			c.finish()
			total.add(c)
			r.Connections = append(r.Connections, *c)
		}
	}
	slices.SortFunc(r.Connections, func(a, b Connection) int {
		return cmp.Or(-cmp.Compare(a.ResponseBytes, b.ResponseBytes), -cmp.Compare(a.Packets, b.Packets),
			a.Reader.Compare(b.Reader), a.Memory.Compare(b.Memory),
			cmp.Compare(a.MemoryQP, b.MemoryQP), cmp.Compare(a.ReaderQP, b.ReaderQP))
	})
	if t.evicted > 0 {
		folded := &Connection{}
		folded.add(&t.folded)
		folded.finish()
		total.add(folded)
		r.Folded = folded
	}
	total.finish()
	r.Total = *total
	return r
}

// shows says which of two directions leads to their rows: exactly one of them.
func shows(f, g *flow) bool {
	if (f.reads > 0) != (g.reads > 0) {
		return f.reads > 0
	}
	return cmp.Or(f.key.Src.Compare(g.key.Src), f.key.Dst.Compare(g.key.Dst), cmp.Compare(f.key.DestQP, g.key.DestQP)) < 0
}

// WriteText writes a summary for people, with top rows at most.
func (r Report) WriteText(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d RoCE v2 packets in %.3f s", r.Source, r.Packets, r.Seconds)
	if r.Frames > r.Packets {
		fmt.Fprintf(&b, ", %d other frames", r.Frames-r.Packets)
	}
	for _, c := range []struct {
		n    uint64
		text string
	}{
		{r.Lost, "lost by the capture, which may have made the gaps below"}, {r.BadICRC, "with a bad ICRC"},
		{r.Malformed, "malformed"}, {r.Unchecked, "cut, with no ICRC to check"},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %d %s", c.n, c.text)
		}
	}
	b.WriteByte('\n')
	if r.Hint != "" {
		fmt.Fprintln(&b, r.Hint)
	}
	if len(r.Connections) > 0 || r.Folded != nil {
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "\nREADER\tMEMORY\tREADS\tDONE\tBYTES\tP50 us\tP99 us\tMAX us\tRESENT\tGAPS\tLATE\tMISSING\tNAKS\tECN")
		for _, c := range r.Connections[:min(top, len(r.Connections))] {
			c.row(t, end(c.Reader.String(), c.ReaderQP)+vlan(c.VLAN), end(c.Memory.String(), c.MemoryQP))
		}
		if r.Folded != nil {
			r.Folded.row(t, fmt.Sprintf("%d earlier ones", r.FoldedCount), "")
		}
		r.Total.row(t, "total", "")
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if n := len(r.Connections) - top; n > 0 {
		fmt.Fprintf(&b, "... and %d more connections (--json has all)\n", n)
	}
	for _, c := range r.Connections[:min(top, len(r.Connections))] {
		if notes := c.notes(); notes != "" {
			fmt.Fprintf(&b, "%s > %s: %s\n", end(c.Reader.String(), c.ReaderQP), end(c.Memory.String(), c.MemoryQP), notes)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func end(addr string, qp uint32) string {
	if qp == 0 {
		return addr + " qp ?"
	}
	return fmt.Sprintf("%s qp %d", addr, qp)
}

func vlan(id uint16) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(" vlan %d", id)
}

func (r *Connection) row(w io.Writer, reader, memory string) {
	p50, p99, longest := "-", "-", "-"
	if l := r.Latency; l != nil {
		p50, p99, longest = fmt.Sprintf("%.1f", l.P50), fmt.Sprintf("%.1f", l.P99), fmt.Sprintf("%.1f", l.Max)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", reader, memory, r.Reads, r.Completed, r.ResponseBytes,
		p50, p99, longest, r.Retransmits+r.Repeats, r.Gaps, r.Late, r.Missing, r.refusals(), r.ECNMarked)
}

// notes has what the table has no column for.
func (r *Connection) notes() string {
	var parts []string
	say := func(n uint64, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	for _, kind := range nakNames {
		say(r.NAKs[kind], "%d NAK "+strings.ReplaceAll(kind, "_", " "))
	}
	say(r.Failed, "%d READs failed")
	say(r.Unanswered, "%d READs without all of their responses")
	say(r.Unmatched, "%d responses to READs before the capture")
	say(r.CNPs, "%d congestion notifications")
	say(r.BadICRC, "%d packets with a bad ICRC")
	say(r.Restarts, "the queue pair began anew %d times")
	say(r.OtherPackets, "%d packets that are no READs")
	return strings.Join(parts, ", ")
}
