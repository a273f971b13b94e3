package read

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rmatail/rmatail/bench"
)

// name names a row's cell.
func (r Row) name() string {
	switch {
	case r.Batch == 0:
		return fmt.Sprintf("%s %s", r.Transport, r.Kind)
	case r.Mode == Latency:
		return fmt.Sprintf("%s %s, depth 1", r.Transport, r.Kind)
	}
	return fmt.Sprintf("%s %s, batch %d", r.Transport, r.Kind, r.Batch)
}

// Write prints the tables, with perftest's column names.
func (r *Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "latency, one read under way\t#bytes\t#iterations\tt_min[usec]\tt_max[usec]\tt_typical[usec]\tt_avg[usec]\tt_stdev[usec]\t90% percentile[usec]\t99% percentile[usec]\t99.9% percentile[usec]\tfloor t_typical[usec]\tratio\tleast\tmost\tclient CPU[usec/read]\tserver CPU[usec/read]\tallocations/read\t")
	for _, row := range r.Rows {
		if row.Mode == Latency {
			o := row.Ours
			fmt.Fprintf(w, "%s %s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%s%.3f\t%s\t%s\t\n", row.Transport, row.Kind, row.Bytes, o.Reads,
				o.TMin, o.TMax, o.TTypical, o.TAvg, o.TStdev, o.P90, o.P99, o.P999, row.compared(), o.ClientCPU, optional("%.3f", o.ServerCPU), optional("%.2f", o.Allocs))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "rate\tbatch\t#bytes\t#iterations\tBW peak[MB/sec]\tBW average[MB/sec]\tMsgRate[Mpps]\tfloor MsgRate[Mpps]\tratio\tleast\tmost\tclient CPU[usec/read]\tserver CPU[usec/read]\tclient CPU[usec/MB]\tserver CPU[usec/MB]\tallocations/read\t")
	for _, row := range r.Rows {
		if row.Mode == Rate {
			o := row.Ours
			fmt.Fprintf(w, "%s %s\t%s\t%d\t%.0f\t%.2f\t%.2f\t%.6f\t%s%.3f\t%s\t%.1f\t%s\t%s\t\n", row.Transport, row.Kind, batchText(row.Batch), row.Bytes, o.Reads,
				o.BWPeak, o.BWAverage, o.MsgRate, row.compared(), o.ClientCPU, optional("%.3f", o.ServerCPU), o.ClientCPUByMB, optional("%.1f", o.ServerCPUByMB), optional("%.2f", o.Allocs))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.OneSided) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "node's processor time\t#iterations\tseconds\twhile read[usec]\tleast\tmost\tidle[usec]\tleast\tmost\tratio\texcess[nsec/read]\twakes\tidle wakes\t")
		for _, o := range r.OneSided {
			fmt.Fprintf(w, "%s raw\t%d\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%s\t%s\t\n", o.Transport, o.Reads, o.Seconds,
				o.Busy.Median, o.Busy.Least, o.Busy.Most, o.Idle.Median, o.Idle.Least, o.Idle.Most, o.Ratio.Median, o.Excess.Median,
				median(o.BusyWakes), median(o.IdleWakes))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if err := r.writePeers(out); err != nil {
		return err
	}
	return r.foot(out)
}

// compared are the columns of the floor.
func (r Row) compared() string {
	if r.Floor == nil || r.Ratio == nil {
		return "-\t-\t-\t-\t"
	}
	return fmt.Sprintf("%.*f\t%.3f\t%.3f\t%.3f\t", map[Mode]int{Latency: 2, Rate: 6}[r.Mode], r.main(*r.Floor), r.Ratio.Median, r.Ratio.Least, r.Ratio.Most)
}

func batchText(n int) string {
	if n == 0 {
		return "own"
	}
	return fmt.Sprint(n)
}

func optional(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

// median of a spread that may be absent.
func median(s *Spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", s.Median)
}

// foot prints the claims and where all this was measured.
func (r *Result) foot(out io.Writer) error {
	fmt.Fprintln(out)
	if err := bench.WriteClaims(out, r.Claims); err != nil {
		return err
	}
	e, s := r.Environment, r.Settings
	_, err := fmt.Fprintf(out, "\n%d readers x %d shards of %d B, %d batches in flight, medians of %d rounds of %.1f s a cell; MB is 2^20 B\n%s, %d CPUs, GOMAXPROCS %d, Linux %s, %s, revision %s, load %s to %s\n",
		s.Readers, s.Shards, s.ShardBytes, s.InFlight, s.Rounds, s.Seconds, e.CPU, e.CPUs, e.GOMAXPROCS, e.Kernel, e.Go, e.Revision, e.LoadBefore, e.LoadAfter)
	if d := r.Device; err == nil && d != nil {
		_, err = fmt.Fprintf(out, "device %s, %s, MTU %d B, %d reads in flight\n", d.Device, d.GIDType, d.MTU, d.ReadsInFlight)
	}
	return err
}
