package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/internal/spread"
	"github.com/rmatail/rmatail/producer"
)

// Stats is the state of a node, also as JSON by the operation NodeStat.
type Stats struct {
	// Node is the node's name in its cluster; its address if it is alone. Role is
	// what it holds, in words, such as "data and metadata, partial"; empty if the cluster's description has no such node any more.
	Node          string  `json:"node"`
	Role          string  `json:"role"`
	Epoch         uint64  `json:"epoch"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Listen        string  `json:"listen"`
	// Socket is that of shared memory; if it is empty, SocketReason says why.
	Socket       string `json:"socket,omitempty"`
	SocketReason string `json:"socket_reason,omitempty"`
	// RDMA is whether the arena is exported; RDMAReason is why not.
	RDMA       bool   `json:"rdma"`
	RDMAReason string `json:"rdma_reason,omitempty"`

	Connections        int               `json:"connections"`
	ConnectionsTotal   uint64            `json:"connections_total"`
	ConnectionsRefused uint64            `json:"connections_refused"` // over the limit
	ConnectionsBroken  uint64            `json:"connections_broken"`  // ended by an error
	Requests           map[string]uint64 `json:"requests"`            // by operation
	Refusals           map[string]uint64 `json:"refusals"`            // by status
	InFlight           int               `json:"in_flight"`           // that wait for a disk or a device
	Waiting            int               `json:"waiting"`             // that wait for news of a length page

	Writes           uint64 `json:"writes"`      // of replies to sockets; less than requests, as those gather
	ArenaReads       uint64 `json:"arena_reads"` // ranges read over TCP
	ArenaReadBytes   uint64 `json:"arena_read_bytes"`
	Appends          uint64 `json:"appends"`
	AppendBytes      uint64 `json:"append_bytes"`
	DurableReads     uint64 `json:"durable_reads"`
	DurableReadBytes uint64 `json:"durable_read_bytes"`
	// What was read from the durable store into the arena for readers.
	Fills     uint64 `json:"fills"`
	FillBytes uint64 `json:"fill_bytes"`
	// What retention has removed.
	SegmentsRemoved     uint64 `json:"segments_removed"`
	SegmentBytesRemoved uint64 `json:"segment_bytes_removed"`

	Appenders int `json:"appenders"` // shards open for append
	// Producer is what the appenders of the shards that are open have measured,
	// merged; nil without a durable directory.
	Producer     *producer.Stats `json:"producer,omitempty"`
	SharedMemory int             `json:"shared_memory"` // consumers that hold the mapping
	QueuePairs   int             `json:"queue_pairs"`   // RDMA connections
	Panics       uint64          `json:"panics"`        // bugs: must be zero

	// Replicas is what the node's appenders have put to the nodes of the cluster,
	// itself included; nil without a durable directory.
	Replicas *producer.ReplicaStats `json:"replicas,omitempty"`

	// AppendTimes and AckTimes are producer.Stats.SinkTimes and AckTimes of Producer.
	AppendTimes string `json:"append_times,omitempty"`
	AckTimes    string `json:"ack_times,omitempty"`

	// Arena is the memory of the streams that are no tenant's.
	Arena chunkstore.Stats `json:"arena"`
	// Tenants are the memories of the tenants, by name.
	Tenants []TenantStats `json:"tenants,omitempty"`
	// Consumers are those that report here.
	Consumers *ConsumersStats `json:"consumers"`
	// Map is how old what the arena holds is.
	Map chunkstore.Map `json:"map"`

	// Shards are those that are published here, the first by name of them, up to
	// Config.ShardMetrics; Others are those of the rest that somebody should look at, or
	// that are a tenant's, up to 256; ShardStates counts all by state.
	Shards      []ShardStats        `json:"shards"`
	Others      []ShardStats        `json:"others,omitempty"`
	ShardStates map[cause.State]int `json:"shard_states"`
}

// TenantStats is the memory of one tenant.
type TenantStats struct {
	Tenant string `json:"tenant"`
	// Streams are those that are in it and in no other memory.
	Streams auth.Patterns    `json:"streams"`
	Arena   chunkstore.Stats `json:"arena"`
}

// tenantStats are the memories of the tenants, by name.
func (s *Server) tenantStats() (all []TenantStats) {
	rules := s.memories.now.Load().rules
	if rules == nil {
		return nil
	}
	streams := map[string]auth.Patterns{}
	for _, t := range rules.Tenants() {
		streams[t.Name] = t.Streams
	}
	s.memories.each(func(m *memory) {
		if m.tenant != "" {
			all = append(all, TenantStats{m.tenant, streams[m.tenant], m.arena.Stats()})
		}
	})
	return all
}

const (
	opSlots     = int(wire.OpReport) + 1        // slot 0: unknown operations
	statusSlots = int(wire.StatusForbidden) + 1 // slot 0: others
)

// counters are what Stats counts as it goes.
type counters struct {
	connections                                          atomic.Int64
	greeted                                              atomic.Int64 // connections past their handshake
	connectionsTotal, connectionsOver, connectionsBroken atomic.Uint64
	requests                                             [opSlots]atomic.Uint64
	refusals                                             [statusSlots]atomic.Uint64
	inFlight, queuePairs                                 atomic.Int64
	writes, arenaReads, arenaReadBytes                   atomic.Uint64
	appends, appendBytes                                 atomic.Uint64
	durableReads, durableReadBytes                       atomic.Uint64
	segmentsRemoved, segmentBytesRemoved                 atomic.Uint64
	panics                                               atomic.Uint64
	paced                                                atomic.Uint64    // requests that waited for their client's rate
	durableTimes                                         spread.Histogram // of the store, waiting for a place excluded
	durableWaiting                                       atomic.Int64     // for a place
}

func (c *counters) request(op wire.Op) {
	i := int(op)
	if i >= opSlots {
		i = 0
	}
	c.requests[i].Add(1)
}

func (c *counters) refused(err error) {
	i := int(wire.ErrorOf(err).Status)
	if i >= statusSlots {
		i = 0
	}
	c.refusals[i].Add(1)
}

// panicError is what a panic in a connection becomes.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func isPanic(err error) bool {
	var p *panicError
	return errors.As(err, &p)
}

// panicked counts and reports a panic: a bug, whatever the client has sent.
func (s *Server) panicked(value any) error {
	s.counters.panics.Add(1)
	s.log.Error("panic in a connection: this is a bug, please report it", "panic", value, "stack", string(debug.Stack()))
	return &panicError{value}
}

// Stats returns the node's state now. Any goroutine.
func (s *Server) Stats() Stats {
	c := &s.counters
	st := Stats{
		Node: s.cfg.Node, Epoch: s.main().arena.Epoch(), UptimeSeconds: time.Since(s.started).Seconds(),
		Listen: s.Addr().String(), Socket: s.Socket(), SocketReason: s.main().socketReason, RDMA: s.main().rdmaReason == "", RDMAReason: s.main().rdmaReason,
		Connections: int(c.connections.Load()), ConnectionsTotal: c.connectionsTotal.Load(), ConnectionsRefused: c.connectionsOver.Load(), ConnectionsBroken: c.connectionsBroken.Load(),
		Requests: make(map[string]uint64), Refusals: make(map[string]uint64), InFlight: int(c.inFlight.Load()), Waiting: int(s.waiting.Load()),
		Writes: c.writes.Load(), ArenaReads: c.arenaReads.Load(), ArenaReadBytes: c.arenaReadBytes.Load(),
		Appends: c.appends.Load(), AppendBytes: c.appendBytes.Load(),
		DurableReads: c.durableReads.Load(), DurableReadBytes: c.durableReadBytes.Load(),
		SegmentsRemoved: c.segmentsRemoved.Load(), SegmentBytesRemoved: c.segmentBytesRemoved.Load(),
		QueuePairs: int(c.queuePairs.Load()), Panics: c.panics.Load(),
		Arena: s.main().arena.Stats(), Map: s.main().arena.Map(),
	}
	st.Tenants, st.Consumers = s.tenantStats(), s.consumers.stats(time.Now())
	st.Shards, st.Others, st.ShardStates = s.shardStats()
	for i := range c.requests {
		if n := c.requests[i].Load(); n > 0 {
			st.Requests[opName(i)] = n
		}
	}
	for i := range c.refusals {
		if n := c.refusals[i].Load(); n > 0 {
			st.Refusals[wire.Status(i).String()] = n
		}
	}
	if n, ok := s.member(); ok {
		st.Role = role(n)
	}
	if s.replicas != nil {
		r := s.replicas.Stats()
		st.Replicas = &r
	}
	if s.filler != nil {
		st.Fills, st.FillBytes = s.filler.fills.Load(), s.filler.bytes.Load()
	}
	for _, m := range s.memories.now.Load().of {
		if m.socket != nil {
			st.SharedMemory += m.socket.Conns()
		}
	}
	if s.appenders != nil {
		st.Appenders = s.appenders.count()
		st.Producer = s.appenders.stats()
		st.AppendTimes, st.AckTimes = st.Producer.SinkTimes(), st.Producer.AckTimes()
	}
	return st
}

func opName(slot int) string {
	if slot == 0 {
		return "unknown"
	}
	return wire.Op(slot).String()
}

func (c *conn) nodeStat(_ context.Context, h wire.Header, p []byte) error {
	if len(p) != 0 {
		return fmt.Errorf("payload of %d B, want none: %w", len(p), wire.ErrBadRequest)
	}
	b, err := json.Marshal(c.s.Stats())
	if err != nil {
		return err
	}
	c.answer(h, b, nil)
	return nil
}
