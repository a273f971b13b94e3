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

// MaxRecord is the longest record, 1 MiB: what one frame carries.
const MaxRecord = 1 << 20

// Limits bound the queue of an Appender, and its batches. The zero value of each
// means its default. The defaults are small on purpose: a long queue before a slow
// sink adds waiting and nothing else.
type Limits struct {
	// QueueRecords and QueueBytes are what may wait for the sink, 1,024 records and
	// 4 MiB, whichever comes first. A record that is larger than the whole queue
	// waits alone. The batch on its way comes on top, one for each shard. At most
	// twice QueueBytes are kept alive for what waits, and twice BatchBytes for each
	// batch on its way, however long the sink hangs.
	QueueRecords, QueueBytes int
	// BatchRecords and BatchBytes end a batch, 64 records and 256 KiB. A longer
	// record is a batch of its own. BatchBytes is at most 1 MiB.
	BatchRecords, BatchBytes int
	// Linger is how long after a batch the next one may wait to become as large,
	// 2 ms. It holds up no record that has waited for the batch before, none that
	// comes when the sink was idle for that long, and none behind a batch of one.
	// Negative: it holds up nothing.
	Linger time.Duration
}

func (l Limits) withDefaults() Limits {
	l.QueueRecords = cmp.Or(l.QueueRecords, 1024)
	l.QueueBytes = cmp.Or(l.QueueBytes, 4<<20)
	l.BatchRecords = cmp.Or(l.BatchRecords, 64)
	l.BatchBytes = cmp.Or(l.BatchBytes, 256<<10)
	l.Linger = cmp.Or(l.Linger, 2*time.Millisecond)
	return l
}

func (l Limits) validate() error {
	switch {
	case l.QueueRecords < 1 || l.QueueBytes < 1:
		return fmt.Errorf("%w: queue of %d records, %d bytes; want 1 or more, 1,024 and 4 MiB are good", ErrConfig, l.QueueRecords, l.QueueBytes)
	case l.BatchRecords < 1 || l.BatchBytes < 1 || l.BatchBytes > MaxRecord:
		return fmt.Errorf("%w: batches of %d records, %d bytes; want 1 or more, and 1 MiB at most", ErrConfig, l.BatchRecords, l.BatchBytes)
	}
	return nil
}

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

// Cache takes the recent bytes of shards: a ReplicaCache. Its methods may be
// called at once, and return within a bound of its own, as nothing else bounds
// what it adds to an append.
type Cache interface {
	// Put stores pieces of chunks of one shard, in any order. errs has the length
	// of puts, is nil everywhere, and receives the error of each that was not
	// taken. The bytes of puts are borrowed until the call returns.
	Put(shard layout.Shard, puts []layout.Put, errs []error)
	// Publish moves the shard's published end. An error that matches wire.ErrLease
	// says that another writer's ballot is in the way.
	Publish(p layout.Publication) error
}

// Target is one shard and its durable store.
type Target struct {
	Shard layout.Shard
	Log   Log
	// ReadTail reads the durable bytes of this shard at a position, as
	// durable.Dir.ReadAt does. Needed when the log is not empty.
	ReadTail func(ctx context.Context, pos uint64, p []byte) (int, error)
}

// Config says where the bytes go.
type Config struct {
	// Shard, Log and ReadTail are the first Target, usually the only one.
	Shard    layout.Shard
	Log      Log
	ReadTail func(ctx context.Context, pos uint64, p []byte) (int, error)
	// More are further shards for the same records: each batch goes to whichever
	// is free, so that a sink that takes several writes at once is kept busy, and a
	// slow one holds up nobody else. Order is within each shard alone.
	More []Target
	// Cache is where the recent bytes are mirrored. nil: nowhere.
	Cache Cache
	// Policy is what becomes of a record when the queue is full. Block.
	Policy Policy
	// Limits bound the queue and the batches.
	Limits Limits
	// Workers bounds how many of the Appenders that share it write at once. nil: no
	// bound.
	Workers *Workers
	// WaitForSpace is how long a batch that met a full disk (wire.ErrFull) is tried
	// again; the queue fills meanwhile, and Policy applies. Zero: its Acks resolve
	// with the error at once.
	WaitForSpace time.Duration
	// Heartbeat is how often an idle Appender publishes again. 1 s.
	Heartbeat time.Duration

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: no metrics
	Clock      func() time.Time      // nil: time.Now. Only for the heartbeat's wall clock
}

func (c Config) withDefaults() (Config, error) {
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.Limits = c.Limits.withDefaults()
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	shards := map[layout.Shard]bool{}
	for _, t := range c.targets() {
		switch {
		case t.Shard.Stream == "":
			return c, fmt.Errorf("%w: no shard is set", ErrConfig)
		case t.Log == nil:
			return c, fmt.Errorf("%w: shard %v has no durable log", ErrConfig, t.Shard)
		case shards[t.Shard]:
			return c, fmt.Errorf("%w: shard %v twice", ErrConfig, t.Shard)
		}
		shards[t.Shard] = true
	}
	switch {
	case c.Heartbeat < 0:
		return c, fmt.Errorf("%w: heartbeat every %v", ErrConfig, c.Heartbeat)
	case c.Policy < Block || c.Policy > DropOldest:
		return c, fmt.Errorf("%w: queue policy %d, want Block, DropNewest or DropOldest", ErrConfig, int(c.Policy))
	}
	return c, c.Limits.validate()
}

func (c Config) targets() []Target {
	return append([]Target{{c.Shard, c.Log, c.ReadTail}}, c.More...)
}

// of is the configuration of what writes one of the shards.
func (c Config) of(t Target) Config {
	c.Shard, c.Log, c.ReadTail, c.More = t.Shard, t.Log, t.ReadTail, nil
	return c
}

// name is what errors call the queue.
func (c Config) name() string {
	if len(c.More) == 0 {
		return c.Shard.String()
	}
	return fmt.Sprintf("%v and %d more", c.Shard, len(c.More))
}
