package scale

import (
	"io"
	"testing"
	"time"
)

// small is a tenth of the first experiment.
func small() Experiment {
	e := Experiments(100)[0]
	e.Consumers, e.DataNodes, e.Warm, e.For = 200, 5, 2*time.Second, 2*time.Second
	return e
}

// TestModelDelivers: consumers get what comes in, once, in time, and the nodes share
// the work.
func TestModelDelivers(t *testing.T) {
	e := small()
	r, err := Simulate(e, DefaultNetwork())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("report: scale model, %d consumers: %.4f bytes moved by useful byte, %.1f requests/s a consumer, p50 %v, p99 %v, %d events in %v",
		e.Consumers, r.MovedPerUseful, r.Requests/float64(e.Consumers), r.P50, r.P99, r.Events, r.Took)
	if err := (&Result{Rows: []Row{r}}).WritePNG(io.Discard); err != nil {
		t.Error(err)
	}
	useful := float64(e.Consumers*e.Follows*e.Streams) * e.ShardMbps / 1e3
	if r.UsefulGbps < 0.97*useful || r.UsefulGbps > 1.03*useful {
		t.Errorf("%.4f Gb/s delivered, %.4f come in for them", r.UsefulGbps, useful)
	}
	if least := e.Poll/2 - e.Poll/8; r.P50 < least || r.P99 > 2*e.Poll {
		t.Errorf("p50 %v, p99 %v with polls of %v", r.P50, r.P99, e.Poll)
	}
	if r.StoreReads > 0 || r.Hedges > 0 {
		t.Errorf("%.0f durable reads, %.1f hedges/s with nothing lost", r.StoreReads, r.Hedges)
	}
	polls := float64(e.Consumers*e.Streams) / e.Poll.Seconds()
	if r.Metadata < polls || r.Metadata > 1.3*polls {
		t.Errorf("%.0f page reads/s, want one a page and poll, %.0f/s, and a second opinion now and then", r.Metadata, polls)
	}
	if r.Data.MaxShare > 1.5 {
		t.Errorf("the busiest data node has %.2f times the mean", r.Data.MaxShare)
	}
}

// TestModelSurvivesLosses: with one or two of three replicas silent everything is
// delivered without the durable store.
func TestModelSurvivesLosses(t *testing.T) {
	for lost := 1; lost <= 2; lost++ {
		e := small()
		e.Lost, e.LostAt, e.For = lost, 500*time.Millisecond, 4*time.Second
		r, err := Simulate(e, DefaultNetwork())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("report: %d of %d data nodes lost: p99 %v, longest %v, %.1f hedges/s, %.0f durable reads", lost, e.DataNodes, r.P99, r.Max, r.Hedges, r.StoreReads)
		useful := float64(e.Consumers*e.Follows*e.Streams) * e.ShardMbps / 1e3
		if r.UsefulGbps < 0.95*useful || r.StoreReads > 0 || r.Hedges == 0 {
			t.Errorf("%d lost: %.4f of %.4f Gb/s, %.0f durable reads, %.1f hedges/s", lost, r.UsefulGbps, useful, r.StoreReads, r.Hedges)
		}
	}
}

// TestModelFallsBack: with all replicas of some extents silent the durable store is asked.
func TestModelFallsBack(t *testing.T) {
	e := small()
	e.Lost, e.DataNodes, e.LostAt, e.For = 4, 5, 500*time.Millisecond, 5*time.Second
	r, err := Simulate(e, DefaultNetwork())
	if err != nil {
		t.Fatal(err)
	}
	if r.StoreReads == 0 {
		t.Error("four of five nodes are silent, and the durable store is not read")
	}
}
