package reader

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cause"
)

// collector turns the counters into metrics when it is scraped. What names a shard is
// in shardMetrics.
type collector struct {
	c       *Cluster
	metrics []metric
	seconds *prometheus.Desc // of reads, by source
	shards  shardMetrics
}

// metric is one line of the table in newCollector.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// values yields a value for each combination of label values.
	values func(s *Stats, emit func(v float64, labels ...string))
}

func newCollector(c *Cluster) *collector {
	k := &collector{c: c}
	node := prometheus.Labels{"node": c.name}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rmatail_reader_"+name, help, labels, node)
	}
	count := func(name, help string, value func(*Stats) uint64) {
		k.metrics = append(k.metrics, metric{desc(name, help), prometheus.CounterValue,
			func(s *Stats, emit func(float64, ...string)) { emit(float64(value(s))) }})
	}
	gauge := func(name, help string, value func() float64) {
		k.metrics = append(k.metrics, metric{desc(name, help), prometheus.GaugeValue,
			func(_ *Stats, emit func(float64, ...string)) { emit(value()) }})
	}
	by := func(label, name, help string, values func(*Stats) map[string]uint64) {
		k.metrics = append(k.metrics, metric{desc(name, help, label), prometheus.CounterValue,
			func(s *Stats, emit func(float64, ...string)) {
				for l, v := range values(s) {
					emit(float64(v), l)
				}
			}})
	}
	by("source", "reads_total", "Data reads answered, by source.", func(s *Stats) map[string]uint64 { return s.Reads })
	by("source", "read_bytes_total", "Bytes of data reads and their descriptors, by source.", func(s *Stats) map[string]uint64 { return s.ReadBytes })
	by("source", "delivered_bytes_total", "Bytes handed to consumers, by source.", func(s *Stats) map[string]uint64 { return s.DeliveredBy })
	by("source", "transport_failures_total", "Reads that failed and rested their transport, by source.", func(s *Stats) map[string]uint64 { return s.Failures })
	by("source", "connects_total", "Connections made, by transport.", func(s *Stats) map[string]uint64 { return s.Connects })
	by("source", "dial_failures_total", "Connections that the node offers and that could not be made, by transport.", func(s *Stats) map[string]uint64 { return s.DialFailures })
	by("reason", "retries_total", "Reads that delivered nothing, by reason.", func(s *Stats) map[string]uint64 { return s.Retries })
	by("status", "qp_errors_total", "RDMA connections lost, by the status of the first read that failed, or another cause.", func(s *Stats) map[string]uint64 { return s.QPErrors })
	by("peer", "peer_reads_total", "Data reads answered, by node.", func(s *Stats) map[string]uint64 {
		m := make(map[string]uint64, len(s.Peers))
		for _, p := range s.Peers {
			m[p.Node] = p.Reads
		}
		return m
	})
	count("requests_total", "Reads of any kind asked for.", func(s *Stats) uint64 { return s.Requests })
	count("moved_bytes_total", "Bytes moved by reads of any kind.", func(s *Stats) uint64 { return s.Bytes })
	count("page_reads_total", "Length pages read: each tells the lengths of up to 128 shards.", func(s *Stats) uint64 { return s.PageReads })
	count("hedges_total", "Reads of a second replica because the first was slow.", func(s *Stats) uint64 { return s.Hedges })
	count("hedge_wins_total", "Hedges that the second replica has won.", func(s *Stats) uint64 { return s.HedgeWins })
	count("quorum_reads_total", "Reads of all full replicas at once.", func(s *Stats) uint64 { return s.QuorumReads })
	count("partial_misses_total", "Reads of partial replicas that lacked the bytes, which is normal.", func(s *Stats) uint64 { return s.PartialMisses })
	count("fills_total", "Extents that a node has read from the durable store for everybody, as this process missed them.", func(s *Stats) uint64 { return s.Fills })
	count("fill_failures_total", "Extents that a node was to fill and did not.", func(s *Stats) uint64 { return s.FillFailures })
	k.addGauges(desc, gauge)
	k.seconds = desc("read_seconds", "Time of reads by source, from request to answer: those that were waited for (of copies of shared memory one in 64).", "source")
	k.shards = newShardMetrics(desc)
	return k
}

// addGauges adds what is so at present.
func (k *collector) addGauges(desc func(name, help string, labels ...string) *prometheus.Desc, gauge func(name, help string, value func() float64)) {
	c := k.c
	gauge("poll_interval_seconds", "Time between two reads of the length pages at present.", func() float64 { return time.Duration(c.count.pollEvery.Load()).Seconds() })
	gauge("durable_reads_in_flight", "Reads of the durable store that wait or are under way.", func() float64 { return float64(c.count.durables.Load()) })
	gauge("durable_reads_in_flight_max", "Reads of the durable store that may be under way at once.", func() float64 { return float64(c.cfg.DurableConcurrency) })
	k.metrics = append(k.metrics,
		metric{desc("durable_held_seconds_total", "Time for which limits have held reads of the durable store back, summed over the reads."), prometheus.CounterValue,
			func(_ *Stats, emit func(float64, ...string)) {
				emit(time.Duration(c.count.durableHeld.Load()).Seconds())
			}},
		metric{desc("peers", "Nodes by state: up, resting (reads failed a moment ago), away.", "state"), prometheus.GaugeValue, peersByState},
		metric{desc("connections", "Memory connections by transport and state: up, resting (reads failed a moment ago).", "source", "state"), prometheus.GaugeValue,
			func(_ *Stats, emit func(float64, ...string)) { c.connections(emit) }},
		metric{desc("in_flight_bytes", "Bytes on their way over a network device, by what for: wanted, ahead.", "device", "use"), prometheus.GaugeValue,
			func(_ *Stats, emit func(float64, ...string)) {
				c.budgets(func(device, use string, b *budget) { emit(float64(b.taken()), device, use) })
			}},
		metric{desc("in_flight_bytes_max", "Bytes that may be on their way over a network device, by what for.", "device", "use"), prometheus.GaugeValue,
			func(_ *Stats, emit func(float64, ...string)) {
				c.budgets(func(device, use string, b *budget) { emit(float64(b.limit), device, use) })
			}})
}

func peersByState(s *Stats, emit func(float64, ...string)) {
	states := map[string]int{peerUp: 0, peerResting: 0, peerAway: 0}
	for _, p := range s.Peers {
		states[p.State]++
	}
	for state, n := range states {
		emit(float64(n), state)
	}
}

// connections counts the memory connections.
func (c *Cluster) connections(emit func(float64, ...string)) {
	var up, resting [sources]int
	now := time.Now()
	if ro := c.roster.Load(); ro != nil {
		for _, p := range ro.peers {
			for _, path := range *p.live.Load() {
				if path.up(now) {
					up[path.source]++
				} else {
					resting[path.source]++
				}
			}
		}
	}
	for s := FromSHM; s < FromDurable; s++ {
		emit(float64(up[s]), s.String(), peerUp)
		emit(float64(resting[s]), s.String(), peerResting)
	}
}

// budgets yields the byte budgets of the network devices that were used.
func (c *Cluster) budgets(each func(device, use string, b *budget)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for device, n := range c.mu.nics {
		each(device, "wanted", &n.wanted)
		each(device, "ahead", &n.ahead)
	}
}

// taken is how many bytes are on their way.
func (b *budget) taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Describe implements prometheus.Collector.
func (k *collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range k.metrics {
		ch <- k.metrics[i].desc
	}
	ch <- k.seconds
	k.shards.describe(ch)
}

// Collect implements prometheus.Collector.
func (k *collector) Collect(ch chan<- prometheus.Metric) {
	s := k.c.Stats()
	for i := range k.metrics {
		m := &k.metrics[i]
		m.values(&s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...) })
	}
	for i := range k.c.count.times {
		t := k.c.count.times[i].Snapshot()
		ch <- prometheus.MustNewConstHistogram(k.seconds, t.Count, t.Sum.Seconds(), t.Seconds(), Source(i).String())
	}
	k.shards.collect(ch, k.c.Shards(), k.c.cfg.ShardMetrics)
}

// shardMetrics are those that name a shard.
type shardMetrics struct {
	state, states, lagBytes, lagSeconds, publishAge, readers *prometheus.Desc
}

// otherShards stands for the shards that have no series of their own.
const otherShards = "others"

func newShardMetrics(desc func(name, help string, labels ...string) *prometheus.Desc) shardMetrics {
	const bounded = " Of so many shards as Config.ShardMetrics says; "
	return shardMetrics{
		state:      desc("shard_state", "1 for the state that a shard is in, by what this process knows."+bounded+"others is how many of the rest are.", "shard", "state"),
		states:     desc("shards", "Followed shards by state.", "state"),
		lagBytes:   desc("shard_lag_bytes", "Bytes that exist and are not delivered, of the Reader furthest behind."+bounded+"others is the sum of the rest.", "shard"),
		lagSeconds: desc("shard_lag_seconds", "How long the oldest of them has waited."+bounded+"others is the most of the rest.", "shard"),
		publishAge: desc("shard_publish_age_seconds", "Time since the published length has moved."+bounded+"others is the most of the rest.", "shard"),
		readers:    desc("shard_readers", "Readers of a shard."+bounded+"others is the sum of the rest.", "shard"),
	}
}

func (m *shardMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.state, m.states, m.lagBytes, m.lagSeconds, m.publishAge, m.readers} {
		ch <- d
	}
}

// collect gives each of the first shards series of its own, and sums the rest.
func (m *shardMetrics) collect(ch chan<- prometheus.Metric, shards []ShardStats, most int) {
	emit := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	all, rest := map[cause.State]int{}, map[cause.State]int{}
	others := ShardStats{Shard: otherShards, PublishedAge: -1}
	named, last := 0, ""
	for i := range shards {
		s := &shards[i]
		all[s.State]++
		if s.Shard != last && named < most { // a shard that was made again is there twice for a moment
			named, last = named+1, s.Shard
			for _, state := range cause.States() {
				v := 0.0
				if state == s.State {
					v = 1
				}
				emit(m.state, v, s.Shard, state.String())
			}
			m.numbers(emit, s)
			continue
		}
		rest[s.State]++
		others.Lag += s.Lag
		others.Readers += s.Readers
		others.LagTime, others.PublishedAge = max(others.LagTime, s.LagTime), max(others.PublishedAge, s.PublishedAge)
	}
	for _, state := range cause.States() {
		emit(m.states, float64(all[state]), state.String())
		if named < len(shards) {
			emit(m.state, float64(rest[state]), otherShards, state.String())
		}
	}
	if named < len(shards) {
		m.numbers(emit, &others)
	}
}

func (m *shardMetrics) numbers(emit func(d *prometheus.Desc, v float64, labels ...string), s *ShardStats) {
	emit(m.lagBytes, float64(s.Lag), s.Shard)
	emit(m.lagSeconds, s.LagTime.Seconds(), s.Shard)
	emit(m.readers, float64(s.Readers), s.Shard)
	if s.PublishedAge >= 0 {
		emit(m.publishAge, s.PublishedAge.Seconds(), s.Shard)
	}
}
