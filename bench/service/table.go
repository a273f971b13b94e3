package service

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rmatail/rmatail/bench"
)

// words say where the time of a phase goes.
func (p Phase) words() string {
	var say []string
	if p.Lines > 0 {
		say = append(say, fmt.Sprintf("%.0f%% of the handlers' time in logging", 100*p.LogShare))
	}
	say = append(say, fmt.Sprintf("%.1f processors busy, %.0f%% in the kernel", p.Processors, 100*p.SystemShare))
	for _, w := range p.Waits {
		if w.For == "others" && len(say) > 2 {
			continue
		}
		say = append(say, fmt.Sprintf("%.1f s waited for %s (%.1f s by its holders)", w.Blocked, w.For, w.Mutex))
	}
	if asked := p.LinesPerSecond * float64(p.Requests) / max(p.RequestsPerSecond, 1e-9); p.Dropped > 0 && asked > 0 {
		say = append(say, fmt.Sprintf("%.0f%% of the lines dropped", min(100, 100*float64(p.Dropped)/asked)))
	}
	if p.Held > 0 {
		say = append(say, fmt.Sprintf("%d lines held back by the limit", p.Held))
	}
	return strings.Join(say, "; ")
}

// Write prints the table.
func (r *Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "lines/request\tlogging\trequests/s\tof off\tby processor time\tpairs\tp95 ms\tlines/s\tdropped\twhere the time goes")
	for _, p := range r.Phases {
		pairs := "-"
		if q := p.PairsProcessor; q != nil {
			pairs = fmt.Sprintf("%.1f%% (%.1f to %.1f)", 100*q.Median, 100*q.Q1, 100*q.Q3)
		}
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.1f%%\t%.1f%%\t%s\t%.2f\t%.0f\t%d\t%s\n", p.Lines, p.Name, p.RequestsPerSecond, 100*p.OfOff, 100*p.OfOffProcessor, pairs, p.P95, p.LinesPerSecond, p.Dropped, p.Words)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	e := r.Environment
	if _, err := fmt.Fprintf(out, "reads of %d B by %d clients, %.1f s a phase, median of %d rounds; %s, %d CPUs, %s, load %s to %s\n",
		readBytes, r.Clients, r.Seconds, len(r.Rounds), e.CPU, e.CPUs, e.Go, e.LoadBefore, e.LoadAfter); err != nil {
		return err
	}
	return bench.WriteClaims(out, r.Claims)
}
