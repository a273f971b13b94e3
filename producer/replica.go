package producer

import (
	"context"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// ReplicaCache is the cache of a cluster: it puts each chunk to the nodes of its
// replica set. One serves all Appenders of a process, called at once.
type ReplicaCache struct{ cfg ReplicaConfig }

// NewReplicaCache returns the cache of a cluster. Errors match ErrConfig.
func NewReplicaCache(cfg ReplicaConfig) (*ReplicaCache, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &ReplicaCache{cfg}, nil
}

// Put stores a piece of a chunk on the nodes of its extent.
func (c *ReplicaCache) Put(ctx context.Context, p layout.Put) error { return ErrClosed }

// Publish moves a shard's published end on the nodes of its length page.
func (c *ReplicaCache) Publish(ctx context.Context, p layout.Publication) error { return ErrClosed }

// Stats are the counts of each node.
func (c *ReplicaCache) Stats() ReplicaStats { return ReplicaStats{} }

// Close ends the connections.
func (c *ReplicaCache) Close() error { return nil }

// ReplicaStats is what a ReplicaCache has counted since it was made. Its JSON keys
// are an interface.
type ReplicaStats struct {
	DegradedPuts      uint64      `json:"degraded_puts"`      // that fewer full replicas took than the quorum, as no more were alive
	DegradedPublishes uint64      `json:"degraded_publishes"` // the same of publications
	FailedPuts        uint64      `json:"failed_puts"`        // that no full replica took
	FailedPublishes   uint64      `json:"failed_publishes"`   // that no replica took
	Nodes             []NodeStats `json:"nodes"`
}

// NodeStats are those of one node.
type NodeStats struct {
	Node          string `json:"node"`
	Addr          string `json:"addr"`
	State         string `json:"state"`  // local, live, suspended or probing
	Reason        string `json:"reason"` // of the last suspension
	Epoch         uint64 `json:"epoch"`  // of the node's arena; 0: not known yet
	Puts          uint64 `json:"puts"`   // taken
	PutBytes      uint64 `json:"put_bytes"`
	Resends       uint64 `json:"resends"`   // of them, chunks sent from their start as the node lacked a prefix
	Publishes     uint64 `json:"publishes"` // taken
	Skipped       uint64 `json:"skipped"`   // puts that the node did not get: it was suspended, or its queue full
	Failed        uint64 `json:"failed"`    // puts and publications that it did not answer, or refused
	Suspensions   uint64 `json:"suspensions"`
	QueueBytes    int    `json:"queue_bytes"`
	MissingBytes  uint64 `json:"missing_bytes"` // that it lacks, to be repaired
	RepairedBytes uint64 `json:"repaired_bytes"`
	ForgoneBytes  uint64 `json:"forgone_bytes"` // missing for longer than the time to live, or beyond the bound
}
