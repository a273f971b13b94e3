package service

import (
	"log/slog"

	"github.com/rmatail/rmatail/bench"
)

// Calls says how the handler logs a line.
type Calls string

// The ways.
const (
	None     Calls = "none"     // no statement is there
	Enabled  Calls = "enabled"  // at info, which is logged
	Disabled Calls = "disabled" // at debug, which is not
	Guarded  Calls = "guarded"  // the same, behind Logger.Enabled
)

// Path says who writes a line.
type Path string

// The paths.
const (
	Nowhere Path = "off"     // a handler that is never enabled
	Sync    Path = "sync"    // log/slog's handler: a write for each line, under its mutex
	Async   Path = "async"   // package logging without a limit: a bounded queue, a line that finds it full is dropped
	Limited Path = "limited" // package logging as a node has it: a message ten times a second
)

// Phase is one measured configuration. Its keys are an interface.
type Phase struct {
	Name string `json:"name"`
	Node bool   `json:"node"` // a node's server instead of the small service
	// HTTP gives the node a durable store with shards, a page and metrics; Watched has
	// the latter scraped and the former open.
	HTTP    bool   `json:"http,omitempty"`
	Watched bool   `json:"watched,omitempty"`
	Lines   int    `json:"lines"`
	Calls   Calls  `json:"calls"`
	Format  string `json:"format,omitempty"` // text or json
	Path    Path   `json:"path"`

	Requests          int     `json:"requests"`
	RequestsPerSecond float64 `json:"requests_per_s"`
	OfOff             float64 `json:"of_off"` // RequestsPerSecond by that of the phase without logging
	// PerProcessor is requests a second of processor time, and OfOffProcessor its
	// ratio: what other processes take away from this one does not change it.
	PerProcessor   float64 `json:"requests_per_processor_s"`
	OfOffProcessor float64 `json:"of_off_processor"`
	// Pairs are the ratios of the two phases within each round, which other work
	// meets alike: by the clock, and by processor time. Of a result's Phases only.
	Pairs          *Quartiles `json:"pairs,omitempty"`
	PairsProcessor *Quartiles `json:"pairs_processor,omitempty"`
	P50            float64    `json:"p50_ms"`
	P95            float64    `json:"p95_ms"`
	P99            float64    `json:"p99_ms"`

	LinesPerSecond float64 `json:"lines_per_s"` // that were asked for
	Dropped        uint64  `json:"dropped"`
	Held           uint64  `json:"held"`
	LogShare       float64 `json:"log_share"` // of the handlers' time

	Processors  float64 `json:"processors"`   // that were busy, on average
	SystemShare float64 `json:"system_share"` // of it, in the kernel
	Waits       []Waits `json:"waits"`
	Words       string  `json:"words"`
}

// Waits is what was waited for, by profile.
type Waits struct {
	For     string  `json:"for"`
	Blocked float64 `json:"blocked_s"`   // in the profile of blocking
	Mutex   float64 `json:"contended_s"` // in that of mutexes
}

// Phases are those of the experiment, in order.
func Phases(lines int) []Phase {
	all := []Phase{
		{Name: "no statement", Calls: None, Path: Nowhere},
		{Name: "disabled", Lines: lines, Calls: Disabled, Path: Nowhere},
		{Name: "disabled, guarded", Lines: lines, Calls: Guarded, Path: Nowhere},
	}
	for _, n := range []int{1, lines} {
		for _, path := range []Path{Sync, Async} {
			for _, format := range []string{"text", "json"} {
				all = append(all, Phase{Name: format + " " + string(path), Lines: n, Calls: Enabled, Format: format, Path: path})
			}
		}
	}
	return append(all,
		Phase{Name: "text limited", Lines: lines, Calls: Enabled, Format: "text", Path: Limited},
		Phase{Name: "node, no logger", Node: true, Calls: None, Path: Nowhere},
		Phase{Name: "node, default logging", Node: true, Calls: None, Format: "text", Path: Limited},
	)
}

// WatchPhases are those of the experiment about what it costs to be looked at.
func WatchPhases() []Phase {
	return []Phase{
		{Name: "nobody looks", Node: true, HTTP: true, Calls: None, Path: Nowhere},
		{Name: "scraped at 1 Hz, page open", Node: true, HTTP: true, Watched: true, Calls: None, Path: Nowhere},
	}
}

// Result is what an experiment found. Its keys are an interface.
type Result struct {
	Command     string            `json:"command,omitempty"`
	Environment bench.Environment `json:"environment"`
	Clients     int               `json:"clients"`
	Seconds     float64           `json:"seconds"` // of each phase
	Phases      []Phase           `json:"phases"`  // of each the round with the median requests a second
	Rounds      [][]Phase         `json:"rounds"`
	Claims      []bench.Claim     `json:"claims"`
}

// Quartiles are those of a number that each round has measured.
type Quartiles struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
}

// lineLevel is that of a line which is logged.
func (p Phase) lineLevel() slog.Level {
	if p.Calls == Enabled {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
