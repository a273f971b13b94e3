package sink

import "testing"

// TestRealAppenderHasTheseDefaults holds what the row says about the queue and
// the batches of producer.Appender to what it does when it is full.
func TestRealAppenderHasTheseDefaults(t *testing.T) {
	r := newRun(t.Context(), simulate(exactly), 20_000, 100)
	defer r.cancel(nil)
	p, err := newAppender(r)
	if err != nil {
		t.Fatal(err)
	}
	taken := r.produce(p)
	p.drain()
	if taken != 20_000 || r.ctx.Err() != nil {
		t.Fatalf("%d records taken, %v", taken, r.ctx.Err())
	}
	deepest := 0 // the loop is faster than the sink: some queue fills up
	for i, s := range p.(*appender).shards {
		st := s.Stats()
		deepest = max(deepest, st.QueueRecordsMax)
		if st.BatchRecordsMax != appenderBatch || st.Records != 5000 {
			t.Errorf("shard %d: batches of up to %d, %d records; want %d and 5,000", i, st.BatchRecordsMax, st.Records, appenderBatch)
		}
	}
	if deepest != appenderRoom {
		t.Errorf("queues of up to %d, want %d", deepest, appenderRoom)
	}
}
