package watch

import "github.com/rmatail/rmatail/chunkstore/cause"

// Frame is a cluster at one moment. Its JSON keys are an interface. Sizes are in
// bytes, times in seconds, rates in the second.
type Frame struct {
	Time    int64   `json:"time_ms"` // since 1970, by the watcher's clock
	Window  float64 `json:"window"`  // since the Frame before; 0: there is none, and no rate
	Took    float64 `json:"took"`    // to ask everybody
	Cluster string  `json:"cluster,omitempty"`
	Self    string  `json:"self,omitempty"` // the node that watches; empty: none does
	Nodes   []Node  `json:"nodes"`
	// Shards are those of the durable store, up to Options.Shards; More says that there
	// are others. If the store does not answer they are those of the last time, and
	// StoreError says why.
	Shards     []Shard `json:"shards"`
	More       bool    `json:"more"`
	StoreError string  `json:"store_error,omitempty"`
	// Consumers are those that report to nodes and fare worst, the worst first, up to 32;
	// Reporting is how many report, Behind how many of them are in trouble.
	Consumers []Consumer `json:"consumers"`
	Reporting int        `json:"reporting"`
	Behind    int        `json:"behind"`
	Totals    Totals     `json:"totals"`
}

// Node is one node of a Frame. All but its name, address and roles is zero while it is
// not up.
type Node struct {
	Name    string   `json:"name"`
	Addr    string   `json:"addr"`
	Roles   []string `json:"roles"`
	Partial bool     `json:"partial"`
	Store   bool     `json:"store"` // owns the durable directory
	Up      bool     `json:"up"`
	Error   string   `json:"error,omitempty"` // why it is not up, or what it could not say
	// Away is for how long it has not been up, as far as the watcher has seen.
	Away      float64 `json:"away,omitempty"`
	Uptime    float64 `json:"uptime"`
	RoundTrip float64 `json:"round_trip"` // of a ping

	Memory  Memory   `json:"memory"`
	Tenants []Tenant `json:"tenants,omitempty"` // what the tenants' memories hold, by name
	HitRate *float64 `json:"hit_rate"`          // see survey.Node
	Missing *uint64  `json:"missing"`           // see survey.Node
	Writes  string   `json:"writes"`            // how the writers of the store's node reach it, as producer.NodeStats.State; empty: not known
	Reason  string   `json:"reason"`            // why they do not
	RDMA    string   `json:"rdma,omitempty"`    // why its memory is not exported; empty: it is
	SHM     string   `json:"shm,omitempty"`     // why it is not shared; empty: it is

	Connections int    `json:"connections"`
	InFlight    int    `json:"in_flight"`
	Mappings    int    `json:"mappings"`    // consumers that hold its memory's mapping
	QueuePairs  int    `json:"queue_pairs"` // of consumers that read over RDMA
	Appenders   int    `json:"appenders"`
	Leases      int    `json:"leases"`
	Panics      uint64 `json:"panics"`

	Rates Rates `json:"rates"`
	// Delivered is what consumers that report to it have had delivered, bytes a second by
	// source, wherever from.
	Delivered map[string]float64 `json:"delivered,omitempty"`
	// Append is what an append to the durable store takes, Ack what a client waits for
	// it, batching included; nil: there was none in the window.
	Append *Quantiles `json:"append"`
	Ack    *Quantiles `json:"ack"`
}

// Memory is a node's arena.
type Memory struct {
	Bytes  uint64  `json:"bytes"` // of the whole arena
	Ways   int     `json:"ways"`  // extents that it has room for
	Used   int     `json:"used"`
	Oldest float64 `json:"oldest"` // age of the extent that was written the longest ago
	TTL    float64 `json:"ttl"`
	Cells  []byte  `json:"cells"` // see chunkstore.Map
}

// Tenant is the memory of one tenant at a node.
type Tenant struct {
	Name string `json:"name"`
	Ways int    `json:"ways"` // extents that it has room for
	Used int    `json:"used"`
}

// Consumer is a process that reads, by its own account.
type Consumer struct {
	Name      string             `json:"name"`
	Node      string             `json:"node"` // it reports to
	Addr      string             `json:"addr"`
	Age       float64            `json:"age"` // of its report
	Transport string             `json:"transport"`
	Rates     map[string]float64 `json:"rates"` // by source
	P50       float64            `json:"p50"`   // of its reads
	P99       float64            `json:"p99"`
	Shards    int                `json:"shards"`
	// Shard is the one that fares worst, empty if it follows none.
	Shard   string      `json:"shard"`
	State   cause.State `json:"state"`
	Why     string      `json:"why"`
	Lag     uint64      `json:"lag"`
	LagTime float64     `json:"lag_time"`
}

// Rates are of the window of a Frame.
type Rates struct {
	Requests     float64 `json:"requests"`
	Refusals     float64 `json:"refusals"`
	Puts         float64 `json:"puts"`
	PutBytes     float64 `json:"put_bytes"` // by the writers of the store's node
	Publishes    float64 `json:"publishes"`
	TCPReads     float64 `json:"tcp_reads"`
	TCPBytes     float64 `json:"tcp_bytes"`
	DurableReads float64 `json:"durable_reads"`
	DurableBytes float64 `json:"durable_bytes"`
	FillBytes    float64 `json:"fill_bytes"`
	Appends      float64 `json:"appends"`
	AppendBytes  float64 `json:"append_bytes"`
	Expired      float64 `json:"expired"`    // extents evicted after their time
	PushedOut    float64 `json:"pushed_out"` // extents evicted before it, of any memory: it is too small
}

// Quantiles are of the times within a window.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

// Shard is one shard of a Frame.
type Shard struct {
	Name   string      `json:"name"`
	State  cause.State `json:"state"`
	Why    string      `json:"why"`
	First  uint64      `json:"first"`
	Length uint64      `json:"length"` // durable
	Sealed bool        `json:"sealed"`
	// Ended: ProducerStopped is nothing to look at, as nobody holds the lease, and no node
	// has seen a producer that stopped without giving it back.
	Ended bool    `json:"ended,omitempty"`
	Rate  float64 `json:"rate"`
	// Lag is what the best replica of its length page has not published, LagTime for how
	// long there has been such a lag without a break.
	Lag     uint64  `json:"lag"`
	LagTime float64 `json:"lag_time"`
	// Heartbeat is how long ago its producer's heartbeat has moved; nil: not known yet,
	// or no replica answers.
	Heartbeat *float64  `json:"heartbeat"`
	Writer    string    `json:"writer"` // holds the lease; empty: nobody does
	Replicas  []Replica `json:"replicas"`
}

// Replica is what one replica of a length page says.
type Replica struct {
	Node  string `json:"node"`
	Lag   uint64 `json:"lag"`
	Error string `json:"error,omitempty"` // why it could not say
}

// Totals are those of the cluster, for charts over time.
type Totals struct {
	Time         int64   `json:"time_ms"`
	AppendBytes  float64 `json:"append_bytes"`
	TCPBytes     float64 `json:"tcp_bytes"`
	DurableBytes float64 `json:"durable_bytes"`
	FillBytes    float64 `json:"fill_bytes"`
	// By source, what consumers that report have had delivered.
	Delivered map[string]float64 `json:"delivered"`
	// ReadP99 is the longest 99th percentile of reads that one of them tells; 0: none does.
	ReadP99   float64 `json:"read_p99"`
	Lag       uint64  `json:"lag"`        // the greatest
	RoundTrip float64 `json:"round_trip"` // the longest
	Used      float64 `json:"used"`       // of all memory, 0 to 1
	// Append and Ack are of the node that owns the store.
	Append *Quantiles `json:"append"`
	Ack    *Quantiles `json:"ack"`
}
