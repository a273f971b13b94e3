package reader

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Stats counts what a Cluster has done since it was opened.
type Stats struct {
	// Reads counts data reads that were answered, by source: one extent's run of
	// bytes over a memory transport, or one ranged read of the durable store.
	Reads map[string]uint64
	// Requests counts everything that was asked of the cache: data, descriptor,
	// identity and length-page reads, and durable reads.
	Requests uint64
	// Bytes counts what those moved; Delivered what Readers handed out.
	Bytes, Delivered uint64
	// DeliveredBy splits Delivered by source.
	DeliveredBy map[string]uint64
	// Retries counts reads that delivered nothing, by reason.
	Retries map[string]uint64
	// Failures counts reads that failed with their transport, by source; each is
	// among Retries too.
	Failures map[string]uint64
	// Connects counts connections made, by source.
	Connects map[string]uint64
	// Transport is the memory transport in use ("none" when none is up), and
	// Why the reason for it.
	Transport, Why string
}

// counters are a Cluster's; all may be used at once.
type counters struct {
	reads, failures, connects, deliveredBy [sources]atomic.Uint64
	retries                                [reasons]atomic.Uint64
	requests, bytes                        atomic.Uint64
}

func (c *counters) polled(pages, bytes int) {
	c.requests.Add(uint64(pages))
	c.bytes.Add(uint64(bytes))
}

func (c *counters) located(sets int) {
	c.requests.Add(uint64(sets))
	c.bytes.Add(uint64(sets) * layout.SetSize)
}

func (c *counters) read(from Source, requests, bytes int) {
	c.reads[from].Add(1)
	c.requests.Add(uint64(requests))
	c.bytes.Add(uint64(bytes))
}

func (c *counters) retry(r reason) { c.retries[r].Add(1) }

func (c *counters) failed(from Source, r reason) {
	c.failures[from].Add(1)
	c.retries[r].Add(1)
}

func (c *counters) delivered(from Source, n int) { c.deliveredBy[from].Add(uint64(n)) }

func (c *counters) snapshot() Stats {
	s := Stats{Requests: c.requests.Load(), Bytes: c.bytes.Load(),
		Reads: bySource(&c.reads), DeliveredBy: bySource(&c.deliveredBy),
		Failures: bySource(&c.failures), Connects: bySource(&c.connects), Retries: map[string]uint64{}}
	for r := range reasons {
		s.Retries[reason(r).String()] = c.retries[r].Load()
	}
	for _, n := range s.DeliveredBy {
		s.Delivered += n
	}
	return s
}

func bySource(a *[sources]atomic.Uint64) map[string]uint64 {
	m := make(map[string]uint64, sources)
	for i := range a {
		m[Source(i).String()] = a[i].Load()
	}
	return m
}

// collector turns the counters into metrics when it is scraped.
type collector struct {
	c                                                        *Cluster
	reads, delivered, failures, connects, retries, rqs, byts *prometheus.Desc
}

func newCollector(c *Cluster) *collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rmatail_reader_"+name, help, labels, prometheus.Labels{"node": c.cfg.Server})
	}
	return &collector{c: c,
		reads:     d("reads_total", "Data reads answered, by source.", "source"),
		delivered: d("delivered_bytes_total", "Bytes handed to consumers, by source.", "source"),
		failures:  d("transport_failures_total", "Reads that failed and rested their transport, by source.", "source"),
		connects:  d("connects_total", "Connections made, by transport.", "source"),
		retries:   d("retries_total", "Reads that delivered nothing, by reason.", "reason"),
		rqs:       d("requests_total", "Reads of any kind asked for."),
		byts:      d("moved_bytes_total", "Bytes moved by reads of any kind."),
	}
}

func (k *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(k, ch) }

func (k *collector) Collect(ch chan<- prometheus.Metric) {
	s := k.c.count.snapshot()
	emit := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	each := func(d *prometheus.Desc, m map[string]uint64) {
		for label, v := range m {
			emit(d, v, label)
		}
	}
	each(k.reads, s.Reads)
	each(k.delivered, s.DeliveredBy)
	each(k.failures, s.Failures)
	each(k.connects, s.Connects)
	each(k.retries, s.Retries)
	emit(k.rqs, s.Requests)
	emit(k.byts, s.Bytes)
}
