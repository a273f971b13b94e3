package fanout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Config is a benchmark. The zero value of each field but Node and Part means its
// default.
type Config struct {
	// Node is the command of a node, to which flags are added:
	// {"/path/rmatail", "serve"}.
	Node []string
	// Part is the command that runs RunPart, to which the part is added.
	Part []string
	// JetStream is the program of bench/peers/jetstream. Empty: it is absent.
	JetStream string

	Programs  []Program  // all but RDMA
	Workloads []Workload // all
	Consumers []int      // only the cells with these numbers; all
	Shards    []int      // only the cells with these numbers; all
	// Every measures all combinations of what is asked for, and not those alone that
	// something is claimed of, or that are worth seeing beside them.
	Every Extent
	// For is how long a cell is measured: 1 s. Before it WarmUp passes: 300 ms.
	// Grace is how long late records are waited for afterwards: 1 s.
	For, WarmUp, Grace time.Duration
	Rounds             int // 5

	Listen string // of the node: 127.0.0.1:0. With RDMA an address that a device has
	Device string // RDMA device of the consumers; by route
	Dir    string // where files are made, and removed: the temporary directory
	// Progress is told what has been measured.
	Progress func(round int, r Row)
}

// Extent is how much is measured.
type Extent int

// The extents.
const (
	Chosen Extent = iota // what is claimed, and what stands beside it
	Whole                // every combination
)

const (
	minFor = 50 * time.Millisecond
	// mostReaders bounds consumers times shards of a cell: each is a wait of its own.
	mostReaders = 1 << 16
	// Consumers are divided among mostProcesses processes, or so few that each has
	// perProcess.
	mostProcesses = 4
	perProcess    = 4
)

func processesOf(consumers int) int {
	return min((consumers+perProcess-1)/perProcess, mostProcesses)
}

func (c Config) withDefaults() (Config, error) {
	if c.Programs == nil {
		for _, p := range Programs() {
			if p != RDMA {
				c.Programs = append(c.Programs, p)
			}
		}
	}
	if c.Workloads == nil {
		c.Workloads = Workloads()
	}
	c.For = cmp.Or(c.For, time.Second)
	c.WarmUp = cmp.Or(c.WarmUp, 300*time.Millisecond)
	c.Grace = cmp.Or(c.Grace, time.Second)
	c.Rounds = cmp.Or(c.Rounds, 5)
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	return c, c.validate()
}

// validate is asked after the defaults are set.
func (c Config) validate() error {
	switch {
	case len(c.Node) == 0 || len(c.Part) == 0:
		return fmt.Errorf("%w: no command of a node, or of the parts", ErrConfig)
	case c.For < minFor || c.For > time.Minute || c.WarmUp < 0 || c.WarmUp > time.Minute || c.Grace < 0 || c.Grace > time.Minute:
		return fmt.Errorf("%w: cells of %s after %s, %s to wait for late records; want %s to 1m, and at most 1m", ErrConfig, c.For, c.WarmUp, c.Grace, minFor)
	case c.Rounds < 1 || c.Rounds > 100:
		return fmt.Errorf("%w: %d rounds, want 1 to 100", ErrConfig, c.Rounds)
	}
	for _, n := range c.Consumers {
		if n < 0 || n > 4000 {
			return fmt.Errorf("%w: %d consumers, want 0 to 4,000", ErrConfig, n)
		}
	}
	for _, n := range c.Shards {
		if n < 1 || n > 1024 {
			return fmt.Errorf("%w: %d shards, want 1 to 1,024", ErrConfig, n)
		}
	}
	if len(c.cells()) == 0 {
		return fmt.Errorf("%w: no cell has these programs, workloads, consumers and shards", ErrConfig)
	}
	return nil
}

// cell is one thing to measure.
type cell struct {
	program   Program
	workload  Workload
	shards    int
	consumers int           // 0: what the producer alone costs
	poll      time.Duration // 0: the program's own way
}

const (
	fastPoll = time.Millisecond
	pollTime = 10 * time.Millisecond
	slowPoll = 50 * time.Millisecond
	many     = 120 // shards
)

// chosen are the cells that something is claimed of, and those beside them. Cells
// of different programs with the same work follow each other.
func chosen() (all []cell) {
	add := func(w Workload, shards, consumers int, poll time.Duration, programs ...Program) {
		for _, p := range programs {
			own := poll
			if own == 0 && p.polls() {
				own = pollTime
			}
			all = append(all, cell{p, w, shards, consumers, own})
		}
	}
	everybody := []Program{SHM, RDMA, TCP, RedisStreams, JetStream, Nginx, RedisGet, Memcached, Plain, Pread}
	for _, n := range []int{0, 8, 512} {
		add(Beat, 1, n, 0, everybody...)
		add(Beat, 1, n, pollTime, SHM)
	}
	for _, n := range []int{1, 64} {
		add(Beat, 1, n, 0, SHM, RDMA, TCP, RedisStreams, JetStream)
	}
	for _, n := range []int{0, 8} {
		add(Beat, many, n, 0, SHM, RDMA, TCP, RedisStreams, JetStream)
	}
	for _, n := range []int{0, 64} {
		add(Saturation, 1, n, 0, TCP, RedisStreams, JetStream, Nginx, Plain)
		add(Saturation, 1, n, pollTime, SHM)
	}
	for _, poll := range []time.Duration{fastPoll, pollTime, slowPoll} {
		add(Lines, 1, 4, poll, SHM, RDMA, Naive)
	}
	add(Lines, 1, 4, pollTime, TCP, RedisStreams, Nginx)
	add(Lines, 1, 4, 0, SHM, TCP, RedisStreams, JetStream)
	add(Flood, 1, 8, 0, SHM, TCP, RedisStreams, JetStream, Nginx, Plain)
	return all
}

// every are all combinations.
func every() (all []cell) {
	for _, w := range Workloads() {
		for _, shards := range []int{1, many} {
			for _, n := range []int{0, 1, 8, 64, 512} {
				for _, p := range Programs() {
					polls := []time.Duration{0}
					switch {
					case p.polls():
						polls[0] = pollTime
					case p.ours():
						polls = append(polls, pollTime)
					}
					for _, poll := range polls {
						all = append(all, cell{p, w, shards, n, poll})
					}
				}
			}
		}
	}
	return all
}

// cells are those of a round, in the order of the table.
func (c Config) cells() (all []cell) {
	from := chosen()
	if c.Every == Whole {
		from = every()
	}
	for _, l := range from {
		if !slices.Contains(c.Programs, l.program) || !slices.Contains(c.Workloads, l.workload) || l.program.chunks() && l.workload.record() != blockBytes ||
			len(c.Consumers) > 0 && l.consumers > 0 && !slices.Contains(c.Consumers, l.consumers) ||
			len(c.Shards) > 0 && !slices.Contains(c.Shards, l.shards) || l.shards*l.consumers > mostReaders {
			continue
		}
		all = append(all, l)
	}
	return all
}
