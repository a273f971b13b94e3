package producer

import "github.com/rmatail/rmatail/chunkstore/cluster"

// ReplicaStats is what a ReplicaCache has counted since it was made. Its JSON keys
// are an interface.
type ReplicaStats struct {
	// Puts and publications that fewer replicas have taken than the quorum, as no
	// more were alive.
	DegradedPuts      uint64 `json:"degraded_puts"`
	DegradedPublishes uint64 `json:"degraded_publishes"`
	// Those that no full replica has taken, and publications that were refused.
	FailedPuts      uint64      `json:"failed_puts"`
	FailedPublishes uint64      `json:"failed_publishes"`
	Nodes           []NodeStats `json:"nodes"` // in the order of the cluster's description
}

// NodeStats are those of one node, by its name since it was first described.
type NodeStats struct {
	Node string `json:"node"`
	Addr string `json:"addr"`
	// State is local, connecting, live, suspended, or probing: suspended, and being
	// tried again.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // of the last suspension
	Epoch  uint64 `json:"epoch,omitempty"`  // of the node's arena; 0: not known
	Data   bool   `json:"data"`             // it has the role
	// Metadata is whether it has that role.
	Metadata bool `json:"metadata"`
	Partial  bool `json:"partial,omitempty"`

	Puts        uint64 `json:"puts"` // taken
	PutBytes    uint64 `json:"put_bytes"`
	Resends     uint64 `json:"resends"`     // puts sent again from the chunk's start, as the node lacked the prefix
	Publishes   uint64 `json:"publishes"`   // taken
	Skipped     uint64 `json:"skipped"`     // requests that were not sent: the node was suspended, or its queue full
	Failed      uint64 `json:"failed"`      // requests that were not answered in time, or refused
	Suspensions uint64 `json:"suspensions"` // each may be tried again several times
	QueueBytes  int    `json:"queue_bytes"` // that wait or are on their way

	MissingBytes  uint64 `json:"missing_bytes"` // that repair has to look at; not all of them are the node's
	RepairedBytes uint64 `json:"repaired_bytes"`
	ForgoneBytes  uint64 `json:"forgone_bytes"` // not repaired: too old, or no longer in the store
}

func (n *node) stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := NodeStats{
		Node: n.name, Addr: n.mu.at.Addr, State: n.mu.state.String(), Epoch: n.mu.epoch,
		Data: n.mu.at.Roles&cluster.Data != 0, Metadata: n.mu.at.Roles&cluster.Metadata != 0, Partial: n.mu.at.Partial,
		Puts: n.count.puts.Load(), PutBytes: n.count.putBytes.Load(), Resends: n.count.resends.Load(), Publishes: n.count.publishes.Load(),
		Skipped: n.count.skipped.Load(), Failed: n.count.failed.Load(), Suspensions: n.count.suspensions.Load(),
		QueueBytes: n.mu.queued + n.mu.flying, MissingBytes: n.mu.missing.bytes(), RepairedBytes: n.count.repaired.Load(), ForgoneBytes: n.mu.missing.forgone,
	}
	if n.mu.reason != nil {
		s.Reason = n.mu.reason.Error()
	}
	return s
}
