package read

import (
	"image/color"
	"io"

	"github.com/rmatail/rmatail/bench/panels"
)

// colors of the transports; those of floors are grey.
var colors = [...]color.Color{SHM: panels.Green, RDMA: panels.Blue, TCP: panels.Orange}

// WritePNG draws rates, latencies and ratios. A disc is the median of the rounds,
// a ring that of the floor; the lines go from the least to the most.
func (r *Result) WritePNG(w io.Writer) error {
	rates, latencies := panels.Panel{Title: "reads a second, millions"}, panels.Panel{Title: "latency of one read, median, us"}
	ratios := panels.Panel{Title: "ours by the floor's (latency: less is better)"}
	for _, row := range r.Rows {
		line := panels.Row{Name: row.name()}
		if s := row.OursSpread; s != nil {
			line.Values = append(line.Values, s.value(colors[row.Transport], panels.Disc))
		}
		if s := row.FloorSpread; s != nil {
			line.Values = append(line.Values, s.value(panels.Grey, panels.Ring))
		}
		if row.Mode == Rate {
			rates.Rows = append(rates.Rows, line)
		} else {
			latencies.Rows = append(latencies.Rows, line)
		}
		if s := row.Ratio; s != nil {
			ratios.Rows = append(ratios.Rows, panels.Row{Name: row.name(), Values: []panels.Value{s.value(colors[row.Transport], panels.Disc)}})
		}
	}
	return panels.WritePNG(w, rates, latencies, ratios)
}

func (s *Spread) value(c color.Color, shape panels.Shape) panels.Value {
	return panels.Value{Median: s.Median, Least: s.Least, Most: s.Most, Color: c, Shape: shape}
}
