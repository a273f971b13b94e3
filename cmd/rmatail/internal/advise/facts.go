package advise

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrFacts is returned when what was measured does not suffice.
var ErrFacts = errors.New("not enough was measured")

// Facts are what appenders have measured: the fields of producer.Stats that the
// decision needs, by their keys in JSON. Rates are records a second.
type Facts struct {
	Arrivals     uint64        `json:"arrivals"`
	ArrivalsPeak float64       `json:"arrivals_peak"` // of the fullest 100 ms
	ArrivalsMean float64       `json:"arrivals_mean"`
	SinkP50      time.Duration `json:"sink_p50"` // of one write, of a batch
	SinkP99      time.Duration `json:"sink_p99"`
	Drain        time.Duration `json:"drain"`     // how long something was queued without a break, the last time
	DrainMax     time.Duration `json:"drain_max"` // and the longest
	Records      uint64        `json:"records"`   // written
	Bytes        uint64        `json:"bytes"`     // of them
	Batches      uint64        `json:"batches"`
	Dropped      uint64        `json:"dropped_newest"`
	DroppedOld   uint64        `json:"dropped_oldest"`
	Blocked      uint64        `json:"blocked"`
	QueueMax     int           `json:"queue_records_max"`

	Shards int `json:"shards"` // appenders that measured; each has one write under way. 0: 1
}

// Parse reads facts: the statistics of a node (rmatail stat --json), or the
// object "producer" of them alone.
func Parse(text []byte) (Facts, error) {
	var node struct {
		Producer  json.RawMessage `json:"producer"`
		Appenders int             `json:"appenders"`
	}
	if err := json.Unmarshal(text, &node); err != nil {
		return Facts{}, fmt.Errorf("statistics: %w", err)
	}
	var f Facts
	if node.Producer != nil {
		text, f.Shards = node.Producer, node.Appenders
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return Facts{}, fmt.Errorf("statistics of the producer: %w", err)
	}
	f.Shards = max(f.Shards, 1)
	return f, nil
}

// Check says whether a decision can be made.
func (f Facts) Check() error {
	switch {
	case f.Arrivals == 0 && f.Records == 0:
		return fmt.Errorf("%w: no record has arrived. Append something, and ask again; a node that has no --dir has no appenders", ErrFacts)
	case f.SinkP50 <= 0 || f.ArrivalsMean <= 0 || f.ArrivalsPeak <= 0:
		return fmt.Errorf("%w: %d records, arrivals %.1f/s (peak %.1f/s), sink p50 %s; let producers run for some seconds", ErrFacts, f.Arrivals, f.ArrivalsMean, f.ArrivalsPeak, f.SinkP50)
	}
	return nil
}

// recordBytes is the mean size of a record, 1 if none was written.
func (f Facts) recordBytes() float64 {
	if f.Records == 0 {
		return 1
	}
	return max(float64(f.Bytes)/float64(f.Records), 1)
}

// Window replaces the rates by those of samples taken one step apart: the
// number of arrivals until then. What happened before does not count.
func (f Facts) Window(arrivals []uint64, step time.Duration) Facts {
	if len(arrivals) < 2 {
		return f
	}
	peak := uint64(0)
	for i := 1; i < len(arrivals); i++ {
		peak = max(peak, arrivals[i]-min(arrivals[i], arrivals[i-1]))
	}
	first, last := arrivals[0], arrivals[len(arrivals)-1]
	f.Arrivals = last - min(first, last)
	f.ArrivalsPeak = float64(peak) / step.Seconds()
	f.ArrivalsMean = float64(f.Arrivals) / (step * time.Duration(len(arrivals)-1)).Seconds()
	return f
}
