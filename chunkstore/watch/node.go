package watch

import (
	"encoding/json"
	"time"

	"github.com/rmatail/rmatail/chunkstore/survey"
)

// stat is the part of a node's statistics that Frames are made of.
type stat struct {
	Connections  int               `json:"connections"`
	InFlight     int               `json:"in_flight"`
	SharedMemory int               `json:"shared_memory"`
	QueuePairs   int               `json:"queue_pairs"`
	Appenders    int               `json:"appenders"`
	Panics       uint64            `json:"panics"`
	Requests     map[string]uint64 `json:"requests"`
	Refusals     map[string]uint64 `json:"refusals"`
	ArenaReads   uint64            `json:"arena_reads"`
	ArenaBytes   uint64            `json:"arena_read_bytes"`
	DurableReads uint64            `json:"durable_reads"`
	DurableBytes uint64            `json:"durable_read_bytes"`
	FillBytes    uint64            `json:"fill_bytes"`
	Appends      uint64            `json:"appends"`
	AppendBytes  uint64            `json:"append_bytes"`
	RDMA         bool              `json:"rdma"`
	RDMAReason   string            `json:"rdma_reason"`
	Socket       string            `json:"socket"`
	SocketReason string            `json:"socket_reason"`
	AppendTimes  times             `json:"append_times"`
	AckTimes     times             `json:"ack_times"`
	Arena        struct {
		Puts, Publishes uint64
		Extents         struct {
			Ways, Used        int
			Expired, Capacity uint64
			Oldest            time.Duration
		}
	} `json:"arena"`
	Tenants []struct {
		Tenant string `json:"tenant"`
		Arena  struct {
			Extents struct {
				Ways, Used int
				Capacity   uint64
			}
		} `json:"arena"`
	} `json:"tenants"`
	Map struct {
		Cells []byte  `json:"cells"`
		TTL   float64 `json:"ttl_seconds"`
	} `json:"map"`
	Replicas *struct {
		Nodes []written `json:"nodes"`
	} `json:"replicas"`
	Consumers reports `json:"consumers"`
	Shards    []told  `json:"shards"`
	Others    []told  `json:"others"`
}

// told is what a node says of a shard.
type told struct {
	Shard string `json:"shard"`
	survey.Told
}

// written is what the writers of the store's node say of a node.
type written struct {
	Node     string `json:"node"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	PutBytes uint64 `json:"put_bytes"`
}

// nodeBefore is what is remembered of a node.
type nodeBefore struct {
	seen     time.Time // when stat was had
	epoch    uint64
	stat     stat
	putBytes uint64    // put by the writers of the store's node
	putsAt   time.Time // when that was had; zero: never
	away     time.Time // since when it has not been up; zero: it is
}

// addNodes fills in the nodes of a Frame.
func (w *Watcher) addNodes(f *Frame, nodes []survey.Node, now time.Time) {
	before := w.nodes
	w.nodes = make(map[string]*nodeBefore, len(nodes))
	clear(w.told)
	clear(w.heard)
	f.Nodes = make([]Node, len(nodes))
	var writers []written
	for i := range nodes {
		s, n := &nodes[i], &f.Nodes[i]
		*n = Node{Name: s.Name, Addr: s.Addr, Roles: s.Roles, Partial: s.Partial, Store: s.Store, Up: s.Up, Error: s.Error, HitRate: s.HitRate, Missing: s.Missing}
		b := before[s.Name]
		if b == nil {
			b = &nodeBefore{}
		}
		w.nodes[s.Name] = b
		var now1 stat
		if n.Up && json.Unmarshal(s.Stat, &now1) != nil { // survey has read it before
			n.Up = false
		}
		if !n.Up {
			if b.away.IsZero() {
				b.away = now
			}
			n.Away = now.Sub(b.away).Seconds()
			b.epoch = 0
			continue
		}
		b.away = time.Time{}
		n.Uptime, n.RoundTrip, n.Leases = s.Uptime, s.RoundTrip, s.Leases
		n.Memory.Bytes = s.Arena
		n.take(&now1)
		if b.epoch == s.Epoch {
			n.since(&now1, &b.stat, now.Sub(b.seen).Seconds())
		}
		b.epoch, b.seen, b.stat = s.Epoch, now, now1
		w.addConsumers(f, n.Name, &now1.Consumers)
		for _, t := range append(now1.Shards, now1.Others...) {
			t.Node = n.Name
			w.told[t.Shard] = append(w.told[t.Shard], t.Told)
		}
		if now1.Replicas != nil && n.Store {
			writers = now1.Replicas.Nodes
		}
	}
	for _, wr := range writers {
		b := w.nodes[wr.Node]
		if b == nil {
			continue
		}
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if n.Name != wr.Node {
				continue
			}
			n.Writes, n.Reason = wr.State, wr.Reason
			if d := now.Sub(b.putsAt).Seconds(); !b.putsAt.IsZero() && d > 0 && wr.PutBytes >= b.putBytes {
				n.Rates.PutBytes = float64(wr.PutBytes-b.putBytes) / d
			}
		}
		b.putBytes, b.putsAt = wr.PutBytes, now
	}
}

// take sets what is true now.
func (n *Node) take(s *stat) {
	n.Connections, n.InFlight, n.Mappings, n.QueuePairs = s.Connections, s.InFlight, s.SharedMemory, s.QueuePairs
	n.Appenders, n.Panics = s.Appenders, s.Panics
	e := s.Arena.Extents
	n.Memory.Ways, n.Memory.Used, n.Memory.Oldest, n.Memory.TTL, n.Memory.Cells = e.Ways, e.Used, e.Oldest.Seconds(), s.Map.TTL, s.Map.Cells
	n.Delivered = s.Consumers.Rates
	for i := range s.Tenants {
		e := &s.Tenants[i].Arena.Extents
		n.Tenants = append(n.Tenants, Tenant{s.Tenants[i].Tenant, e.Ways, e.Used})
	}
	if !s.RDMA {
		if n.RDMA = s.RDMAReason; n.RDMA == "" {
			n.RDMA = "off"
		}
	}
	if s.Socket == "" {
		if n.SHM = s.SocketReason; n.SHM == "" {
			n.SHM = "off"
		}
	}
}

// since sets what has happened in d seconds.
func (n *Node) since(s, b *stat, d float64) {
	if d <= 0 {
		return
	}
	rate := func(now, before uint64) float64 {
		if now < before {
			return 0
		}
		return float64(now-before) / d
	}
	n.Rates = Rates{
		Requests: rate(total(s.Requests), total(b.Requests)), Refusals: rate(total(s.Refusals), total(b.Refusals)),
		Puts: rate(s.Arena.Puts, b.Arena.Puts), Publishes: rate(s.Arena.Publishes, b.Arena.Publishes),
		TCPReads: rate(s.ArenaReads, b.ArenaReads), TCPBytes: rate(s.ArenaBytes, b.ArenaBytes),
		DurableReads: rate(s.DurableReads, b.DurableReads), DurableBytes: rate(s.DurableBytes, b.DurableBytes),
		FillBytes: rate(s.FillBytes, b.FillBytes),
		Appends:   rate(s.Appends, b.Appends), AppendBytes: rate(s.AppendBytes, b.AppendBytes),
		Expired: rate(s.Arena.Extents.Expired, b.Arena.Extents.Expired), PushedOut: rate(s.pushedOut(), b.pushedOut()),
	}
	n.Append, n.Ack = s.AppendTimes.since(b.AppendTimes), s.AckTimes.since(b.AckTimes)
}

// pushedOut are the extents that were evicted before their time, from any memory.
func (s *stat) pushedOut() (n uint64) {
	n = s.Arena.Extents.Capacity
	for i := range s.Tenants {
		n += s.Tenants[i].Arena.Extents.Capacity
	}
	return n
}

func total(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// sum makes the totals.
func (f *Frame) sum() Totals {
	t := Totals{Time: f.Time, ReadP99: f.Totals.ReadP99, Delivered: map[string]float64{}}
	used, ways := 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for source, rate := range n.Delivered {
			t.Delivered[source] += rate
		}
		t.AppendBytes += n.Rates.AppendBytes
		t.TCPBytes += n.Rates.TCPBytes
		t.DurableBytes += n.Rates.DurableBytes
		t.FillBytes += n.Rates.FillBytes
		t.RoundTrip = max(t.RoundTrip, n.RoundTrip)
		used, ways = used+n.Memory.Used, ways+n.Memory.Ways
		if n.Store {
			t.Append, t.Ack = n.Append, n.Ack
		}
	}
	for i := range f.Shards {
		t.Lag = max(t.Lag, f.Shards[i].Lag)
	}
	if ways > 0 {
		t.Used = float64(used) / float64(ways)
	}
	return t
}
