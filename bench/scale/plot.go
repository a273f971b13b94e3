package scale

import (
	"image/color"
	"io"

	"github.com/rmatail/rmatail/bench/panels"
)

// WritePNG draws what was moved and asked (discs ours, rings what was published), and
// deliveries (discs p50, rings p99). There are no rounds: virtual time gives the same each
// time.
func (r *Result) WritePNG(w io.Writer) error {
	moved, asked := panels.Panel{Title: "moved, Gb/s (rings: published)"}, panels.Panel{Title: "requests a second, millions (rings: published)"}
	delivered := panels.Panel{Title: "append to delivery, p50 and p99, ms"}
	for _, row := range r.Rows {
		p := row.Published
		moved.Rows = append(moved.Rows, beside(row.Name, row.MovedGbps, p.MovedGbps, 1))
		asked.Rows = append(asked.Rows, beside(row.Name, row.Requests, p.Requests, 1e6))
		delivered.Rows = append(delivered.Rows, panels.Row{Name: row.Name, Values: []panels.Value{
			one(float64(row.P50)/1e6, panels.Blue, panels.Disc), one(float64(row.P99)/1e6, panels.Blue, panels.Ring)}})
	}
	return panels.WritePNG(w, moved, asked, delivered)
}

func beside(name string, ours, theirs, scale float64) panels.Row {
	row := panels.Row{Name: name, Values: []panels.Value{one(ours/scale, panels.Blue, panels.Disc)}}
	if theirs > 0 {
		row.Values = append(row.Values, one(theirs/scale, panels.Orange, panels.Ring))
	}
	return row
}

func one(v float64, c color.Color, shape panels.Shape) panels.Value {
	return panels.Value{Median: v, Least: v, Most: v, Color: c, Shape: shape}
}
