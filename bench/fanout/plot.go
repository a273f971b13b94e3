package fanout

import (
	"fmt"
	"io"

	"github.com/rmatail/rmatail/bench/panels"
)

// WritePNG draws deliveries (discs p50, rings p99) and the server's processor time.
func (r *Result) WritePNG(w io.Writer) error {
	deliveries, costs := panels.Panel{Title: "delivery, p50 and p99, ms"}, panels.Panel{Title: "server CPU, ms by MB"}
	for _, row := range r.Rows {
		if row.Least == nil || row.Consumers == 0 {
			continue
		}
		name, color := row.label(), panels.Orange
		switch {
		case row.Program.ours() && row.Program != Naive:
			color = panels.Blue
		case row.Program == Plain || row.Program == Pread:
			color = panels.Grey
		}
		deliveries.Rows = append(deliveries.Rows, panels.Row{Name: name, Values: []panels.Value{
			{Median: row.P50, Least: row.Least.P50, Most: row.Most.P50, Color: color},
			{Median: row.P99, Least: row.Least.P99, Most: row.Most.P99, Color: color, Shape: panels.Ring},
		}})
		costs.Rows = append(costs.Rows, panels.Row{Name: name, Values: []panels.Value{
			{Median: row.ServerPerMB, Least: row.Least.ServerPerMB, Most: row.Most.ServerPerMB, Color: color},
		}})
	}
	return panels.WritePNG(w, deliveries, costs)
}

// label names the row in a picture.
func (r Row) label() string {
	name := fmt.Sprintf("%s, %s, %d x %d", r.Program, r.Workload, r.Consumers, r.Shards)
	if r.Poll > 0 {
		name += fmt.Sprintf(", %g ms", r.Poll)
	}
	return name
}
