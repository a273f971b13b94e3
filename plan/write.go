package plan

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Write prints the plan, each number with its formula.
func (p *Plan) Write(out io.Writer) error {
	n := p.Needs
	fmt.Fprintf(out, "%d streams x %d shards x %.3f Mb/s in appends of %d B, %d consumers that follow %d shards of each stream, poll %v, chunks of %d B, links of %g Gb/s\n",
		n.Streams, n.Shards, n.ShardMbps, n.AppendBytes, n.Consumers, n.Follows, n.Poll, layout.ChunkSize, n.LinkGbps)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, i := range p.Items {
		fmt.Fprintf(w, "%s\t%s %s\t= %s\n", i.Name, number(i.Value), i.Unit, i.Formula)
	}
	return w.Flush()
}

// number prints three or four digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e6:
		return fmt.Sprintf("%.0f", v)
	case a >= 1e6:
		return fmt.Sprintf("%.3f M", v/1e6)
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a < 0.01:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.3f", v)
}
