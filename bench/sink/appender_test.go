package sink

import "testing"

// TestRealAppenderHasTheseDefaults holds what the row says about the queue and
// the batches of producer.Appender to what it does when it is full.
func TestRealAppenderHasTheseDefaults(t *testing.T) {
	all, err := simulate(Exact)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), all, 20_000, 100)
	defer r.cancel(nil)
	for _, c := range all {
		defer c.close()
	}
	p, err := newAppender(r)
	if err != nil {
		t.Fatal(err)
	}
	taken := r.produce(p)
	p.drain()
	if taken != 20_000 || r.ctx.Err() != nil {
		t.Fatalf("%d records taken, %v", taken, r.ctx.Err())
	}
	// The loop is faster than the sink: the queue fills up.
	if s := p.(*appender).to.Stats(); s.BatchRecordsMax != appenderBatch || s.Records != 20_000 || s.QueueRecordsMax != appenderRoom {
		t.Errorf("batches of up to %d, %d records, queue of up to %d; want %d, 20,000 and %d", s.BatchRecordsMax, s.Records, s.QueueRecordsMax, appenderBatch, appenderRoom)
	}
}
