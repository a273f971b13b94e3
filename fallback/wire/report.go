package wire

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of a Report.
const (
	// MaxReport is how many bytes a Report has at most: few enough for nodes that do not
	// know it to refuse it in words.
	MaxReport       = 4000
	MaxReportShards = 8
	maxReportWhy    = 200 // bytes of a sentence
	maxReportWord   = 32  // bytes of a state, a transport or a source
	maxReportBytes  = 8   // sources
)

// Report is what a consumer tells of itself, for people who look at the node: it says
// nothing that a node goes by. Its JSON keys are an interface.
type Report struct {
	// Name is what the consumer calls itself.
	Name string `json:"name"`
	// Transport is the best one in use, or "none".
	Transport string `json:"transport"`
	// Bytes are those delivered since the consumer began, by source.
	Bytes map[string]uint64 `json:"bytes"`
	// P50 and P99 are what its reads took of late, in seconds; 0: there were none.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Shards is how many it follows, Worst those of them that fare worst, the worst first.
	Shards int           `json:"shards"`
	Worst  []ReportShard `json:"worst,omitempty"`
}

// ReportShard is how a shard fares at a consumer.
type ReportShard struct {
	Shard   string  `json:"shard"`
	State   string  `json:"state"` // as package chunkstore/cause names it
	Why     string  `json:"why"`
	Lag     uint64  `json:"lag"`         // bytes that exist and are not delivered
	LagTime float64 `json:"lag_seconds"` // for how long they have waited
}

// AppendTo appends r's payload to dst, with as many of Worst, and as much of their
// sentences, as there is room for.
func (r Report) AppendTo(dst []byte) ([]byte, error) {
	worst := make([]ReportShard, min(len(r.Worst), MaxReportShards))
	copy(worst, r.Worst)
	for i := range worst {
		worst[i].Why = cut(strings.ToValidUTF8(worst[i].Why, "?"), maxReportWhy)
	}
	r.Name = cut(strings.ToValidUTF8(r.Name, "?"), MaxName)
	for {
		r.Worst = worst
		b, err := json.Marshal(r)
		if err != nil {
			return dst, fmt.Errorf("report: %w", err)
		}
		if len(b) <= MaxReport {
			return append(dst, b...), nil
		}
		if len(worst) == 0 {
			return dst, fmt.Errorf("report of %d B, want at most %d: %w", len(b), MaxReport, ErrTooLarge)
		}
		worst = worst[:len(worst)-1]
	}
}

// ParseReport reads a Report request. Texts may be of any characters: who shows them has
// to beware.
func ParseReport(p []byte) (r Report, err error) {
	if len(p) > MaxReport {
		return r, fmt.Errorf("report of %d B, want at most %d: %w", len(p), MaxReport, ErrBadRequest)
	}
	if err := json.Unmarshal(p, &r); err != nil {
		return r, fmt.Errorf("report: %w: %w", err, ErrBadRequest)
	}
	ok := r.Name != "" && len(r.Name) <= MaxName && len(r.Transport) <= maxReportWord && r.Shards >= 0 && len(r.Worst) <= MaxReportShards &&
		len(r.Bytes) <= maxReportBytes && r.P50 >= 0 && r.P99 >= 0
	for source := range r.Bytes {
		ok = ok && len(source) <= maxReportWord
	}
	for i := range r.Worst {
		s := &r.Worst[i]
		ok = ok && s.Shard != "" && len(s.Shard) <= MaxShard && len(s.State) <= maxReportWord && len(s.Why) <= maxReportWhy && s.LagTime >= 0
	}
	if !ok {
		return r, fmt.Errorf("report out of its bounds: %w", ErrBadRequest)
	}
	return r, nil
}
