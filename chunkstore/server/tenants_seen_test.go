package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/watch"
)

// TestRealTenantsAreSeen: what the page shows of streams in tenants' memories, which
// nobody but their tenants may read, is what the node itself knows: they are not missing.
// Metrics tell of each memory.
func TestRealTenantsAreSeen(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a := twoTenants(t, func(c *Config) { c.Registerer, c.HTTP = registry, "127.0.0.1:0" })
	t.Cleanup(a.lookAway)
	var f *watch.Frame
	eventually(t, "three shards, fine", func() bool {
		f = a.look(t.Context()).Frame.(*watch.Frame)
		fine := 0
		for _, s := range f.Shards {
			if s.State == cause.CacheMissing {
				t.Fatalf("%s: %v, %s", s.Name, s.State, s.Why)
			}
			if s.State == cause.Fine && s.Heartbeat != nil && s.Lag == 0 && s.Replicas[0].Error == "" {
				fine++
			}
		}
		return fine == 3
	})
	n := f.Nodes[0]
	if n.HitRate == nil || *n.HitRate < 0.99 {
		t.Errorf("hit rate %v: what is in other memories counts as missing", n.HitRate)
	}
	if len(n.Tenants) != 2 || n.Tenants[0].Name != "a" || n.Tenants[0].Used == 0 || n.Tenants[0].Ways == 0 || n.Tenants[1].Name != "b" {
		t.Errorf("memories of tenants: %+v", n.Tenants)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "rmatail_node_cache_extents" {
			continue
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%s", l.GetName(), l.GetValue()))
			}
			found[strings.Join(labels, ",")] = m.GetGauge().GetValue()
		}
	}
	node := "node=" + a.Addr().String() + ",tenant="
	if len(found) != 3 || found[node] == 0 || found[node+"a"] == 0 || found[node+"b"] == 0 {
		t.Errorf("extents by memory: %v", found)
	}
}
