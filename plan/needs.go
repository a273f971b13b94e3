package plan

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// ErrNeeds is returned when needs contradict themselves.
var ErrNeeds = errors.New("plan")

// Needs say what is to be carried, and with what.
type Needs struct {
	Streams int `json:"streams"`
	Shards  int `json:"shards"` // of each stream
	// ShardMbps come into each shard; AppendBytes at once.
	ShardMbps   float64 `json:"shard_mbps"`
	AppendBytes int     `json:"append_bytes"`
	Consumers   int     `json:"consumers"`
	// Follows is how many neighbouring shards of each stream a consumer follows.
	Follows int           `json:"follows_of_each_stream"`
	Poll    time.Duration `json:"poll_ns"`
	Start   time.Duration `json:"start_ns"` // over which all consumers start

	LinkGbps       float64       `json:"link_gbps"` // of a node
	ReadsPerSecond float64       `json:"reads_per_second"`
	Use            float64       `json:"use"` // part of a card that may be used
	RTT            time.Duration `json:"rtt_ns"`
	Flush          time.Duration `json:"flush_ns"`
	Store          time.Duration `json:"store_ns"` // one question to the durable store

	// Full replicas of an extent, and replicas of a length page.
	Full             int           `json:"full_replicas"`
	MetadataReplicas int           `json:"metadata_replicas"`
	TTL              time.Duration `json:"ttl_ns"`
	// Fill is how full an arena's extents may be with what is not past its time.
	Fill float64 `json:"fill"`
	// Lost is how many data nodes, and metadata nodes, may be lost at a time.
	Lost int `json:"lost"`
	// DataNodes and MetadataNodes: 0: as many as are needed.
	DataNodes     int `json:"data_nodes"`
	MetadataNodes int `json:"metadata_nodes"`
	// DurableConcurrency of a consumer process, and when it asks the durable store.
	DurableConcurrency int           `json:"durable_concurrency"`
	DurableDelay       time.Duration `json:"durable_delay_ns"`
	// SecondSets is which part of the extents is in the second of its candidate sets:
	// none while an arena is less than a third full, half when it is full.
	SecondSets float64 `json:"second_sets"`
}

// WithDefaults fills in what is not set.
func (n Needs) WithDefaults() Needs {
	n.Streams = cmp.Or(n.Streams, 1)
	n.AppendBytes = cmp.Or(n.AppendBytes, 1000)
	n.Poll = cmp.Or(n.Poll, 100*time.Millisecond)
	n.Start = cmp.Or(n.Start, time.Second)
	n.LinkGbps = cmp.Or(n.LinkGbps, 25)
	n.ReadsPerSecond = cmp.Or(n.ReadsPerSecond, 5e6)
	n.Use = cmp.Or(n.Use, 0.6)
	n.RTT = cmp.Or(n.RTT, 100*time.Microsecond)
	n.Flush = cmp.Or(n.Flush, 5*time.Millisecond)
	n.Store = cmp.Or(n.Store, 10*time.Millisecond)
	n.Full = cmp.Or(n.Full, 3)
	n.MetadataReplicas = cmp.Or(n.MetadataReplicas, 3)
	n.TTL = cmp.Or(n.TTL, time.Minute)
	n.Fill = cmp.Or(n.Fill, 0.75)
	n.DurableConcurrency = cmp.Or(n.DurableConcurrency, 4)
	n.DurableDelay = cmp.Or(n.DurableDelay, time.Second)
	return n
}

// Validate is asked after the defaults are set. Errors match ErrNeeds.
func (n Needs) Validate() error {
	switch {
	case n.Streams < 1 || n.Shards < 1 || n.Consumers < 1 || n.Follows < 1 || n.Follows > n.Shards:
		return fmt.Errorf("%w: %d streams of %d shards, %d consumers of %d shards of each; want 1 or more, and no more than there are", ErrNeeds, n.Streams, n.Shards, n.Consumers, n.Follows)
	case n.ShardMbps <= 0 || n.AppendBytes < 1 || n.Poll <= 0:
		return fmt.Errorf("%w: %g Mb/s a shard in appends of %d bytes, poll %v; want more than nothing", ErrNeeds, n.ShardMbps, n.AppendBytes, n.Poll)
	case n.LinkGbps <= 0 || n.ReadsPerSecond <= 0 || n.Use <= 0 || n.Use > 1 || n.Fill <= 0 || n.Fill > 1:
		return fmt.Errorf("%w: link %g Gb/s, %g reads/s, used to %g, arena filled to %g; want more than nothing, and parts of 1", ErrNeeds, n.LinkGbps, n.ReadsPerSecond, n.Use, n.Fill)
	case n.RTT < 0 || n.Flush < 0 || n.Store <= 0 || n.Start <= 0 || n.TTL <= 0 || n.DurableDelay < 0 || n.DurableConcurrency < 1:
		return fmt.Errorf("%w: round trip %v, flush %v, store %v, start %v, time to live %v, durable delay %v, %d durable reads at once; want no negative ones", ErrNeeds, n.RTT, n.Flush, n.Store, n.Start, n.TTL, n.DurableDelay, n.DurableConcurrency)
	case n.Full < 1 || n.MetadataReplicas < 1 || n.Lost < 0 || n.DataNodes < 0 || n.MetadataNodes < 0 || n.SecondSets < 0 || n.SecondSets > 1:
		return fmt.Errorf("%w: %d and %d replicas, %d lost, %d data and %d metadata nodes, %g in second sets", ErrNeeds, n.Full, n.MetadataReplicas, n.Lost, n.DataNodes, n.MetadataNodes, n.SecondSets)
	case n.DataNodes > 0 && n.DataNodes <= n.Lost || n.MetadataNodes > 0 && n.MetadataNodes <= n.Lost:
		return fmt.Errorf("%w: %d lost of %d data and %d metadata nodes leaves none", ErrNeeds, n.Lost, n.DataNodes, n.MetadataNodes)
	}
	return nil
}

// shardRate is in bytes a second.
func (n Needs) shardRate() float64 { return n.ShardMbps * 1e6 / 8 }

// cycle is how long a writer's batch takes: flush, put, publication.
func (n Needs) cycle() time.Duration { return n.Flush + 2*n.RTT }

// Live is how many extents a cluster holds that have not outlived their time, each
// shard's begun one among them, without their replicas.
func Live(shards int, bytesPerSecond float64, ttl time.Duration) float64 {
	return float64(shards) * (bytesPerSecond*ttl.Seconds()/layout.ExtentSize + 1)
}
