package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cause"
)

// limit is how far one of the node's limits is used up.
type limit struct {
	name               string
	used, max, waiting int
}

// limits are those that clients can wait for, or be refused by.
func (s *Server) limits() []limit {
	l := &s.cfg.Limits
	appendUsed, appendWaiting := s.appendBytes.state(l.AppendBytes)
	durableUsed, durableWaiting := s.durableBytes.state(l.DurableBytes)
	writers, _ := s.writers.Taken()
	open := 0
	if s.appenders != nil {
		open = s.appenders.count()
	}
	return []limit{
		{"connections", int(s.counters.connections.Load()), l.Connections, 0},
		{"append_bytes", appendUsed, l.AppendBytes, appendWaiting},
		{"durable_bytes", durableUsed, l.DurableBytes, durableWaiting},
		{"durable_reads", len(s.disk), l.DurableReads, int(s.counters.durableWaiting.Load())},
		{"appenders", open, l.Appenders, 0},
		{"writers", writers, l.Writers, 0},
	}
}

// addLimits adds how far the node's limits are used up.
func (c *collector) addLimits(node prometheus.Labels) {
	each := func(value func(limit) int) func(Stats, func(float64, ...string)) {
		return func(_ Stats, emit func(float64, ...string)) {
			for _, l := range c.s.limits() {
				emit(float64(value(l)), l.name)
			}
		}
	}
	by := []string{"limit"}
	c.many(node, prometheus.GaugeValue, "limit_used", "What of a limit is used at present, in its unit: bytes or a number.", by, each(func(l limit) int { return l.used }))
	c.many(node, prometheus.GaugeValue, "limit_max", "What a limit allows.", by, each(func(l limit) int { return l.max }))
	c.many(node, prometheus.GaugeValue, "limit_waiting", "Requests that wait because a limit is used up.", by, each(func(l limit) int { return l.waiting }))
	c.many(node, prometheus.GaugeValue, "connections_by_state", "Connections by state: handshake (not yet greeted), open.", []string{"state"},
		func(st Stats, emit func(float64, ...string)) {
			open := min(c.s.counters.greeted.Load(), int64(st.Connections))
			emit(float64(int64(st.Connections)-open), "handshake")
			emit(float64(open), "open")
		})
}

// addExport adds how the arena is exported over RDMA; all zero if it is not.
func (c *collector) addExport(node prometheus.Labels) {
	c.many(node, prometheus.GaugeValue, "rdma_devices", "Devices over which the arena is exported.", nil,
		func(_ Stats, emit func(float64, ...string)) { emit(float64(c.s.exported().Devices)) })
	c.many(node, prometheus.GaugeValue, "rdma_memory_regions", "Registrations of the arena.", nil,
		func(_ Stats, emit func(float64, ...string)) { emit(float64(c.s.exported().MRs)) })
	c.many(node, prometheus.CounterValue, "rdma_accepted_total", "Offers of RDMA connections that were accepted.", nil,
		func(_ Stats, emit func(float64, ...string)) { emit(float64(c.s.exported().Accepted)) })
}

// addShards adds what names a shard: of as many as Config.ShardMetrics says.
func (c *collector) addShards(node prometheus.Labels) {
	const bounded = " Of so many shards as Config.ShardMetrics says; "
	c.many(node, prometheus.GaugeValue, "shards", "Shards that are published here, by state.", []string{"state"},
		func(st Stats, emit func(float64, ...string)) {
			for _, state := range cause.States() {
				emit(float64(st.ShardStates[state]), state.String())
			}
		})
	c.many(node, prometheus.GaugeValue, "shard_state", "1 for the state that a shard is in, by what this node knows."+bounded+"others is how many of the rest are.", []string{"shard", "state"}, shardStates)
	number := func(name, help string, value func(*ShardStats) float64) {
		c.many(node, prometheus.GaugeValue, name, help+bounded+"the rest has none.", []string{"shard"}, func(st Stats, emit func(float64, ...string)) {
			for i := range st.Shards {
				emit(value(&st.Shards[i]), st.Shards[i].Shard)
			}
		})
	}
	number("shard_publish_age_seconds", "Time since the published length has moved.", func(s *ShardStats) float64 { return s.PublishAge })
	number("shard_heartbeat_age_seconds", "Time since the producer's heartbeat has moved.", func(s *ShardStats) float64 { return s.HeartbeatAge })
	number("shard_published_bytes", "Published length.", func(s *ShardStats) float64 { return float64(s.Published) })
}

// otherShards stands for the shards that have no series of their own.
const otherShards = "others"

func shardStates(st Stats, emit func(float64, ...string)) {
	rest := map[cause.State]int{}
	more := 0
	for state, n := range st.ShardStates {
		rest[state], more = n, more+n
	}
	for i := range st.Shards {
		s := &st.Shards[i]
		for _, state := range cause.States() {
			v := 0.0
			if state == s.State {
				v = 1
			}
			emit(v, s.Shard, state.String())
		}
		rest[s.State]--
	}
	if more == len(st.Shards) {
		return
	}
	for _, state := range cause.States() {
		emit(float64(rest[state]), otherShards, state.String())
	}
}
