package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/internal/bytesize"
	"github.com/rmatail/rmatail/plan"
)

type planCmd struct {
	Streams   int            `help:"Streams." default:"1" placeholder:"N"`
	Shards    int            `help:"Shards of each stream." default:"120" placeholder:"N"`
	Rate      float64        `help:"Mb/s that come into each shard." default:"1" placeholder:"MBPS"`
	Append    bytesize.Bytes `help:"What is appended at once." default:"1000" placeholder:"SIZE"`
	Consumers int            `help:"Consumer processes." required:"" placeholder:"N"`
	Follow    int            `help:"Neighbouring shards of each stream that a consumer follows." default:"1" placeholder:"N"`
	Poll      time.Duration  `help:"Interval of the consumers' polls." default:"100ms" placeholder:"TIME"`
	Start     time.Duration  `help:"Time within which all consumers start." default:"1s" placeholder:"TIME"`
	Link      float64        `help:"Gb/s of a node." default:"25" placeholder:"GBPS"`
	Reads     float64        `help:"One-sided reads a second that a node's network card serves." default:"5000000" placeholder:"N"`
	Use       float64        `help:"Part of a card that may be used." default:"0.6" placeholder:"PART"`
	RTT       time.Duration  `name:"rtt" help:"Round trip." default:"100us" placeholder:"TIME"`
	Flush     time.Duration  `help:"A writer's flush to the durable store." default:"5ms" placeholder:"TIME"`
	Store     time.Duration  `help:"A question to the durable store." default:"10ms" placeholder:"TIME"`
	TTL       time.Duration  `name:"ttl" help:"How long bytes stay in memory." default:"60s" placeholder:"TIME"`
	Replicas  int            `help:"Full replicas of bytes, and replicas of lengths." default:"3" placeholder:"N"`
	Lost      int            `help:"Nodes of each kind that may be lost at a time." default:"1" placeholder:"N"`
	Data      int            `name:"data-nodes" help:"Data nodes. Default: as many as are needed." placeholder:"N"`
	Metadata  int            `name:"metadata-nodes" help:"Metadata nodes. Default: as many as are needed." placeholder:"N"`
	JSON      bool           `name:"json" help:"One JSON object on standard output."`
}

func (c *planCmd) Help() string {
	return `Prints what consumers ask of the nodes' network cards, how many nodes that takes, how large their arenas are, and what the durable store
has to bear when all consumers start or the cache is lost; each number with its formula. They are means: 'rmatail bench scale' shows queues.`
}

func (c *planCmd) Run(p *process) error {
	pl, err := plan.Of(plan.Needs{Streams: c.Streams, Shards: c.Shards, ShardMbps: c.Rate, AppendBytes: int(c.Append), Consumers: c.Consumers, Follows: c.Follow,
		Poll: c.Poll, Start: c.Start, LinkGbps: c.Link, ReadsPerSecond: c.Reads, Use: c.Use, RTT: c.RTT, Flush: c.Flush, Store: c.Store, TTL: c.TTL,
		Full: c.Replicas, MetadataReplicas: c.Replicas, Lost: c.Lost, DataNodes: c.Data, MetadataNodes: c.Metadata})
	if errors.Is(err, plan.ErrNeeds) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if err != nil {
		return err
	}
	return show(p, c.JSON, pl)
}
