package main

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// balanced is what placement would give a cluster's nodes, computed over shards
// with extents extents each. Its keys are an interface.
type balanced struct {
	Shards  int `json:"shards"`
	Extents int `json:"extents"`
	// Busiest is the largest load of a full data node, as a multiple of what its weight
	// is worth among them.
	Busiest float64 `json:"busiest"`
	// Room is how many appended bytes the full replicas hold until one of them, Fullest,
	// begins to evict.
	Room    uint64 `json:"room"`
	Fullest string `json:"fullest"`
	shares  []float64
}

// extentsAShard of each shard are placed: enough for chance to even out.
const extentsAShard = 100

// evictFrom is how full an arena is when it begins to evict.
const evictFrom = 0.80

// balance places the extents of shards of streams that have 120 shards each.
func balance(v *cluster.View, settings []file.Node, shards int) balanced {
	b := balanced{Shards: shards, Extents: extentsAShard, shares: make([]float64, len(v.Nodes))}
	held := make([]int, len(v.Nodes))
	var r cluster.Replicas
	for i := range shards {
		h := layout.Shard{Stream: fmt.Sprintf("stream-%d", i/120), Number: uint32(i % 120)}.Hash(1)
		for e := range uint64(extentsAShard) {
			v.Extent(h, e, &r)
			for _, n := range r.All() {
				held[n]++
			}
		}
	}
	keys := float64(shards * extentsAShard)
	weights, replicas := 0.0, 0.0
	for i, n := range v.Nodes {
		b.shares[i] = float64(held[i]) / keys
		if full(n) {
			weights += float64(n.Weight)
			replicas += b.shares[i]
		}
	}
	for i, n := range v.Nodes {
		if !full(n) {
			continue
		}
		b.Busiest = max(b.Busiest, b.shares[i]/(replicas*float64(n.Weight)/weights))
		if room := uint64(capacity(settings[i]) * evictFrom / b.shares[i]); b.Fullest == "" || room < b.Room {
			b.Room, b.Fullest = room, n.Name
		}
	}
	return b
}

func full(n cluster.Node) bool { return n.Roles&cluster.Data != 0 && !n.Partial }

// capacity is how many bytes of extents fit into a node's arena.
func capacity(s file.Node) float64 {
	g, err := layout.GeometryFor(uint64(s.Arena))
	if err != nil {
		return 0
	}
	return float64(g.Extents()) * layout.ExtentSize
}
