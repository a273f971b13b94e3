package sink

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/bench"
)

// Row is one measured configuration. Its keys are an interface.
type Row struct {
	Mode  Mode `json:"mode"`
	Cap   int  `json:"cap"`   // 0: there is no queue
	Batch int  `json:"batch"` // records of one write, at most
	Wait  Wait `json:"wait"`

	Offered          int     `json:"offered"`
	Produced         int     `json:"produced"` // taken
	Dropped          int     `json:"dropped"`
	Written          int     `json:"written"`
	Writes           int     `json:"writes"` // of the sink
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_s"` // written, until the last one is

	E2E     Quantiles `json:"e2e_us"`
	Enqueue Quantiles `json:"enqueue_us"`
	Sink    Quantiles `json:"sink_us"` // one write

	HeapBefore uint64 `json:"heap_before_bytes"` // of earlier rows: the runtime keeps its descriptors of goroutines that have ended
	HeapMax    uint64 `json:"heap_max_bytes"`
	StacksMax  uint64 `json:"stacks_max_bytes"`
	// GoroutinesBefore were there already: the process's, the sink's, and one that
	// looks for these peaks.
	GoroutinesBefore uint64 `json:"goroutines_before"`
	GoroutinesMax    uint64 `json:"goroutines_max"`
}

// Quantiles are in microseconds.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

func quantiles(values []time.Duration) Quantiles {
	s := bench.Sorted(values)
	q := func(q float64) float64 { return bench.Micros(bench.Quantile(s, q)) }
	return Quantiles{Mean: bench.Micros(bench.Mean(s)), P50: q(0.50), P95: q(0.95), P99: q(0.99), Max: q(1)}
}

// Name names the configuration, without its wait.
func (r Row) Name() string {
	switch r.Mode {
	case Direct, Semaphore, Appender:
		return r.Mode.String()
	}
	return fmt.Sprintf("%s %d x %d", r.Mode, r.Cap, r.Batch)
}

// same says whether two rows are of one configuration.
func (r Row) same(o Row) bool {
	return r.Mode == o.Mode && r.Cap == o.Cap && r.Batch == o.Batch && r.Wait == o.Wait
}

// medians returns for each configuration the row of the round with the median
// throughput, whole, so that its numbers belong together.
func medians(rounds [][]Row) (rows []Row) {
	if len(rounds) == 0 {
		return nil
	}
	for _, r := range rounds[0] {
		all := Spread(rounds, r)
		rows = append(rows, all[len(all)/2])
	}
	return rows
}

// Spread returns the rows of r's configuration in all rounds, slowest first.
func Spread(rounds [][]Row, r Row) (all []Row) {
	for _, round := range rounds {
		for _, o := range round {
			if o.same(r) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.RecordsPerSecond, b.RecordsPerSecond) })
	return all
}
