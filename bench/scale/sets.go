package scale

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/plan"
)

const (
	// arenaBytes are those of the published replicas: 8 GB.
	arenaBytes = 8 << 30
	// modelArena is an arena that is filled as much, and small.
	modelArena = 64 << 20
	// modelLives is for how many times to live it is filled.
	modelLives = 4
)

// liveShare is which part of a data node's extents has not outlived its time.
func (e Experiment) liveShare(view *cluster.View) float64 {
	extents := plan.Live(e.Streams*e.Shards, e.shardRate(), view.TTL)
	g, err := layout.GeometryFor(arenaBytes)
	if err != nil {
		return 1
	}
	return min(extents*float64(view.Full)/float64(e.DataNodes)/float64(g.Extents()), 1)
}

// secondShare returns which part of the extents a node has in the second of their two
// candidate sets: of a real arena that is filled as much as those of the experiment.
func secondShare(live float64, ttl time.Duration) (float64, error) {
	now := began
	a, err := chunkstore.New(chunkstore.Config{Bytes: modelArena, TTL: ttl, Clock: func() time.Time { return now }})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	g := a.Geometry()
	perLife := max(int(live*float64(g.Extents())), 1)
	data := []byte{1}
	second, all := 0, 0
	for i := range modelLives * perLife {
		now = now.Add(ttl / time.Duration(perLife))
		h := layout.Shard{Stream: "sets", Number: uint32(i % 64)}.Hash(incarnation)
		extent := uint64(i / 64)
		chunk := extent * layout.ChunksPerExtent
		if err := a.Put(layout.Put{Shard: h, Chunk: chunk, CRC: layout.ExtendCRC(layout.SeedCRC(h, chunk), data), Data: data}); err != nil {
			return 0, err
		}
		if i < (modelLives-1)*perLife {
			continue
		}
		all++
		set := g.ExtentSetsOf(h, extent)[1]
		if _, _, ok := layout.FindIdentity(a.Bytes()[g.ExtentSet(set):][:layout.SetSize], h, extent); ok {
			second++
		}
	}
	return float64(second) / float64(all), nil
}
