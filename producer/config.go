package producer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
)

// MaxRecord is the longest record of one Append, 1 MiB: what one frame carries.
const MaxRecord = 1 << 20

// Log is the durable file of one shard: *durable.Log. The Appender is its only
// user, one call at a time, and closes it.
type Log interface {
	// Append writes p at offset off, which must be the length, and returns the
	// new length once the bytes are durable by the store's policy.
	Append(ctx context.Context, off uint64, p []byte) (end uint64, err error)
	Info() durable.Info
	// Flush returns when no append is under way any more, and what is readable is
	// durable. Info is final then.
	Flush(ctx context.Context) error
	Seal() error
	Close() error
}

// Cache takes the recent bytes of a shard: a chunkstore.Arena, or a RemoteCache
// for a node elsewhere. Data is borrowed until the call returns.
type Cache interface {
	// Put stores a piece of a chunk. An error that matches wire.ErrNeedPrefix
	// asks for the chunk from its start.
	Put(ctx context.Context, p layout.Put) error
	// Publish moves the shard's published end.
	Publish(ctx context.Context, p layout.Publication) error
}

// batchCache is a Cache that takes many pieces at once, in any order, and
// reports an error for each: a remote one saves a round trip a chunk.
type batchCache interface {
	PutAll(ctx context.Context, puts []layout.Put, errs []error)
}

// Config says where the bytes of one shard go.
type Config struct {
	Shard layout.Shard
	Log   Log
	// ReadTail reads the durable bytes of this shard at a position, as
	// durable.Dir.ReadAt does. Needed when the log is not empty.
	ReadTail func(ctx context.Context, pos uint64, p []byte) (int, error)
	// Cache is where the recent bytes are mirrored. nil: nowhere.
	Cache Cache
	// Heartbeat is how often an idle Appender publishes again. 1 s.
	Heartbeat time.Duration
	// CacheTimeout bounds what the cache may add to one Append. 1 s. Negative:
	// no bound, for a cache in this process, which never waits.
	CacheTimeout time.Duration

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: no metrics
	Clock      func() time.Time      // nil: time.Now. Only for the heartbeat's wall clock
}

func (c Config) withDefaults() (Config, error) {
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.CacheTimeout = cmp.Or(c.CacheTimeout, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	switch {
	case c.Shard.Stream == "":
		return c, fmt.Errorf("%w: no shard is set", ErrConfig)
	case c.Log == nil:
		return c, fmt.Errorf("%w: shard %v has no durable log", ErrConfig, c.Shard)
	case c.Heartbeat < 0:
		return c, fmt.Errorf("%w: heartbeat every %v", ErrConfig, c.Heartbeat)
	}
	return c, nil
}
