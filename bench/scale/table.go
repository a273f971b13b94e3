package scale

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/rmatail/rmatail/bench"
	"github.com/rmatail/rmatail/plan"
)

// Write prints ours beside theirs, the parameters and the formulas.
func (r *Result) Write(out io.Writer) error {
	for _, row := range r.Rows {
		if err := row.write(out); err != nil {
			return err
		}
	}
	if len(r.Rows) > 0 {
		n := r.Rows[0].Network
		fmt.Fprintf(out, "Model: a node serves a request of R reads and B bytes in max(wire*8/%g Gb/s, R/%g reads/s), wire = B + %d*(B/%d + R), one after another; round trip %v; a consumer's link has %g Gb/s.\n",
			n.LinkGbps, n.ReadsPerSecond, plan.FrameOverhead, plan.FramePayload, n.RTT, n.ConsumerLinkGbps)
		fmt.Fprintf(out, "A batch takes flush %v + 2 RTT, and is what came during the one before; a question to the durable store takes %v. A writer waits %v for two lost replicas of three, once.\n", n.Flush, n.Store, writerTimeout)
		fmt.Fprintln(out, "Not known to the model: cache misses of NICs, congestion inside the fabric, hosts that are short of CPU. Theirs is three hops away with two jobs each; ours is the cluster that is written to.")
	}
	e := r.Environment
	fmt.Fprintf(out, "%s, %d CPUs, Linux %s, %s\n", e.CPU, e.CPUs, e.Kernel, e.Go)
	return bench.WriteClaims(out, r.Claims)
}

func (r Row) write(out io.Writer) error {
	fmt.Fprintf(out, "%s: %d data and %d metadata nodes, %d streams x %d shards x %.3f Mb/s in records of %d B (%.0f Mb/s in), consumers follow %d neighbouring shards of each stream, poll %v, start within %v, %d lost; %d simulated for %d, %v after %v, seed %d\n",
		r.Name, r.DataNodes, r.MetadataNodes, r.Streams, r.Shards, r.ShardMbps, r.RecordBytes, r.ShardMbps*float64(r.Streams*r.Shards), r.Follows, r.Poll, r.Start, r.Lost, r.sampled(), r.Consumers, r.For, r.Warm, r.Seed)
	p := r.Published
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tours\tpublished\t")
	line := func(name, ours string, theirs float64, format string, scale float64) {
		text := "-"
		if theirs > 0 {
			text = fmt.Sprintf(format, theirs/scale)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", name, ours, text)
	}
	line("moved Gb/s", fmt.Sprintf("%.2f", r.MovedGbps), p.MovedGbps, "%.0f", 1)
	line("useful Gb/s", fmt.Sprintf("%.2f", r.UsefulGbps), p.UsefulGbps, "%.0f", 1)
	theirs := 0.0
	if p.UsefulGbps > 0 {
		theirs = p.MovedGbps / p.UsefulGbps
	}
	line("moved by useful", fmt.Sprintf("%.4f", r.MovedPerUseful), theirs, "%.2f", 1)
	line("requests/s, M", fmt.Sprintf("%.3f", r.Requests/1e6), p.Requests, "%.1f", 1e6)
	line("of metadata/s, M", fmt.Sprintf("%.3f", r.Metadata/1e6), p.Metadata, "%.2f", 1e6)
	line("delivery p50", ms(r.P50), 0, "", 1)
	line("p99", ms(r.P99), float64(p.P99), "%.0f ms", 1e6)
	line("longest", ms(r.Max), 0, "", 1)
	line("durable reads/s, peak", fmt.Sprintf("%.0f", r.StorePeak), p.FallbackReads, "%.0f", 1)
	line("durable length questions", fmt.Sprintf("%.0f + %.0f at opening", r.StoreStats, r.OpenStats), 0, "", 1)
	line("hedges/s, quorum reads, retries", fmt.Sprintf("%.1f, %.0f, %.0f", r.Hedges, r.Quorums, r.Retries), 0, "", 1)
	load := func(l Load) string {
		return fmt.Sprintf("%.2f (busiest x %.2f, %.0f requests/s, busy %.0f %%, longest queue %s)", l.MeanGbps, l.MaxShare, l.MaxRequests, 100*l.Busy, ms(l.Waiting))
	}
	line("Gb/s of a data node", load(r.Data), p.MovedGbps/float64(r.DataNodes), "%.1f", 1)
	line("Gb/s of a metadata node", load(r.Pages), 0, "", 1)
	line("written to a data node", fmt.Sprintf("%.3f Gb/s, %.0f puts/s", r.Written.DataGbps, r.Written.DataPuts), 0, "", 1)
	line("live of 8 GB, in second sets", fmt.Sprintf("%.1f %%, %.1f %% of those", 100*r.Live, 100*r.SecondSets), 0, "", 1)
	line("to a metadata node", fmt.Sprintf("%.0f publications/s", r.Written.MetadataPublishes), 0, "", 1)
	if err := w.Flush(); err != nil {
		return err
	}
	if p.Text != "" {
		fmt.Fprintf(out, "published: %s\n", p.Text)
	}
	_, err := fmt.Fprintf(out, "%d events in %v\n\n", r.Events, r.Took.Round(time.Millisecond))
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
