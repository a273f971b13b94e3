package scale

import (
	"math"
	"testing"
	"time"

	"github.com/rmatail/rmatail/plan"
)

const (
	// By how much a plan's bytes and requests may differ from the model's. Requests
	// differ most where shards are appended to about as often as they are polled:
	// whether a poll finds news is chance then.
	bytesTolerance    = 0.10
	requestsTolerance = 0.08
)

// TestPlanAgreesWithTheModel: what the formulas of package plan say is what consumers
// do whose every decision is the reader's own.
func TestPlanAgreesWithTheModel(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Experiment)
	}{
		{"as published", func(*Experiment) {}},
		{"polls of 10 ms", func(e *Experiment) { e.Poll, e.For = 10*time.Millisecond, time.Second }},
		{"polls of 500 ms", func(e *Experiment) { e.Poll, e.For, e.Consumers = 500*time.Millisecond, 5*time.Second, 100 }},
		{"slow shards", func(e *Experiment) { e.ShardMbps = 0.1 }},
		{"fast shards, many followed", func(e *Experiment) { e.ShardMbps, e.Follows, e.Consumers = 8, 20, 20 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := small()
			c.change(&e)
			net := DefaultNetwork()
			r, err := Simulate(e, net)
			if err != nil {
				t.Fatal(err)
			}
			// A shard's length moves once a batch.
			batch := max(int(e.shardRate()*(net.Flush+2*net.RTT).Seconds()), e.RecordBytes)
			p, err := plan.Of(plan.Needs{Streams: e.Streams, Shards: e.Shards, ShardMbps: e.ShardMbps, AppendBytes: batch, Consumers: e.Consumers, Follows: e.Follows,
				Poll: e.Poll, LinkGbps: net.LinkGbps, ReadsPerSecond: net.ReadsPerSecond, RTT: net.RTT, Flush: net.Flush, Store: net.Store,
				DataNodes: e.DataNodes, MetadataNodes: e.MetadataNodes, SecondSets: r.SecondSets})
			if err != nil {
				t.Fatal(err)
			}
			compare := func(what string, planned, simulated, tolerance float64) {
				t.Logf("report: %s: %s: planned %.4g, simulated %.4g", c.name, what, planned, simulated)
				if math.Abs(planned-simulated) > tolerance*simulated {
					t.Errorf("%s: planned %.4g, simulated %.4g", what, planned, simulated)
				}
			}
			compare("requests/s", p.Requests, r.Requests, requestsTolerance)
			compare("page reads/s", p.PageReads, r.Metadata, requestsTolerance)
			compare("moved by useful", p.MovedGbps/p.UsefulGbps, r.MovedPerUseful, 0.005)
			compare("beside useful bytes, plus 1 %", p.MovedGbps/p.UsefulGbps-1+0.01, r.MovedPerUseful-1+0.01, bytesTolerance)
		})
	}
}
