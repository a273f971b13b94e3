package reader

import "github.com/prometheus/client_golang/prometheus"

// collector turns the counters into metrics when it is scraped.
type collector struct {
	c                                                        *Cluster
	reads, delivered, failures, connects, retries, rqs, byts *prometheus.Desc
	hedges, wins, quorums, partial, peerReads, peers         *prometheus.Desc
}

func newCollector(c *Cluster) *collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rmatail_reader_"+name, help, labels, prometheus.Labels{"node": c.name})
	}
	return &collector{c: c,
		reads:     d("reads_total", "Data reads answered, by source.", "source"),
		delivered: d("delivered_bytes_total", "Bytes handed to consumers, by source.", "source"),
		failures:  d("transport_failures_total", "Reads that failed and rested their transport, by source.", "source"),
		connects:  d("connects_total", "Connections made, by transport.", "source"),
		retries:   d("retries_total", "Reads that delivered nothing, by reason.", "reason"),
		rqs:       d("requests_total", "Reads of any kind asked for."),
		byts:      d("moved_bytes_total", "Bytes moved by reads of any kind."),
		hedges:    d("hedges_total", "Reads of a second replica because the first was slow."),
		wins:      d("hedge_wins_total", "Hedges that the second replica has won."),
		quorums:   d("quorum_reads_total", "Reads of all full replicas at once."),
		partial:   d("partial_misses_total", "Reads of partial replicas that lacked the bytes, which is normal."),
		peerReads: d("peer_reads_total", "Data reads answered, by node.", "peer"),
		peers:     d("peers", "Nodes by state: up, resting (reads failed a moment ago), away.", "state"),
	}
}

func (k *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(k, ch) }

func (k *collector) Collect(ch chan<- prometheus.Metric) {
	s := k.c.Stats()
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
	emit(k.hedges, s.Hedges)
	emit(k.wins, s.HedgeWins)
	emit(k.quorums, s.QuorumReads)
	emit(k.partial, s.PartialMisses)
	states := map[string]int{peerUp: 0, peerResting: 0, peerAway: 0}
	for _, p := range s.Peers {
		emit(k.peerReads, p.Reads, p.Node)
		states[p.State]++
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(k.peers, prometheus.GaugeValue, float64(n), state)
	}
}
