package scale

import (
	"fmt"
	"strings"
	"time"
)

// Network is what nodes and consumers are connected by. All of it is assumed.
type Network struct {
	LinkGbps         float64       `json:"link_gbps"`          // of a node
	ConsumerLinkGbps float64       `json:"consumer_link_gbps"` // of a consumer
	ReadsPerSecond   float64       `json:"reads_per_second"`   // that a node's NIC serves
	RTT              time.Duration `json:"rtt_ns"`
	Flush            time.Duration `json:"flush_ns"` // of a batch to the durable store
	Store            time.Duration `json:"store_ns"` // one question to the durable store
}

// DefaultNetwork is a plain one: 25 Gb/s links, 10 Gb/s of a consumer, 5 M reads/s a NIC, 100 us, flush 5 ms,
// 10 ms a durable read.
func DefaultNetwork() Network {
	return Network{LinkGbps: 25, ConsumerLinkGbps: 10, ReadsPerSecond: 5e6, RTT: 100 * time.Microsecond, Flush: 5 * time.Millisecond, Store: 10 * time.Millisecond}
}

// Experiment is one run of the model.
type Experiment struct {
	Name          string `json:"name"`
	DataNodes     int    `json:"data_nodes"`
	MetadataNodes int    `json:"metadata_nodes"`
	Streams       int    `json:"streams"`
	Shards        int    `json:"shards"` // of each stream
	// ShardMbps come into each shard, in records of RecordBytes.
	ShardMbps   float64 `json:"shard_mbps"`
	RecordBytes int     `json:"record_bytes"`
	Consumers   int     `json:"consumers"`
	// Follows is how many shards of each stream a consumer follows: neighbours.
	Follows int           `json:"follows_of_each_stream"`
	Poll    time.Duration `json:"poll_ns"`
	// Start is over which time the consumers start; they follow from the end.
	Start time.Duration `json:"start_ns"`
	// Lost nodes of the data nodes go silent when LostAt of the measurement has passed.
	Lost   int           `json:"lost_nodes"`
	LostAt time.Duration `json:"lost_at_ns"`
	// Warm passes before counting begins, for For.
	Warm time.Duration `json:"warm_ns"`
	For  time.Duration `json:"for_ns"`
	// Sample is how many consumers are simulated at most; each stands for the same number.
	Sample    int       `json:"sample"`
	Seed      uint64    `json:"seed"`
	Published Published `json:"published"`
}

// Published is what the paper says of it; zero: nothing.
type Published struct {
	MovedGbps     float64       `json:"moved_gbps,omitempty"`
	UsefulGbps    float64       `json:"useful_gbps,omitempty"`
	Requests      float64       `json:"requests_per_second,omitempty"`
	Metadata      float64       `json:"metadata_requests_per_second,omitempty"`
	P99           time.Duration `json:"p99_ns,omitempty"`
	FallbackReads float64       `json:"fallback_reads_per_second,omitempty"`
	Text          string        `json:"text,omitempty"`
}

func (e Experiment) check() error {
	switch {
	case e.DataNodes < 1 || e.MetadataNodes < 1 || e.Streams < 1 || e.Shards < 1 || e.Consumers < 1 || e.Follows < 1 || e.Follows > e.Shards:
		return fmt.Errorf("experiment %s: nodes, streams, shards, consumers and shards of a consumer must be 1 or more, and it follows at most all", e.Name)
	case e.ShardMbps <= 0 || e.RecordBytes < 1 || e.Poll <= 0 || e.For <= 0 || e.Sample < 1:
		return fmt.Errorf("experiment %s: rate, record, poll interval, time and sample must be positive", e.Name)
	case e.Lost >= e.DataNodes:
		return fmt.Errorf("experiment %s: %d of %d data nodes lost", e.Name, e.Lost, e.DataNodes)
	}
	return nil
}

// Named says whether the experiment's name contains one of texts; of none: it does.
func (e Experiment) Named(texts []string) bool {
	for _, text := range texts {
		if strings.Contains(e.Name, text) {
			return true
		}
	}
	return len(texts) == 0
}

// weight is how many consumers each simulated one stands for.
func (e Experiment) weight() float64 { return float64(e.Consumers) / float64(e.sampled()) }

func (e Experiment) sampled() int { return min(e.Consumers, e.Sample) }

// shardRate is in bytes a second.
func (e Experiment) shardRate() float64 { return e.ShardMbps * 1e6 / 8 }

// usefulGbps is the first experiment's useful Gb/s for 7,950 consumers.
const usefulGbps = 62

// Experiments are the published ones. 62 Gb/s useful for 7,950 consumers of 4 shards of
// each of 2 streams are 0.975 Mb/s a shard, 234 Mb/s in (240 are said).
func Experiments(sample int) []Experiment {
	first := Experiment{DataNodes: 9, MetadataNodes: 6, Streams: 2, Shards: 120, ShardMbps: usefulGbps * 1e3 / 7950 / 8, RecordBytes: 1000,
		Consumers: 7950, Follows: 4, Poll: 100 * time.Millisecond, Start: time.Second, Warm: 3 * time.Second, For: 4 * time.Second, Sample: sample, Seed: 1}
	second := first
	second.DataNodes, second.MetadataNodes, second.ShardMbps, second.Follows, second.Poll = 481, 81, 2, 20, 500*time.Millisecond
	second.Consumers, second.Sample = 20000, max(sample/2, 1)

	a, b, c, d, e, f := first, first, first, first, second, second
	a.Name = "7,950 consumers"
	a.Published = Published{MovedGbps: 70, UsefulGbps: usefulGbps, Requests: 4.5e6, P99: 500 * time.Millisecond, Text: "three hops away; 2 M requests/s expected"}
	b.Name, b.Consumers, b.Start, b.Warm = "0 to 4,000 at once", 4000, 0, 0
	b.Published = Published{Requests: 4.7e6, P99: 1500 * time.Millisecond, Text: "one second more for about 150 s"}
	c.Name, c.Lost, c.LostAt = "one data replica lost", 1, time.Second
	c.Published = Published{Text: "nothing seen"}
	d.Name, d.Lost, d.LostAt = "two data replicas lost", 2, time.Second
	d.Published = Published{FallbackReads: 60000, P99: 2 * time.Second, Text: "two of one key; spike of 2 s"}
	e.Name = "20,000 consumers"
	e.Published = Published{MovedGbps: 1800, Metadata: 19.2e6, P99: 2500 * time.Millisecond}
	f.Name, f.Consumers, f.Start, f.Warm = "0 to 6,500 at once", 6500, 0, 0
	f.Published = Published{MovedGbps: 645, Metadata: 6.24e6, P99: 3 * time.Second, FallbackReads: 300000, Text: "7 min to below 1.5 s"}
	return []Experiment{a, b, c, d, e, f}
}
