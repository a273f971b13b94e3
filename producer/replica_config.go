package producer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// Store reads durable bytes back: *durable.Dir, *durable.Remote.
type Store interface {
	Stat(ctx context.Context, shard string) (durable.Info, error)
	ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error)
}

// LocalNode is a node in this process: its cache is called, not sent to. Nothing
// of it waits, and any number of goroutines may call it at once.
type LocalNode interface {
	// Put stores a piece of a chunk, or all of it where the node lacks the prefix
	// and the put has Whole. The bytes are borrowed until it returns.
	Put(shard layout.Shard, p layout.Put) error
	// Publish moves a shard's published end, if the publication's ballot is not
	// below the held one; else the error matches wire.ErrLease.
	Publish(p layout.Publication) error
	// Lease asks for, takes or gives back the lease of a shard, by the rules of
	// package wire.
	Lease(l wire.Lease) (wire.LeaseReply, error)
}

// ReplicaConfig says how the caches of a cluster are reached. The zero value of
// each field but Source means its default.
type ReplicaConfig struct {
	// Source says which nodes there are, and what each of them holds.
	Source cluster.Source
	// Credentials are what nodes are shown, where Dial is nil. nil: nothing.
	Credentials wire.Credentials
	// Dial connects to a node, within its context. nil: wire.Dial to its address.
	Dial func(ctx context.Context, n cluster.Node) (*wire.Client, error)
	// Local are the nodes of this process, by name.
	Local map[string]LocalNode
	// Store is where repair reads what a node has missed. nil: nothing is repaired.
	Store Store
	// TTL is how long the nodes keep what was put: what is older is not repaired.
	// 0: what the cluster's description says at the start.
	TTL time.Duration
	// Timeout is how long a node may take for one put, publication or lease. One
	// that takes longer is suspended. 500 ms.
	Timeout time.Duration
	// QueueBytes bound what waits for one node; what exceeds them is skipped, and
	// repaired later. 8 MiB.
	QueueBytes int
	// RepairBytesPerSecond bound what repair reads and puts. 32 MiB; negative: no
	// repair.
	RepairBytesPerSecond int64
	// LeaseTTL is how long a lease lives after its last publication. 10 s.
	LeaseTTL time.Duration
	// Owner is told to who asks for a lease that is taken, and to the nodes as the
	// connection's name. At most wire.MaxName bytes.
	Owner string

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: no metrics
}

func (c ReplicaConfig) withDefaults() (ReplicaConfig, error) {
	c.Timeout = cmp.Or(c.Timeout, 500*time.Millisecond)
	c.QueueBytes = cmp.Or(c.QueueBytes, 8<<20)
	c.RepairBytesPerSecond = cmp.Or(c.RepairBytesPerSecond, 32<<20)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Dial == nil {
		o := wire.Options{Name: c.Owner, Credentials: c.Credentials, Logger: c.Logger}
		c.Dial = func(ctx context.Context, n cluster.Node) (*wire.Client, error) { return wire.Dial(ctx, n.Addr, o) }
	}
	switch {
	case c.Source == nil:
		return c, fmt.Errorf("%w: replicas without a cluster", ErrConfig)
	case c.TTL < 0 || c.Timeout < 0 || c.LeaseTTL < 0:
		return c, fmt.Errorf("%w: time to live %v, timeout %v, lease %v; leave them unset for the defaults", ErrConfig, c.TTL, c.Timeout, c.LeaseTTL)
	case c.QueueBytes < 1:
		return c, fmt.Errorf("%w: queue of %d bytes for each node, 8 MiB is good", ErrConfig, c.QueueBytes)
	case len(c.Owner) > wire.MaxName:
		return c, fmt.Errorf("%w: owner of %d bytes, at most %d", ErrConfig, len(c.Owner), wire.MaxName)
	}
	return c, nil
}
