package reader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rmatail/rmatail/chunkstore/cause"
)

// TestMetrics: two Clusters of one node on one Registerer are no panic, and the
// series, whose number is fixed but for one a node, go with the Cluster.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	series := func() (n int) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.Metric)
		}
		return n
	}
	cluster := func() *Cluster {
		c := bareCluster(t, &positionStore{})
		c.cfg.Registerer = registry
		c.register()
		return c
	}
	first, second := cluster(), cluster()
	first.count.failed(FromTCP, reasonDeadline)
	states := len(cause.States())
	if n, want := series(), 7*sources+reasons+9+4+3+2*(sources-1)+states+1; n != want {
		t.Errorf("%d series, want %d", n, want)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	second.Close()
	if series() == 0 {
		t.Error("the second Cluster took the first one's series away")
	}
	first.Close()
	if n := series(); n != 0 {
		t.Errorf("%d series after Close", n)
	}
	third := cluster()
	if third.metrics == nil {
		t.Error("not registered after the others have gone")
	}
	third.Close()
}

// gathered are the shards' metrics as text, from a collector of nothing else.
type shardsOnly struct {
	m      shardMetrics
	shards []ShardStats
	most   int
}

func (s *shardsOnly) Describe(ch chan<- *prometheus.Desc) { s.m.describe(ch) }

func (s *shardsOnly) Collect(ch chan<- prometheus.Metric) { s.m.collect(ch, s.shards, s.most) }

// TestShardMetricsAreBounded: the first shards have series of their own, the rest is
// one more; a shard that is there twice, as it was made again, is no error.
func TestShardMetricsAreBounded(t *testing.T) {
	only := &shardsOnly{m: newShardMetrics(func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("x_"+name, help, labels, nil)
	})}
	for i := range 100 {
		s := ShardStats{Shard: fmt.Sprintf("logs/%04d", i), Lag: 10, LagTime: time.Second, PublishedAge: time.Duration(i) * time.Second, Readers: 2}
		if s.State = cause.Fine; i >= 90 {
			s.State = cause.ConsumerSlow
		}
		only.shards = append(only.shards, s)
	}
	again := only.shards[1]
	again.State = cause.ProducerStopped
	only.shards = slices.Insert(only.shards, 2, again)
	registry := prometheus.NewRegistry()
	registry.MustRegister(only)
	for _, c := range []struct {
		most         int
		lags, states int
		others       float64 // bytes
		slow, stray  float64
	}{
		{most: 200, lags: 101, states: 101 * 8, others: 10, stray: 1},
		{most: 3, lags: 4, states: 4 * 8, others: 980, slow: 10, stray: 1},
		{most: -1, lags: 1, states: 8, others: 1010, slow: 10, stray: 1},
	} {
		only.most = c.most
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		n := map[string]int{}
		for _, f := range families {
			for _, m := range f.Metric {
				n[f.GetName()]++
				name := f.GetName()
				for _, l := range m.Label {
					name += " " + l.GetValue()
				}
				got[name] = m.GetGauge().GetValue()
			}
		}
		if n["x_shard_lag_bytes"] != c.lags || n["x_shard_state"] != c.states || n["x_shards"] != 8 {
			t.Errorf("with %d: %v", c.most, n)
		}
		if got["x_shard_lag_bytes others"] != c.others || got["x_shard_state others consumer_slow"] != c.slow || got["x_shard_state others producer_stopped"] != c.stray ||
			got["x_shards fine"] != 90 || got["x_shards consumer_slow"] != 10 || got["x_shard_publish_age_seconds others"] < 1 {
			t.Errorf("with %d: %v", c.most, got)
		}
	}
}
