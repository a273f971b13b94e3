package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/reader"
)

// Item is one number with its formula.
type Item struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Formula string  `json:"formula"`
}

// Plan is what Needs come to. Rates are of a second.
type Plan struct {
	Needs Needs `json:"needs"`

	// Of all consumers.
	PageReads   float64 `json:"page_reads_per_second"`
	DataReads   float64 `json:"data_reads_per_second"`
	Descriptors float64 `json:"descriptor_reads_per_second"`
	Places      float64 `json:"place_reads_per_second"`
	Requests    float64 `json:"requests_per_second"`
	UsefulGbps  float64 `json:"useful_gbps"`
	MovedGbps   float64 `json:"moved_gbps"`

	DataNodes     int     `json:"data_nodes"`
	MetadataNodes int     `json:"metadata_nodes"`
	DataGbps      float64 `json:"data_node_gbps"` // of wire, with Lost nodes away
	DataRequests  float64 `json:"data_node_requests_per_second"`
	ArenaBytes    float64 `json:"arena_bytes"`

	OpenStats  float64       `json:"open_stats_per_second"`
	SurgeReads float64       `json:"surge_reads_at_once"`
	SurgeGbps  float64       `json:"surge_gbps"`
	P50        time.Duration `json:"delivery_p50_ns"`
	P99        time.Duration `json:"delivery_p99_ns"`

	Items []Item `json:"items"`
}

// Of returns the plan of needs, whose defaults it fills in. Errors match ErrNeeds.
func Of(n Needs) (*Plan, error) {
	n = n.WithDefaults()
	if err := n.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Needs: n}
	p.consumers()
	p.nodes()
	p.arena()
	p.store()
	p.delivery()
	return p, nil
}

func (p *Plan) item(name string, value float64, unit, formula string, args ...any) {
	p.Items = append(p.Items, Item{name, value, unit, fmt.Sprintf(formula, args...)})
}

// pause is the mean interval between two polls.
func (n Needs) pause() float64 { return n.Poll.Seconds() * (1 - 0.5/reader.PollJitter) }

// consumers is what they ask for and move.
func (p *Plan) consumers() {
	n := p.Needs
	rate, tails := n.shardRate(), float64(n.Consumers*n.Streams*n.Follows)
	pause := n.pause()
	news := min(1/pause, rate/float64(n.AppendBytes))
	each := rate / news
	extents := rate / layout.ExtentSize
	const chunk = layout.ChunkSize
	p.item("polls", 1/pause, "1/s of a consumer", "1 / (poll %v x (1 - 1/%d)): an interval is shortened by up to an eighth, drawn", n.Poll, 2*reader.PollJitter)
	p.item("news", news, "1/s of a shard", "min(polls, %.0f B/s / append of %d B): polls that find a shard moved", rate, n.AppendBytes)

	pages := math.Ceil(float64(n.Follows) / layout.EntriesPerPage)
	opinions := 1.0
	if n.MetadataReplicas > 1 {
		opinions += 1.0 / reader.SecondOpinion
	}
	p.PageReads = float64(n.Consumers*n.Streams) * pages / pause * opinions
	p.item("page reads", p.PageReads, "1/s", "%d consumers x %d streams x %.0f pages of %d entries x polls x %.3f (another replica's every %d polls)", n.Consumers, n.Streams, pages, layout.EntriesPerPage, opinions, reader.SecondOpinion)
	pageBytes := p.PageReads / pages * float64(n.Follows) * layout.EntrySize

	p.DataReads = tails * (news + extents)
	p.item("data reads", p.DataReads, "1/s", "%.0f followed shards x (news + %.3f ends of extents of %d B a second): one a shard and poll with news, one more where an extent ends", tails, extents, layout.ExtentSize)
	p.Descriptors = tails * (extents + news*min(1, each/chunk))
	p.item("descriptor reads", p.Descriptors, "1/s", "followed shards x (ends of extents + news x min(1, %.0f new bytes / chunk of %d B)): where a chunk has become complete", each, chunk)
	sets := 1 + n.SecondSets
	if n.SecondSets > reader.BothSets {
		sets = 2
	}
	p.Places = tails * extents * sets
	p.item("place reads", p.Places, "1/s", "followed shards x extents a second x %.2f: 1 + the part in second sets (%.2f), or 2 where that is more than %.3f", sets, n.SecondSets, reader.BothSets)
	p.Requests = p.PageReads + p.DataReads + p.Descriptors + p.Places
	p.item("requests", p.Requests, "1/s", "pages + data + descriptors + places")

	p.UsefulGbps = tails * rate * 8 / 1e9
	p.item("useful", p.UsefulGbps, "Gb/s", "followed shards x %.3f Mb/s", n.ShardMbps)
	beside := pageBytes + tails*rate/chunk*layout.DescriptorSize + p.Places*layout.SetSize
	p.MovedGbps = p.UsefulGbps + beside*8/1e9
	p.item("moved", p.MovedGbps, "Gb/s", "useful + page reads x %d entries x %d B + %d B for each chunk + place reads x %d B; %.4f by useful byte", min(n.Follows, layout.EntriesPerPage), layout.EntrySize, layout.DescriptorSize, layout.SetSize, p.MovedGbps/p.UsefulGbps)
}

// nodes is how many there must be, and what each carries.
func (p *Plan) nodes() {
	n := p.Needs
	reads := p.Requests - p.PageReads
	pageBytes := p.PageReads * float64(min(n.Follows, layout.EntriesPerPage)) * layout.EntrySize
	dataBytes := p.MovedGbps*1e9/8 - pageBytes
	load := Service(reads, dataBytes, n.LinkGbps, n.ReadsPerSecond)
	p.DataNodes = n.DataNodes
	if p.DataNodes == 0 {
		p.DataNodes = max(n.Full, int(math.Ceil(load/n.Use))+n.Lost)
	}
	p.item("data nodes", float64(p.DataNodes), "", "max(%d replicas, work / %.2f + %d that may be lost); work = max(wire x 8 / %g Gb/s, reads / %g a second) = %.2f cards, wire = bytes + %d x (bytes/%d + reads)",
		n.Full, n.Use, n.Lost, n.LinkGbps, n.ReadsPerSecond, load, FrameOverhead, FramePayload)
	left := float64(p.DataNodes - n.Lost)
	p.DataGbps, p.DataRequests = Wire(reads, dataBytes)*8/1e9/left, reads/left
	p.item("out of a data node", p.DataGbps, "Gb/s", "wire / (%d nodes - %d lost); the busiest has more: shards are many or few, see bench scale", p.DataNodes, n.Lost)
	p.item("requests to a data node", p.DataRequests, "1/s", "(requests - page reads) / (nodes - lost)")
	in := float64(n.Streams*n.Shards) * n.shardRate()
	p.item("into a data node", in*float64(n.Full)*8/1e9/float64(p.DataNodes), "Gb/s", "%d shards x %.3f Mb/s x %d replicas / nodes: a chunk's bytes are put once", n.Streams*n.Shards, n.ShardMbps, n.Full)

	most := n.Streams * int(math.Ceil(float64(n.Shards)/layout.EntriesPerPage)) * n.MetadataReplicas
	work := Service(p.PageReads, pageBytes, n.LinkGbps, n.ReadsPerSecond)
	p.MetadataNodes = n.MetadataNodes
	if p.MetadataNodes == 0 {
		p.MetadataNodes = max(n.MetadataReplicas, int(math.Ceil(work/n.Use))+n.Lost)
	}
	p.item("metadata nodes", float64(p.MetadataNodes), "", "max(%d replicas, work of %.3f cards / %.2f + %d); more than %d (pages x replicas) carry nothing, and by chance a node has the pages of two",
		n.MetadataReplicas, work, n.Use, n.Lost, most)
	busy := float64(max(min(p.MetadataNodes, most)-n.Lost, 1))
	p.item("requests to a metadata node", p.PageReads/busy, "1/s", "page reads / (nodes that hold pages - lost)")
	batches := min(1/n.cycle().Seconds(), n.shardRate()/float64(n.AppendBytes))
	p.item("publications to a metadata node", float64(n.Streams*n.Shards)*batches*float64(n.MetadataReplicas)/float64(p.MetadataNodes), "1/s",
		"shards x min(1/(flush %v + 2 x %v), appends) x %d replicas / nodes", n.Flush, n.RTT, n.MetadataReplicas)
}

// arena is how large a data node's is.
func (p *Plan) arena() {
	n := p.Needs
	extents := Live(n.Streams*n.Shards, n.shardRate(), n.TTL) * float64(n.Full) / float64(p.DataNodes-n.Lost) / n.Fill
	const slot = layout.ExtentSize + layout.DescriptorsSize + layout.IdentitySize
	p.ArenaBytes = extents * slot * 64 / 63
	p.item("arena of a data node", p.ArenaBytes/(1<<20), "MiB", "shards x (rate x %v / %d B + the begun one) x %d replicas / (nodes - lost) / filled to %.2f x %d B a slot x 64/63 (length pages)",
		n.TTL, layout.ExtentSize, n.Full, n.Fill, slot)
}

// store is what the durable store has to bear.
func (p *Plan) store() {
	n := p.Needs
	tails := float64(n.Consumers * n.Streams * n.Follows)
	p.OpenStats = tails / n.Start.Seconds()
	p.item("durable: questions when all consumers start", p.OpenStats, "1/s", "%.0f Readers ask for their shard's length once, within %v; no bytes, when they follow from the end", tails, n.Start)
	p.SurgeReads = float64(n.Consumers) * float64(min(n.DurableConcurrency, n.Streams*n.Follows))
	p.item("durable: reads at once, whole cache lost", p.SurgeReads, "", "consumers x min(%d reads of a process at once, its shards); begins %v after the loss", n.DurableConcurrency, n.DurableDelay)
	p.SurgeGbps = p.UsefulGbps
	p.item("durable: rate, whole cache lost", p.SurgeGbps, "Gb/s", "useful: each byte once for each consumer; Config.DurableBytesPerSecond x consumers caps it, --read-through has nodes read it once for all")
	p.item("durable: reads a second, whole cache lost", min(p.SurgeReads/n.Store.Seconds(), tails/n.pause()), "1/s", "min(reads at once / %v each, followed shards x polls)", n.Store)
	share := 1.0
	for i := range n.Full {
		share *= max(float64(n.Full-i), 0) / float64(max(p.DataNodes-i, 1))
	}
	p.item(fmt.Sprintf("durable: share of extents, %d data nodes lost", n.Full), share, "", "1 / (%d choose %d): fewer lost than replicas: none", p.DataNodes, n.Full)
}

// delivery is how long a byte takes.
func (p *Plan) delivery() {
	n := p.Needs
	writing := n.cycle().Seconds() * 1.5
	trips := 2 * n.RTT.Seconds()
	p.P50 = time.Duration((writing + n.pause()/2 + trips) * 1e9)
	p.P99 = time.Duration((writing + n.pause()*0.99 + trips) * 1e9)
	p.item("delivery p50", p.P50.Seconds()*1e3, "ms", "1.5 x (flush + 2 round trips): half a batch's time to wait and one to be written; half a poll interval; 2 round trips. Without queues")
	p.item("delivery p99", p.P99.Seconds()*1e3, "ms", "the same with 0.99 of a poll interval")
}
