package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the outcome. Its JSON keys are an interface.
type Report struct {
	Transport       string            `json:"transport"`
	TransportReason string            `json:"transport_reason"`
	Consumers       int               `json:"consumers"`
	AppendedBytes   uint64            `json:"appended_bytes"`
	DeliveredBytes  uint64            `json:"delivered_bytes"` // to all consumers
	WrongBytes      uint64            `json:"wrong_bytes"`
	Gaps            uint64            `json:"gaps"`
	DeliveryMS      Delivery          `json:"delivery_ms"`
	Reads           map[string]uint64 `json:"reads"` // by source
	ReadRequests    uint64            `json:"read_requests"`
	ReadBytes       uint64            `json:"read_bytes"`
	ServerCPUMS     float64           `json:"server_cpu_ms"` // while there were consumers

	Input       string            `json:"input"`
	Policy      string            `json:"policy"`
	Rate        int64             `json:"rate"`    // asked for, bytes a second
	Seconds     float64           `json:"seconds"` // of appending with consumers
	Appends     uint64            `json:"appends"` // in that time
	AppendCPUMS AppendCPU         `json:"append_cpu_ms"`
	Samples     uint64            `json:"samples"` // delivery times measured
	DeliveredBy map[string]uint64 `json:"delivered_by"`
	Retries     map[string]uint64 `json:"retries"`
	RDMA        string            `json:"rdma"`  // devices of this host
	Nodes       int               `json:"nodes"` // processes; ServerCPUMS and AppendCPUMS are of all of them
	Kills       int               `json:"kills"` // nodes killed on the way, and restarted
}

// AppendCPU is the node's processor time divided by its appends, without any
// consumer and with all of them: reads that cost the node nothing add nothing.
type AppendCPU struct {
	Alone    float64 `json:"alone"`
	Followed float64 `json:"followed"`
}

// Delivery has quantiles of the delivery times in milliseconds.
type Delivery struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sources in the order of resort.
var sources = []string{"shm", "rdma", "tcp", "durable"}

func newReport(cfg Config, s *session, m phase) Report {
	r := Report{Consumers: cfg.Consumers, AppendedBytes: s.producer.end, Input: s.in.name, Policy: cfg.Policy, Rate: cfg.Rate,
		Seconds: m.elapsed.Seconds(), Appends: m.appends, ServerCPUMS: ms(m.cpu),
		AppendCPUMS: AppendCPU{Alone: ms(s.alone.perAppend()), Followed: ms(m.perAppend())}, RDMA: cfg.RDMA,
		Nodes: len(s.nodes.addrs), Kills: s.nodes.kills(),
		Reads: map[string]uint64{}, DeliveredBy: map[string]uint64{}, Retries: map[string]uint64{}}
	for _, name := range sources {
		r.Reads[name], r.DeliveredBy[name] = 0, 0
	}
	var times Histogram
	var transports, reasons []string
	for _, c := range s.snapshots() {
		r.DeliveredBytes += c.Delivered
		r.WrongBytes += c.Wrong
		r.Gaps += c.Gaps
		r.ReadRequests += c.Requests
		r.ReadBytes += c.Bytes
		addTo(r.Reads, c.Reads)
		addTo(r.DeliveredBy, c.DeliveredBy)
		addTo(r.Retries, c.Retries)
		times.Merge(&c.Times)
		transports, reasons = append(transports, c.Transport), append(reasons, c.Why)
	}
	r.Transport, r.TransportReason = distinct(transports), distinct(reasons)
	r.Samples = times.total
	r.DeliveryMS = Delivery{ms(times.Quantile(0.5)), ms(times.Quantile(0.99)), ms(times.max)}
	return r
}

func addTo(sum, m map[string]uint64) {
	for k, v := range m {
		sum[k] += v
	}
}

func distinct(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Wrong says what makes the demo fail, empty if nothing does.
func (r Report) Wrong() string {
	want := r.AppendedBytes * uint64(r.Consumers)
	switch {
	case r.WrongBytes > 0:
		return fmt.Sprintf("%d delivered bytes differ from the durable files", r.WrongBytes)
	case r.Gaps > 0:
		return fmt.Sprintf("%d gaps in what was delivered", r.Gaps)
	case r.DeliveredBytes != want:
		return fmt.Sprintf("%d bytes were delivered, want %d: %d to each consumer", r.DeliveredBytes, want, r.AppendedBytes)
	}
	return ""
}

// Write prints the summary for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "input\t%s, over and over\n", r.Input)
	fmt.Fprintf(t, "appended\t%s, with consumers for %.1f s: %d appends (%s/s asked for), flushed: %s\n",
		bytesText(float64(r.AppendedBytes)), r.Seconds, r.Appends, bytesText(float64(r.Rate)), r.Policy)
	if r.Nodes > 1 {
		fmt.Fprintf(t, "cluster\t%d nodes, %d of them killed on the way and restarted\n", r.Nodes, r.Kills)
	}
	fmt.Fprintf(t, "delivered\t%s to %d consumer processes, over %s (%s)\n", bytesText(float64(r.DeliveredBytes)), r.Consumers, r.Transport, r.TransportReason)
	fmt.Fprintf(t, "checked\tevery delivered byte against the durable files: %d wrong, %d gaps\n", r.WrongBytes, r.Gaps)
	fmt.Fprintf(t, "delivery\tp50 %.2f ms, p99 %.2f ms, max %.2f ms, from before the append until the bytes are with the consumer (%d times)\n",
		r.DeliveryMS.P50, r.DeliveryMS.P99, r.DeliveryMS.Max, r.Samples)
	fmt.Fprintf(t, "data reads\t%s\n", bySource(r.Reads))
	fmt.Fprintf(t, "all reads\t%d requests, %s moved\n", r.ReadRequests, bytesText(float64(r.ReadBytes)))
	fmt.Fprintf(t, "%s CPU\t%.0f ms: %.2f ms an append, %.2f ms in the time before there were consumers\n",
		whose(r.Nodes), r.ServerCPUMS, r.AppendCPUMS.Followed, r.AppendCPUMS.Alone)
	if s := nonZero(r.Retries); s != "" {
		fmt.Fprintf(t, "read again\t%s\n", s)
	}
	fmt.Fprintf(t, "RDMA\t%s\n", r.RDMA)
	return t.Flush()
}

func whose(nodes int) string {
	if nodes > 1 {
		return "nodes'"
	}
	return "node's"
}

func bySource(m map[string]uint64) string {
	var parts []string
	for _, s := range sources {
		parts = append(parts, fmt.Sprintf("%s %d", s, m[s]))
	}
	return strings.Join(parts, ", ")
}

func nonZero(m map[string]uint64) string {
	var parts []string
	for k, v := range m {
		if v > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, v))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// bytesText prints a number of bytes for people, in units of 1,024s.
func bytesText(n float64) string {
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 {
			if u == "B" {
				return fmt.Sprintf("%.0f B", n)
			}
			return fmt.Sprintf("%.1f %s", n, u)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f TiB", n)
}
