package sink

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/rmatail/rmatail/bench"
)

// ErrConfig is returned when a setting is out of bounds.
var ErrConfig = errors.New("sink experiment")

const (
	processors = 2
	// maxRecords bounds the memory: each record has 16 bytes of results, and in
	// mode direct a goroutine of 2 KiB or more.
	maxRecords = 2_000_000
)

// Config is an experiment. Zero values mean the published one.
type Config struct {
	Records     int    // 50,000
	RecordBytes int    // 200; the simulated sink does not care
	Waits       []Wait // Sleep, Exact and Held
	Dir         string // where stores are made, for Store
	Rounds      int    // 1; all rows, then all rows again, so that a change of load meets them alike
	Rows        []Row  // modes, caps and batches; Rows() if nil
	Progress    func(round int, r Row)
}

// Result is what an experiment found. Its keys are an interface.
type Result struct {
	Command     string            `json:"command,omitempty"`
	Environment bench.Environment `json:"environment"`
	Records     int               `json:"records"`
	RecordBytes int               `json:"record_bytes"`
	Rows        []Row             `json:"rows"`   // of each configuration the round with the median throughput
	Rounds      [][]Row           `json:"rounds"` // all
	Claims      []bench.Claim     `json:"claims"`
}

// Rows are the configurations: the published seven, and those that it lacks.
func Rows() []Row {
	rows := []Row{{Mode: Direct, Batch: 1}, {Mode: Semaphore, Batch: 1}}
	for _, room := range []int{256, 4096, 65536} {
		for _, batch := range []int{1, 64} {
			rows = append(rows, Row{Mode: Queue, Cap: room, Batch: batch})
		}
	}
	return append(rows, Row{Mode: Blocking, Cap: 256, Batch: 1}, Row{Mode: Blocking, Cap: 256, Batch: 64}, Row{Mode: Blocking, Cap: 4096, Batch: 64}, Row{Mode: Appender, Cap: appenderRoom, Batch: appenderBatch})
}

func (c Config) withDefaults() (Config, error) {
	if c.Records == 0 {
		c.Records = 50_000
	}
	if c.RecordBytes == 0 {
		c.RecordBytes = 200
	}
	if c.Waits == nil {
		c.Waits = []Wait{Sleep, Exact, Held}
	}
	if c.Rounds == 0 {
		c.Rounds = 1
	}
	if c.Rows == nil {
		c.Rows = Rows()
	}
	switch {
	case c.Records < 1 || c.Records > maxRecords:
		return c, fmt.Errorf("%w: %d records, want 1 to %d", ErrConfig, c.Records, maxRecords)
	case c.RecordBytes < 1 || c.RecordBytes > 4096:
		return c, fmt.Errorf("%w: records of %d B, want 1 to 4,096", ErrConfig, c.RecordBytes)
	case c.Rounds < 1 || c.Rounds > 100:
		return c, fmt.Errorf("%w: %d rounds, want 1 to 100", ErrConfig, c.Rounds)
	}
	return c, nil
}

// Run measures all rows, with GOMAXPROCS 2 meanwhile. When ctx ends, it stops
// within the current row.
func Run(ctx context.Context, c Config) (*Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	res := &Result{Environment: bench.ThisEnvironment(), Records: c.Records, RecordBytes: c.RecordBytes}
	for n := range c.Rounds {
		var round []Row
		for _, wait := range c.Waits {
			for _, row := range c.Rows {
				row.Wait = wait
				row, err := measure(ctx, row, c.Records, c.RecordBytes, c.Dir)
				if err != nil {
					return nil, err
				}
				round = append(round, row)
				if c.Progress != nil {
					c.Progress(n+1, row)
				}
			}
		}
		res.Rounds = append(res.Rounds, round)
	}
	res.Rows = medians(res.Rounds)
	res.Claims = claims(res.Rows)
	res.Environment.End()
	return res, nil
}
