package reader

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
	if n, want := series(), 4*sources+reasons+2+4+1+3; n != want {
		t.Errorf("%d series, want %d", n, want)
	}
	second.Close()
	if series() == 0 {
		t.Error("the second Cluster took the first one's series away")
	}
	first.Close()
	if n := series(); n != 0 {
		t.Errorf("%d series after Close", n)
	}
	if third := cluster(); third.metrics == nil {
		t.Error("not registered after the others have gone")
	}
}
