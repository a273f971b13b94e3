package producer

import "github.com/prometheus/client_golang/prometheus"

// replicaCollector turns the Stats of a ReplicaCache into metrics when they are
// scraped.
type replicaCollector struct {
	c     *ReplicaCache
	reg   prometheus.Registerer
	whole []replicaMetric
	each  []nodeMetric
	state *prometheus.Desc
}

type replicaMetric struct {
	desc  *prometheus.Desc
	value func(*ReplicaStats) uint64
}

type nodeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*NodeStats) float64
}

// newReplicaCollector registers the metrics of c, if r is not nil. Those of a
// second ReplicaCache of the process are not counted.
func newReplicaCollector(r prometheus.Registerer, c *ReplicaCache) *replicaCollector {
	const prefix = "rmatail_replica_"
	m := &replicaCollector{c: c, state: prometheus.NewDesc(prefix+"nodes", "Nodes by how the writers reach them: local, connecting, live, suspended, probing (suspended, and tried again) or gone.", []string{"state"}, nil)}
	whole := func(name, help string, value func(*ReplicaStats) uint64) {
		m.whole = append(m.whole, replicaMetric{prometheus.NewDesc(prefix+name, help, nil, nil), value})
	}
	each := func(kind prometheus.ValueType, name, help string, value func(*NodeStats) float64) {
		m.each = append(m.each, nodeMetric{prometheus.NewDesc(prefix+name, help, []string{"node"}, nil), kind, value})
	}
	count := func(name, help string, value func(*NodeStats) uint64) {
		each(prometheus.CounterValue, name, help, func(s *NodeStats) float64 { return float64(value(s)) })
	}
	whole("degraded_puts_total", "Puts that fewer full replicas took than the quorum, as no more were alive.", func(s *ReplicaStats) uint64 { return s.DegradedPuts })
	whole("degraded_publishes_total", "Publications that fewer replicas took than the quorum, as no more were alive.", func(s *ReplicaStats) uint64 { return s.DegradedPublishes })
	whole("failed_puts_total", "Puts that no full replica took.", func(s *ReplicaStats) uint64 { return s.FailedPuts })
	whole("failed_publishes_total", "Publications that no replica took, or that were refused.", func(s *ReplicaStats) uint64 { return s.FailedPublishes })
	each(prometheus.GaugeValue, "up", "1 if the node is not suspended.", func(s *NodeStats) float64 {
		if s.State == nodeLive.String() || s.State == nodeLocal.String() {
			return 1
		}
		return 0
	})
	each(prometheus.GaugeValue, "queue_bytes", "Bytes that wait for the node or are on their way.", func(s *NodeStats) float64 { return float64(s.QueueBytes) })
	each(prometheus.GaugeValue, "missing_bytes", "Bytes that repair has to look at for the node.", func(s *NodeStats) float64 { return float64(s.MissingBytes) })
	count("puts_total", "Puts that the node took.", func(s *NodeStats) uint64 { return s.Puts })
	count("put_bytes_total", "Bytes of the puts that the node took.", func(s *NodeStats) uint64 { return s.PutBytes })
	count("resends_total", "Chunks sent from their start because the node lacked a prefix.", func(s *NodeStats) uint64 { return s.Resends })
	count("publishes_total", "Lengths that the node took.", func(s *NodeStats) uint64 { return s.Publishes })
	count("skipped_total", "Requests that were not sent: the node was suspended, or its queue full.", func(s *NodeStats) uint64 { return s.Skipped })
	count("failed_total", "Requests that the node did not answer in time, or refused.", func(s *NodeStats) uint64 { return s.Failed })
	count("suspensions_total", "Times that the node was suspended.", func(s *NodeStats) uint64 { return s.Suspensions })
	count("repaired_bytes_total", "Bytes that the node had missed and got later.", func(s *NodeStats) uint64 { return s.RepairedBytes })
	count("forgone_bytes_total", "Bytes that the node has missed for good: too old, or no longer in the store.", func(s *NodeStats) uint64 { return s.ForgoneBytes })
	if r != nil && r.Register(m) == nil {
		m.reg = r
	}
	return m
}

func (m *replicaCollector) unregister() {
	if m.reg != nil {
		m.reg.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *replicaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.whole {
		ch <- d.desc
	}
	for _, d := range m.each {
		ch <- d.desc
	}
	ch <- m.state
}

// Collect implements prometheus.Collector.
func (m *replicaCollector) Collect(ch chan<- prometheus.Metric) {
	s := m.c.Stats()
	for _, d := range m.whole {
		ch <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(d.value(&s)))
	}
	states := map[string]int{}
	for state := range nodeLocal + 1 {
		states[state.String()] = 0
	}
	for i := range s.Nodes {
		states[s.Nodes[i].State]++
		for _, d := range m.each {
			ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.value(&s.Nodes[i]), s.Nodes[i].Node)
		}
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, float64(n), state)
	}
}
