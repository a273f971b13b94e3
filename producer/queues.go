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
	// pulse, if set, is what counts instead, of the Appender for which it is the most.
	pulse func(Pulse) float64
}

func newQueues() *queues {
	q := &queues{}
	q.mu.open = make(map[*Appender]struct{})
	add := func(name, help string, value func(*Stats) float64) {
		q.descs = append(q.descs, queueGauge{prometheus.NewDesc("rmatail_producer_"+name, help, nil, nil), value, nil})
	}
	most := func(name, help string, pulse func(Pulse) float64) {
		q.descs = append(q.descs, queueGauge{prometheus.NewDesc("rmatail_producer_"+name, help, nil, nil), nil, pulse})
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
	most("queue_seconds", "For how long something has waited for the sink without a break, in the Appender where that is the longest.", func(p Pulse) float64 { return p.Queued.Seconds() })
	most("sink_seconds", "Time of the durable append under way so far, or of the last one, in the Appender where that is the longest.", func(p Pulse) float64 { return p.Append.Seconds() })
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
	pulses := make([]Pulse, 0, len(q.mu.open))
	for a := range q.mu.open {
		s := a.Stats()
		sum.Merge(&s)
		pulses = append(pulses, a.Pulse())
	}
	for _, g := range q.descs {
		v := 0.0
		if g.pulse == nil {
			v = g.value(&sum)
		} else {
			for _, p := range pulses {
				v = max(v, g.pulse(p))
			}
		}
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v)
	}
}
