package producer

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// dropNewest refuses a record. It unlocks mu.
func (q *queue) dropNewest(now time.Time) error {
	q.mu.gauge.dropped[DropNewest]++
	report := q.mu.gauge.report(1, now)
	q.mu.Unlock()
	q.dropped(DropNewest, 1, report)
	return q.full
}

// dropOldest drops what has waited longest until the record fits. It unlocks mu.
func (q *queue) dropOldest(off uint64, p []byte, now time.Time) Ack {
	n := 0
	for !q.fits(len(p)) {
		b := q.unqueue()
		n += b.n
		b.resolve(layout.Shard{}, 0, q.full)
		q.recycle(b)
	}
	q.mu.gauge.dropped[DropOldest] += uint64(n)
	report := q.mu.gauge.report(n, now)
	k := q.add(off, p, now)
	q.mu.Unlock()
	q.dropped(DropOldest, n, report)
	return k
}

// dropped counts n drops, and logs as many as report says.
func (q *queue) dropped(p Policy, n, report int) {
	if n > 0 {
		q.metrics.drops.WithLabelValues(p.String()).Add(float64(n))
	}
	if report > 0 {
		q.log.Warn("records dropped: the queue was full", "shard", q.name, "records", report, "policy", p,
			"queue_records", q.limits.QueueRecords, "queue_bytes", q.limits.QueueBytes)
	}
}
