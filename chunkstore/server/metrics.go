package server

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore"
)

// collector turns Stats into metrics when they are scraped: counting costs the
// serving paths one atomic addition each.
type collector struct {
	s     *Server
	descs []*metric
	// durable is that of the time of durable reads.
	durable *prometheus.Desc
}

// metric is one line of the table below.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) float64
	// each, if set, yields one sample for each value of the label instead, many one for
	// each combination of several.
	each func(Stats) map[string]uint64
	many func(st Stats, emit func(v float64, labels ...string))
}

func newCollector(s *Server) *collector {
	c := &collector{s: s}
	node := prometheus.Labels{"node": s.cfg.Node}
	c.durable = prometheus.NewDesc("rmatail_node_durable_read_seconds", "Time of durable reads for clients, waiting for a place at the disk excluded.", nil, node)
	add := func(name, help string, kind prometheus.ValueType, value func(Stats) float64) {
		c.descs = append(c.descs, &metric{desc: prometheus.NewDesc("rmatail_node_"+name, help, nil, node), kind: kind, value: value})
	}
	gauge := func(name, help string, value func(Stats) float64) { add(name, help, prometheus.GaugeValue, value) }
	count := func(name, help string, value func(Stats) float64) { add(name, help, prometheus.CounterValue, value) }
	label := func(name, help, label string, each func(Stats) map[string]uint64) {
		c.descs = append(c.descs, &metric{
			desc: prometheus.NewDesc("rmatail_node_"+name, help, []string{label}, node), kind: prometheus.CounterValue, each: each,
		})
	}
	gauge("connections", "Open connections.", func(s Stats) float64 { return float64(s.Connections) })
	count("connections_total", "Connections accepted.", func(s Stats) float64 { return float64(s.ConnectionsTotal) })
	count("connections_refused_total", "Connections over the limit.", func(s Stats) float64 { return float64(s.ConnectionsRefused) })
	count("connections_broken_total", "Connections that ended by an error, such as bytes of another protocol.", func(s Stats) float64 { return float64(s.ConnectionsBroken) })
	label("requests_total", "Requests by operation.", "op", func(s Stats) map[string]uint64 { return s.Requests })
	label("refusals_total", "Refused requests by status.", "status", func(s Stats) map[string]uint64 { return s.Refusals })
	count("writes_total", "Writes of gathered replies to sockets.", func(s Stats) float64 { return float64(s.Writes) })
	gauge("in_flight", "Requests that wait for a disk or a device.", func(s Stats) float64 { return float64(s.InFlight) })
	gauge("waiting", "Requests that wait for news of a length page.", func(s Stats) float64 { return float64(s.Waiting) })
	count("arena_reads_total", "Arena ranges read over TCP. Reads over shared memory and RDMA are invisible to the node.", func(s Stats) float64 { return float64(s.ArenaReads) })
	count("arena_read_bytes_total", "Arena bytes read over TCP.", func(s Stats) float64 { return float64(s.ArenaReadBytes) })
	count("appends_total", "Appends by clients.", func(s Stats) float64 { return float64(s.Appends) })
	count("append_bytes_total", "Bytes appended by clients.", func(s Stats) float64 { return float64(s.AppendBytes) })
	count("durable_reads_total", "Durable reads for clients.", func(s Stats) float64 { return float64(s.DurableReads) })
	count("durable_read_bytes_total", "Durable bytes read for clients.", func(s Stats) float64 { return float64(s.DurableReadBytes) })
	count("fills_total", "Extents read from the durable store into the arena for readers.", func(s Stats) float64 { return float64(s.Fills) })
	count("fill_bytes_total", "Bytes of such extents.", func(s Stats) float64 { return float64(s.FillBytes) })
	count("segments_removed_total", "Segment files removed by retention.", func(s Stats) float64 { return float64(s.SegmentsRemoved) })
	count("segment_bytes_removed_total", "Bytes of segment files removed by retention.", func(s Stats) float64 { return float64(s.SegmentBytesRemoved) })
	gauge("appenders", "Shards open for append.", func(s Stats) float64 { return float64(s.Appenders) })
	gauge("shared_memory_consumers", "Consumers that hold the arena's mapping.", func(s Stats) float64 { return float64(s.SharedMemory) })
	gauge("queue_pairs", "RDMA connections.", func(s Stats) float64 { return float64(s.QueuePairs) })
	gauge("rdma", "1 if the arena is exported over RDMA.", func(s Stats) float64 {
		if s.RDMA {
			return 1
		}
		return 0
	})
	count("panics_total", "Panics in connections: bugs.", func(s Stats) float64 { return float64(s.Panics) })
	c.addArena(node)
	c.addLimits(node)
	c.addShards(node)
	c.addExport(node)
	c.addConsumers(node)
	return c
}

// many adds a metric of several samples.
func (c *collector) many(node prometheus.Labels, kind prometheus.ValueType, name, help string, labels []string, f func(st Stats, emit func(v float64, labels ...string))) {
	c.descs = append(c.descs, &metric{desc: prometheus.NewDesc("rmatail_node_"+name, help, labels, node), kind: kind, many: f})
}

// addArena adds what each memory holds: that of the streams without a tenant, whose
// label is empty, and those of the tenants.
func (c *collector) addArena(node prometheus.Labels) {
	add := func(kind prometheus.ValueType, name, help string, value func(*chunkstore.Stats) float64) {
		c.many(node, kind, name, help, []string{"tenant"}, func(st Stats, emit func(float64, ...string)) {
			emit(value(&st.Arena), "")
			for i := range st.Tenants {
				emit(value(&st.Tenants[i].Arena), st.Tenants[i].Tenant)
			}
		})
	}
	gauge := func(name, help string, value func(*chunkstore.Stats) float64) {
		add(prometheus.GaugeValue, name, help, value)
	}
	count := func(name, help string, value func(*chunkstore.Stats) float64) {
		add(prometheus.CounterValue, name, help, value)
	}
	count("cache_puts_total", "Chunk pieces that the arena took.", func(s *chunkstore.Stats) float64 { return float64(s.Puts) })
	count("cache_prefix_misses_total", "Chunk pieces refused because the arena lacks what they continue.", func(s *chunkstore.Stats) float64 { return float64(s.PrefixMisses) })
	count("cache_conflicts_total", "Puts and publications that contradict what the arena held.", func(s *chunkstore.Stats) float64 { return float64(s.Conflicts) })
	count("cache_publishes_total", "Lengths published.", func(s *chunkstore.Stats) float64 { return float64(s.Publishes) })
	gauge("cache_extents", "Extents held.", func(s *chunkstore.Stats) float64 { return float64(s.Extents.Used) })
	gauge("cache_extents_max", "Extents that the arena has room for.", func(s *chunkstore.Stats) float64 { return float64(s.Extents.Ways) })
	count("cache_extents_expired_total", "Extents evicted after their time.", func(s *chunkstore.Stats) float64 { return float64(s.Extents.Expired) })
	count("cache_extents_pushed_out_total", "Extents evicted before their time: the arena is too small.", func(s *chunkstore.Stats) float64 { return float64(s.Extents.Capacity) })
	gauge("leases", "Writers' leases known.", func(s *chunkstore.Stats) float64 { return float64(s.Leases) })
	count("leases_forgotten_total", "Leases forgotten for want of room.", func(s *chunkstore.Stats) float64 { return float64(s.Forgotten) })
	count("publishes_poisoned_total", "Publications refused as a newer writer holds the lease.", func(s *chunkstore.Stats) float64 { return float64(s.Poisoned) })
	gauge("cache_pages", "Length pages held.", func(s *chunkstore.Stats) float64 { return float64(s.Pages.Used) })
	gauge("cache_pages_max", "Length pages that the arena has room for.", func(s *chunkstore.Stats) float64 { return float64(s.Pages.Ways) })
	count("cache_pages_expired_total", "Length pages evicted after their time.", func(s *chunkstore.Stats) float64 { return float64(s.Pages.Expired) })
	count("cache_pages_pushed_out_total", "Length pages evicted before their time: the arena is too small.", func(s *chunkstore.Stats) float64 { return float64(s.Pages.Capacity) })
	gauge("cache_oldest_seconds", "Time since the last put of the extent that was put the longest ago.", func(s *chunkstore.Stats) float64 { return s.Extents.Oldest.Seconds() })
	count("cache_deltas_total", "Chunk pieces that the arena took and that continued what it held.", func(s *chunkstore.Stats) float64 { return float64(s.Deltas) })
	count("cache_duplicates_total", "Chunk pieces that the arena took and that brought nothing new.", func(s *chunkstore.Stats) float64 { return float64(s.Duplicates) })
	count("cache_refused_total", "Puts and publications refused as malformed.", func(s *chunkstore.Stats) float64 { return float64(s.Bad) })
	count("cache_stale_publishes_total", "Lengths published that were smaller than the one before.", func(s *chunkstore.Stats) float64 { return float64(s.Stale) })
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.descs {
		ch <- m.desc
	}
	ch <- c.durable
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	st := c.s.Stats()
	for _, m := range c.descs {
		if m.many != nil {
			m.many(st, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...) })
			continue
		}
		if m.each == nil {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(st))
			continue
		}
		for label, n := range m.each(st) {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(n), label)
		}
	}
	t := c.s.counters.durableTimes.Snapshot()
	ch <- prometheus.MustNewConstHistogram(c.durable, t.Count, t.Sum.Seconds(), t.Seconds())
}

// startMetrics registers the node's metrics, until Shutdown.
func (s *Server) startMetrics() error {
	if s.cfg.Registerer == nil {
		if s.cfg.HTTP == "" {
			return nil
		}
		s.cfg.Registerer = prometheus.NewRegistry()
	}
	c := newCollector(s)
	err := s.cfg.Registerer.Register(c)
	var there prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &there):
		// Another node of this process had the address and was not shut down.
		s.log.Warn("metrics of an earlier node are in the way", "node", s.cfg.Node)
		return nil
	case err != nil:
		return fmt.Errorf("metrics: %w", err)
	}
	s.closers.add("metrics", func() error { s.cfg.Registerer.Unregister(c); return nil })
	return nil
}
