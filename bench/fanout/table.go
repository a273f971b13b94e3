package fanout

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rmatail/rmatail/bench"
)

// Name names a row's cell.
func (r Row) Name() string {
	name := fmt.Sprintf("%s, %s, %d x %d", r.Program, r.Workload, r.Consumers, r.Shards)
	if r.Poll > 0 {
		name += fmt.Sprintf(", poll %g ms", r.Poll)
	}
	return name
}

// Write prints the tables, each figure the median of the rounds.
func (r *Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "workload\tshards\tconsumers\tprogram\tpoll[ms]\tp50[ms]\tp99[ms]\tleast\tmost\tdelivered[MB/s]\tof wanted\tmissing\tserver CPU[ms/MB]\tleast\tmost\tbeyond producer[ms/MB]\tclient CPU[ms/MB]\tmoved/byte\trequests/KB\tproduced[MB/s]\tserver CPU[ms/s]\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t", row.Workload, row.Shards, row.Consumers, row.Program, number("%g", row.Poll))
		switch {
		case row.Least == nil:
			fmt.Fprint(w, "failed\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n")
		case row.Consumers == 0:
			fmt.Fprintf(w, "\t\t\t\t\t\t\t\t\t\t\t\t\t\t%.2f\t%.1f\t\n", row.Produced, row.Server)
		default:
			fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%.3f\t%.3f\t%.3f\t%.2f\t%.1f\t\n", row.P50, row.P99, row.Least.P99, row.Most.P99,
				row.Delivered, number("%.3f", row.Share), row.Missing, row.ServerPerMB, row.Least.ServerPerMB, row.Most.ServerPerMB, number("%.3f", row.Beyond),
				row.ClientPerMB, row.Moved, row.Requests, row.Produced, row.Server)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.foot(out)
}

func number(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// foot prints what failed or was absent, the floors, the claims, and where all this
// was measured.
func (r *Result) foot(out io.Writer) error {
	fmt.Fprintln(out)
	for _, row := range r.Rows {
		if row.Failures > 0 {
			fmt.Fprintf(out, "failed in %d of %d rounds: %s: %s\n", row.Failures, len(r.Rounds), row.Name(), row.Failed)
		}
	}
	for _, a := range r.Absent {
		fmt.Fprintf(out, "skipped: %s: %s\n", a.Program, a.Why)
	}
	for _, f := range r.Floors {
		fmt.Fprintf(out, "floor: %s: %.3f us (%.3f to %.3f)\n", f.What, f.Micros, f.Least, f.Most)
	}
	if err := bench.WriteClaims(out, r.Claims); err != nil {
		return err
	}
	e, s := r.Environment, r.Settings
	_, err := fmt.Fprintf(out, "\nmedians of %d rounds, %.1f s a cell after %.1f s; MB is 1e6 B; consumers in %d processes at most\n%s, %d CPUs, GOMAXPROCS %d, Linux %s, %s, revision %s, load %s to %s\n",
		s.Rounds, s.Seconds, s.WarmUp, s.Processes, e.CPU, e.CPUs, e.GOMAXPROCS, e.Kernel, e.Go, e.Revision, e.LoadBefore, e.LoadAfter)
	return err
}
