package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/survey"
	"github.com/rmatail/rmatail/chunkstore/watch"
)

// drawStyle is how words stand out.
type drawStyle struct{ title, head, good, warn, bad, dim, end string }

var (
	plainStyle = drawStyle{}
	colorStyle = drawStyle{title: "\x1b[1m", head: "\x1b[2m", good: "\x1b[32m", warn: "\x1b[33m", bad: "\x1b[31;1m", dim: "\x1b[2m", end: "\x1b[0m"}
)

// cell is a text of a table, and the style that it begins with.
type cell struct{ text, style string }

// drawFrame is a Frame as lines of at most columns, and at most rows of them; rows 0:
// as many as there are.
func drawFrame(f *watch.Frame, st drawStyle, columns, rows int) []string {
	d := &drawing{st: st, columns: columns}
	d.summary(f)
	d.problems(f)
	d.line(cell{})
	d.nodes(f)
	d.line(cell{})
	d.consumers(f)
	d.shards(f)
	if f.Reporting == 0 {
		d.line(cell{"shared memory and RDMA reads pass no node, and no consumer reports: see their rmatail_reader_* metrics", st.dim})
	}
	if more := len(d.lines) - rows; rows > 0 && more > 0 {
		d.lines = d.lines[:rows-1]
		d.line(cell{fmt.Sprintf("%d lines more than this terminal has", more+1), st.dim})
	}
	return d.lines
}

type drawing struct {
	st      drawStyle
	columns int
	lines   []string
}

// line adds a line of cells, cut at the width. What is not printable is not printed:
// names come from everywhere, and a terminal obeys escapes.
func (d *drawing) line(cells ...cell) {
	var b strings.Builder
	left := d.columns
	for _, c := range cells {
		text := printable(c.text)
		if n := utf8.RuneCountInString(text); n > left {
			text = string([]rune(text)[:left])
		}
		left -= utf8.RuneCountInString(text)
		if c.style == "" || text == "" {
			b.WriteString(text)
			continue
		}
		b.WriteString(c.style + text + d.st.end)
	}
	d.lines = append(d.lines, strings.TrimRight(b.String(), " "))
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// table adds rows under a head; columns that begin with '>' are set to the right.
func (d *drawing) table(head []string, rows [][]cell) {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = len(strings.TrimPrefix(h, ">"))
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
		}
	}
	pad := func(i int, c cell) cell {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		if strings.HasPrefix(head[i], ">") {
			return cell{space + c.text, c.style}
		}
		return cell{c.text + space, c.style}
	}
	top := make([]cell, 0, 2*len(head))
	for i, h := range head {
		top = append(top, pad(i, cell{strings.TrimPrefix(h, ">"), d.st.head}), cell{"  ", ""})
	}
	d.line(top...)
	for _, r := range rows {
		line := make([]cell, 0, 2*len(r))
		for i, c := range r {
			line = append(line, pad(i, c), cell{"  ", ""})
		}
		d.line(line...)
	}
}

func (d *drawing) summary(f *watch.Frame) {
	up := 0
	for i := range f.Nodes {
		if f.Nodes[i].Up {
			up++
		}
	}
	count := map[cause.State]int{}
	for i := range f.Shards {
		count[f.Shards[i].State]++
	}
	var shards []string
	for _, s := range slices.Backward(cause.States()) {
		if count[s] > 0 {
			shards = append(shards, fmt.Sprintf("%d %s", count[s], words(s)))
		}
	}
	text := "no shards"
	if len(shards) > 0 {
		text = fmt.Sprintf("%d%s shards: %s", len(f.Shards), map[bool]string{true: "+"}[f.More], strings.Join(shards, ", "))
	}
	d.line(cell{"rmatail " + f.Cluster, d.st.title}, cell{fmt.Sprintf("  %s  %d of %d nodes up, %s", time.UnixMilli(f.Time).Format("15:04:05"), up, len(f.Nodes), text), ""})
	t := f.Totals
	ack := "-"
	if t.Ack != nil {
		ack = fmt.Sprintf("p50 %s p99 %s", seconds(t.Ack.P50), seconds(t.Ack.P99))
	}
	d.line(cell{fmt.Sprintf("appended %s  tcp reads %s  durable reads %s  fills %s  ack %s  lag %s  memory %.0f%%", rateOf(t.AppendBytes), rateOf(t.TCPBytes),
		rateOf(t.DurableBytes), rateOf(t.FillBytes), ack, about(float64(t.Lag)), 100*t.Used), ""})
}

// problems are what somebody should look at.
func (d *drawing) problems(f *watch.Frame) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case !n.Up:
			d.line(cell{"! ", d.st.bad}, cell{n.Name, d.st.title}, cell{" away: " + n.Error, ""})
		case n.Error != "":
			d.line(cell{"! ", d.st.bad}, cell{n.Name, d.st.title}, cell{" " + n.Error, ""})
		case n.Rates.PushedOut > 0:
			d.line(cell{"! ", d.st.warn}, cell{n.Name, d.st.title}, cell{fmt.Sprintf(" %.1f extents a second leave memory before their time: the arena is too small", n.Rates.PushedOut), ""})
		}
	}
	if f.StoreError != "" {
		d.line(cell{"! ", d.st.bad}, cell{"durable store", d.st.title}, cell{" " + f.StoreError, ""})
	}
	more := -problemShards
	for i := range f.Shards {
		s := &f.Shards[i]
		if !troubled(s) {
			continue
		}
		if more++; more <= 0 {
			d.line(cell{"! ", d.st.warn}, cell{s.Name, d.st.title}, cell{" " + words(s.State) + ": " + s.Why, ""})
		}
	}
	if more > 0 {
		d.line(cell{"! ", d.st.warn}, cell{fmt.Sprintf("and %d shards more, below", more), ""})
	}
}

// problemShards are shown with their causes at the top at most: the table's last column
// is cut off on a narrow terminal.
const problemShards = 5

// troubled is whether somebody should look at a shard.
func troubled(s *watch.Shard) bool { return s.State.Bad() && !s.Ended }

func (d *drawing) nodes(f *watch.Frame) {
	var rows [][]cell
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Up {
			away := cell{"-", d.st.dim}
			rows = append(rows, []cell{{n.Name, ""}, {"away", d.st.bad}, away, away, away, away, away, {missing(n), ""}, away, away, {"", ""}})
			continue
		}
		hit := cell{"-", d.st.dim}
		if n.HitRate != nil {
			hit = cell{fmt.Sprintf("%.0f%%", 100**n.HitRate), ""}
			if *n.HitRate < cause.LowHitRate && !n.Partial {
				hit.style = d.st.bad
			}
		}
		rows = append(rows, []cell{{n.Name, ""}, {"up", d.st.good}, {seconds(n.RoundTrip), ""}, {rateOf(n.Rates.PutBytes), ""}, {rateOf(n.Rates.TCPBytes), ""},
			{rateOf(n.Rates.DurableBytes), ""}, hit, {missing(n), ""}, {fmt.Sprintf("%d/%d/%d", n.Connections, n.Mappings, n.QueuePairs), ""}, {seconds(n.Uptime), ""},
			{fmt.Sprintf("%s %s of %s", ages(n.Memory.Cells), about(float64(n.Memory.Used)*layout.ExtentSize), about(float64(n.Memory.Bytes))), ""}})
	}
	d.table([]string{"NODE", "STATE", ">PING", ">PUT", ">TCP", ">DURABLE", ">HIT", ">MISSING", ">TCP/SHM/QP", ">UP FOR", "MEMORY BY AGE (# new, + live, . past its time)"}, rows)
}

// topConsumers are shown at most: the shards are to be seen, too.
const topConsumers = 5

// consumers are those that report and fare worst.
func (d *drawing) consumers(f *watch.Frame) {
	if f.Reporting == 0 {
		return
	}
	var rows [][]cell
	for i := range f.Consumers[:min(len(f.Consumers), topConsumers)] {
		c := &f.Consumers[i]
		state, style := words(c.State), d.st.good
		switch {
		case c.Age > survey.FreshReport:
			state, style = "silent for "+seconds(c.Age), d.st.bad
		case c.State.Bad():
			style = d.st.bad
		case c.State == cause.Unknown:
			style = d.st.dim
		}
		rate := 0.0
		for _, r := range c.Rates {
			rate += r
		}
		p99 := "-"
		if c.P99 > 0 {
			p99 = seconds(c.P99)
		}
		rows = append(rows, []cell{{c.Name, ""}, {state, style}, {rateOf(rate), ""}, {cmp.Or(c.Transport, "-"), ""}, {p99, ""}, {fmt.Sprint(c.Shards), ""}, {about(float64(c.Lag)), ""}, {c.Shard, d.st.dim}})
	}
	d.table([]string{fmt.Sprintf("CONSUMER (%d OF %d REPORTING)", len(rows), f.Reporting), "STATE", ">RATE", "OVER", ">P99", ">SHARDS", ">LAG", "WORST SHARD"}, rows)
	d.line(cell{})
}

func missing(n *watch.Node) string {
	if n.Missing == nil {
		return "-"
	}
	return about(float64(*n.Missing))
}

// ages is a bar of a node's memory.
func ages(cells []byte) string {
	const width = 20
	if len(cells) == 0 {
		return strings.Repeat("-", width)
	}
	var fresh, live, past int
	for _, c := range cells {
		switch {
		case c == 0:
		case c < 32:
			fresh++
		case c < 128:
			live++
		default:
			past++
		}
	}
	part := func(n int) int { return (n*width + len(cells) - 1) / len(cells) } // one cell shows
	bar := strings.Repeat("#", part(fresh)) + strings.Repeat("+", part(live)) + strings.Repeat(".", part(past))
	return (bar + strings.Repeat(" ", width))[:width]
}

func (d *drawing) shards(f *watch.Frame) {
	shards := slices.Clone(f.Shards)
	rank := func(s *watch.Shard) int {
		switch {
		case troubled(s):
			return 0
		case s.State != cause.Fine:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(shards, func(a, b watch.Shard) int { return cmp.Compare(rank(&a), rank(&b)) })
	var rows [][]cell
	for i := range shards {
		s := &shards[i]
		style := d.st.good
		switch {
		case troubled(s):
			style = d.st.bad
		case s.State != cause.Fine:
			style = d.st.dim
		}
		beat := "-"
		if s.Heartbeat != nil {
			beat = seconds(*s.Heartbeat)
		}
		rows = append(rows, []cell{{s.Name, ""}, {words(s.State), style}, {rateOf(s.Rate), ""}, {about(float64(s.Length)), ""}, {about(float64(s.Lag)), ""}, {beat, ""}, {cmp.Or(s.Writer, "-"), ""}, {s.Why, d.st.dim}})
	}
	d.table([]string{"SHARD", "STATE", ">RATE", ">LENGTH", ">LAG", ">BEAT", "WRITER", "CAUSE"}, rows)
	if f.More {
		d.line(cell{fmt.Sprintf("and others: --shards looks at more than %d", len(f.Shards)), d.st.dim})
	}
}

// words is a state for people.
func words(s cause.State) string { return strings.ReplaceAll(s.String(), "_", " ") }

func rateOf(bytes float64) string {
	if bytes <= 0 {
		return "0"
	}
	return about(bytes) + "/s"
}

// seconds prints a time with three digits or less.
func seconds(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.0fus", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3gms", s*1e3)
	case s < 100:
		return fmt.Sprintf("%.2gs", s)
	}
	return uptime(s)
}
