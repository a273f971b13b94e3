package producer

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Reasons for which the cache was not brought up to date. Refusals by a node
// that answered have its status as the reason.
const (
	reasonSuspended   = "suspended"   // no replica is alive
	reasonQueueFull   = "queue_full"  // the replicas are too slow
	reasonBlind       = "blind"       // the start of the tail chunk is unknown
	reasonDeadline    = "deadline"    // no answer in time
	reasonUnreachable = "unreachable" // no connection
)

func reasonOf(err error) string {
	var answer *wire.Error
	switch {
	case errors.Is(err, errSuspended):
		return reasonSuspended
	case errors.Is(err, errNodeQueue):
		return reasonQueueFull
	case errors.As(err, &answer):
		return strings.ReplaceAll(answer.Status.String(), " ", "_")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return reasonDeadline
	}
	return reasonUnreachable
}

// metrics are shared by all Appenders of a Registerer: no label names a shard.
type metrics struct {
	appends, appendBytes, appendErrors prometheus.Counter
	blocked                            prometheus.Counter
	drops                              *prometheus.CounterVec
	batches, batchBytes                prometheus.Histogram
	queues                             *queues // nil without a Registerer
	puts, putBytes, holes              prometheus.Counter
	publishes, leaseFailures           prometheus.Counter
	skips                              *prometheus.CounterVec
	appendSeconds                      prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	count := func(name, help string) prometheus.Counter {
		return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "rmatail_producer_" + name, Help: help}))
	}
	m := &metrics{
		appends:       count("appends_total", "Records appended to the durable store."),
		appendBytes:   count("append_bytes_total", "Bytes appended to the durable store."),
		appendErrors:  count("append_errors_total", "Batches that the durable store refused."),
		puts:          count("cache_puts_total", "Chunk pieces that the cache took."),
		putBytes:      count("cache_put_bytes_total", "Bytes of the chunk pieces that the cache took."),
		holes:         count("cache_holes_total", "Complete chunks that the cache did not get; consumers read them from the durable store."),
		publishes:     count("publishes_total", "Lengths published."),
		leaseFailures: count("lease_failures_total", "Times that the lease of a shard could not be had; the appender goes on without."),
		skips: register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rmatail_producer_cache_skips_total", Help: "Times that the cache was not brought up to date, by reason.",
		}, []string{"reason"})),
		appendSeconds: register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rmatail_producer_append_seconds", Help: "Time of one durable append of a batch, waiting in the queue excluded.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 2, 22),
		})),
		batches: register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rmatail_producer_batch_records", Help: "Records of a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		})),
		batchBytes: register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rmatail_producer_batch_bytes", Help: "Bytes of a batch.", Buckets: prometheus.ExponentialBuckets(64, 4, 9),
		})),
		blocked: count("blocked_total", "Records that waited for room in the queue."),
		drops: register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rmatail_producer_dropped_total", Help: "Records dropped because the queue was full, by policy.",
		}, []string{"policy"})),
	}
	if r != nil {
		m.queues = register(r, newQueues())
	}
	return m
}

func (m *metrics) skip(reason string) { m.skips.WithLabelValues(reason).Inc() }

// register registers a collector, or returns the equal one that is there: a
// second Appender must neither panic nor count into the void.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	var there prometheus.AlreadyRegisteredError
	if err := r.Register(c); errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(C); ok {
			return old
		}
	}
	return c
}
