package read

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrConfig is returned when a setting is out of bounds.
var ErrConfig = errors.New("read benchmark")

// Config is a benchmark. The zero value of each field but Node means its
// default.
type Config struct {
	// Node is the command of a node, to which flags are added:
	// {"/path/rmatail", "serve"}.
	Node []string
	// TCPFloor is the command that runs ServeFloor. Empty: tcp has no floor.
	TCPFloor []string
	// VerbsFloor is the program of bench/verbs_floor. Empty: rdma has no floor.
	VerbsFloor string
	// Redis is the redis-server that raw reads over tcp are compared with, if both are
	// measured. Empty: with none.
	Redis string

	Transports []Transport // SHM and TCP
	Kinds      []Kind      // all
	Batches    []int       // of mode Rate: 1, 16, 64
	InFlight   int         // batches on their way for each reader, in mode Rate: 1
	Readers    int         // 1
	Shards     int         // 1
	ShardBytes int         // of whole chunks, for each shard: 32 MiB
	// For is how long a cell is measured: 300 ms. Rounds: 5.
	For    time.Duration
	Rounds int
	// OneSided is how many reads the processor time of the node is measured over:
	// 300,000; negative: not measured. Windows are at least OneSidedFor: 2 s.
	OneSided    int
	OneSidedFor time.Duration

	Listen string // of the node: 127.0.0.1:0. With RDMA an address that a device has
	Device string // RDMA device of the readers; by route
	Dir    string // where the durable files are made, and removed: the temporary directory
	// Progress is told what has been measured.
	Progress func(round int, r Row)
}

const (
	maxBatch    = 256
	maxInFlight = 16
	minFor      = 10 * time.Millisecond
	// fillPart is what one append of the filling has.
	fillPart = 1 << 20
)

func (c Config) withDefaults() (Config, error) {
	if c.Transports == nil {
		c.Transports = []Transport{SHM, TCP}
	}
	if c.Kinds == nil {
		c.Kinds = Kinds()
	}
	if c.Batches == nil {
		c.Batches = []int{1, 16, 64}
	}
	c.InFlight = cmp.Or(c.InFlight, 1)
	c.Readers = cmp.Or(c.Readers, 1)
	c.Shards = cmp.Or(c.Shards, 1)
	c.ShardBytes = cmp.Or(c.ShardBytes, 32<<20)
	c.For = cmp.Or(c.For, 300*time.Millisecond)
	c.Rounds = cmp.Or(c.Rounds, 5)
	c.OneSided = cmp.Or(c.OneSided, 300_000)
	c.OneSidedFor = cmp.Or(c.OneSidedFor, 2*time.Second)
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if !slices.Contains(c.Transports, TCP) || !slices.Contains(c.Kinds, Raw) {
		c.Redis = ""
	}
	return c, c.validate()
}

// validate is asked after the defaults are set.
func (c Config) validate() error {
	for _, b := range c.Batches {
		if b < 1 || b > maxBatch {
			return fmt.Errorf("%w: batches of %d reads, want 1 to %d", ErrConfig, b, maxBatch)
		}
	}
	switch {
	case len(c.Node) == 0:
		return fmt.Errorf("%w: no command of a node", ErrConfig)
	case len(c.Transports) == 0 || len(c.Kinds) == 0 || len(c.Batches) == 0:
		return fmt.Errorf("%w: %d transports, %d kinds of reads, %d batches: nothing to measure", ErrConfig, len(c.Transports), len(c.Kinds), len(c.Batches))
	case c.InFlight < 1 || c.InFlight > maxInFlight:
		return fmt.Errorf("%w: %d batches in flight, want 1 to %d", ErrConfig, c.InFlight, maxInFlight)
	case c.Readers < 1 || c.Readers > 1024:
		return fmt.Errorf("%w: %d readers, want 1 to 1,024", ErrConfig, c.Readers)
	case c.Shards < 1 || c.Shards > 1024:
		return fmt.Errorf("%w: %d shards, want 1 to 1,024", ErrConfig, c.Shards)
	case c.ShardBytes < fillPart || c.ShardBytes%fillPart != 0 || c.ShardBytes*c.Shards > 16<<30:
		return fmt.Errorf("%w: %d shards of %d bytes, want multiples of 1 MiB, 16 GiB in all", ErrConfig, c.Shards, c.ShardBytes)
	case c.For < minFor || c.For > time.Hour || c.OneSidedFor < 0 || c.OneSidedFor > time.Hour:
		return fmt.Errorf("%w: cells of %s, windows of %s, want %s to 1h", ErrConfig, c.For, c.OneSidedFor, minFor)
	case c.Rounds < 1 || c.Rounds > 100:
		return fmt.Errorf("%w: %d rounds, want 1 to 100", ErrConfig, c.Rounds)
	}
	return nil
}

// cell is one thing to measure.
type cell struct {
	transport Transport
	kind      Kind
	mode      Mode
	batch     int // 0: the reader's own
}

// inFlight is how many batches of a cell are on their way.
func (c Config) inFlight(l cell) int {
	if l.mode == Latency || l.kind == Backlog {
		return 1
	}
	return c.InFlight
}

// cells are all, in the order of the table.
func (c Config) cells() (all []cell) {
	for _, t := range c.Transports {
		for _, k := range c.Kinds {
			if k == Backlog {
				all = append(all, cell{t, k, Rate, 0})
				continue
			}
			all = append(all, cell{t, k, Latency, 1})
			for _, b := range c.Batches {
				all = append(all, cell{t, k, Rate, b})
			}
		}
	}
	return all
}
