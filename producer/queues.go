package producer

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// queues turns the Stats of the open Appenders of one Registerer into gauges when
// they are scraped: a record costs them nothing.
type queues struct {
	descs []queueGauge
	mu    struct {
		sync.Mutex
		open map[*Appender]struct{}
	}
}

type queueGauge struct {
	desc  *prometheus.Desc
	value func(*Stats) float64
}

func newQueues() *queues {
	q := &queues{}
	q.mu.open = make(map[*Appender]struct{})
	add := func(name, help string, value func(*Stats) float64) {
		q.descs = append(q.descs, queueGauge{prometheus.NewDesc("rmatail_producer_"+name, help, nil, nil), value})
	}
	add("open", "Appenders that are open.", func(s *Stats) float64 { return float64(len(q.mu.open)) })
	add("queue_records", "Records that wait for the sink.", func(s *Stats) float64 { return float64(s.QueueRecords) })
	add("queue_bytes", "Bytes that wait for the sink.", func(s *Stats) float64 { return float64(s.QueueBytes) })
	add("queue_records_max", "Most records that have waited, summed over the open Appenders.", func(s *Stats) float64 { return float64(s.QueueRecordsMax) })
	add("queue_bytes_max", "Most bytes that have waited, summed over the open Appenders.", func(s *Stats) float64 { return float64(s.QueueBytesMax) })
	add("arrivals_peak", "Arrivals per second in the fullest 100 ms, summed over the open Appenders.", func(s *Stats) float64 { return s.ArrivalsPeak })
	add("arrivals_mean", "Arrivals per second from the first to the last, summed over the open Appenders.", func(s *Stats) float64 { return s.ArrivalsMean })
	add("sink_p50_seconds", "Median time of a durable append.", func(s *Stats) float64 { return s.SinkP50.Seconds() })
	add("sink_p99_seconds", "99th percentile of the time of a durable append.", func(s *Stats) float64 { return s.SinkP99.Seconds() })
	add("sink_p99_by_p50_ratio", "99th percentile of the time of a durable append by its median: above 5 the sink pauses.", (*Stats).sinkSpread)
	add("drain_seconds_max", "Longest time that a queue was never empty.", func(s *Stats) float64 { return s.DrainMax.Seconds() })
	return q
}

func (m *metrics) open(a *Appender) {
	if m.queues != nil {
		m.queues.mu.Lock()
		defer m.queues.mu.Unlock()
		m.queues.mu.open[a] = struct{}{}
	}
}

func (m *metrics) closed(a *Appender) {
	if m.queues != nil {
		m.queues.mu.Lock()
		defer m.queues.mu.Unlock()
		delete(m.queues.mu.open, a)
	}
}

// Describe implements prometheus.Collector.
func (q *queues) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range q.descs {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (q *queues) Collect(ch chan<- prometheus.Metric) {
	var sum Stats
	q.mu.Lock()
	defer q.mu.Unlock()
	for a := range q.mu.open {
		s := a.Stats()
		sum.Merge(&s)
	}
	for _, g := range q.descs {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&sum))
	}
}
