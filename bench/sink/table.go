package sink

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rmatail/rmatail/bench"
)

// Write prints the table, with the published column names.
func (r *Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "wait\tmode\tcap\tbatch\tproduced\tdropped\twritten\trecords/s\te2e p50 us\tp95\tp99\tmax\tenqueue p99 us\tmax\tsink p50 us\tp99\theap before MB\tmax\tstacks MB\tgoroutines\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%d\t\n",
			row.Wait, row.Mode, row.Cap, row.Batch, row.Produced, row.Dropped, row.Written, row.RecordsPerSecond,
			row.E2E.P50, row.E2E.P95, row.E2E.P99, row.E2E.Max, row.Enqueue.P99, row.Enqueue.Max, row.Sink.P50, row.Sink.P99,
			float64(row.HeapBefore)/1e6, float64(row.HeapMax)/1e6, float64(row.StacksMax)/1e6, row.GoroutinesMax)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	e := r.Environment
	if _, err := fmt.Fprintf(out, "%d records of %d B, median of %d rounds, GOMAXPROCS %d; %s, %d CPUs, Linux %s, %s, load %s to %s\n",
		r.Records, r.RecordBytes, len(r.Rounds), processors, e.CPU, e.CPUs, e.Kernel, e.Go, e.LoadBefore, e.LoadAfter); err != nil {
		return err
	}
	return bench.WriteClaims(out, r.Claims)
}
