package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// View shows Progress: a table that is drawn over itself on a terminal, a line
// about every second elsewhere.
type View struct {
	Out io.Writer
	For time.Duration
	// Size returns a terminal's columns and rows; nil: Out is no terminal.
	Size func() (columns, rows int)

	drawn int // lines of the last table
	lines int // lines printed without a terminal
}

// Show prints a state. What the terminal does not take is lost: it is only a view.
func (v *View) Show(p Progress) {
	if v.Size == nil {
		if v.lines++; v.lines%2 == 0 {
			fmt.Fprintln(v.Out, v.line(p))
		}
		return
	}
	columns, rows := v.Size()
	var b bytes.Buffer
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	lines := v.table(p, rows)
	for _, l := range lines {
		if columns > 0 && len(l) > columns {
			l = l[:columns]
		}
		fmt.Fprintf(&b, "\x1b[2K%s\n", l)
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	_, _ = v.Out.Write(b.Bytes())
}

func (v *View) line(p Progress) string {
	var delivered, wrong, gaps, lag uint64
	var times Histogram
	for _, c := range p.Consumers {
		delivered += c.Delivered
		wrong += c.Wrong
		gaps += c.Gaps
		lag = max(lag, c.Lag)
		times.Merge(&c.Times)
	}
	return fmt.Sprintf("%4.1f s of %s: appended %s, delivered %s to %d, lag at most %s, p50 %.2f ms, p99 %.2f ms, wrong %d, gaps %d, %s CPU %.0f ms",
		p.Elapsed.Seconds(), v.For, bytesText(float64(p.Appended)), bytesText(float64(delivered)), len(p.Consumers), bytesText(float64(lag)),
		ms(times.Quantile(0.5)), ms(times.Quantile(0.99)), wrong, gaps, whose(p.Nodes), ms(p.ServerCPU))
}

func (v *View) table(p Progress, rows int) []string {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "consumer\tpid\ttransport\tposition\tlag\tp50 ms\tp99 ms\tmax ms\twrong\tgaps\t")
	for i, c := range p.Consumers {
		fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%d\t%d\t\n", i+1, p.PIDs[i], c.Transport, c.Position, c.Lag,
			ms(c.Times.Quantile(0.5)), ms(c.Times.Quantile(0.99)), ms(c.Times.max), c.Wrong, c.Gaps)
	}
	t.Flush() // into memory
	lines := append([]string{v.line(p)}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	if rows > 3 && len(lines) > rows-1 {
		hidden := len(lines) - (rows - 2)
		lines = append(lines[:rows-2], fmt.Sprintf("and %d more", hidden))
	}
	return lines
}
