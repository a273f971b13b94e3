package fanout

import "slices"

// Row is a cell and what was measured of it, in one round or the medians of all.
type Row struct {
	Program   Program  `json:"program"`
	Workload  Workload `json:"workload"`
	Shards    int      `json:"shards"`
	Consumers int      `json:"consumers"`
	Poll      float64  `json:"poll_ms"` // 0: the program's own way
	Figures
	// Least and Most are those of the rounds; in rows of medians.
	Least *Figures `json:"least,omitempty"`
	Most  *Figures `json:"most,omitempty"`
	// Failed says why the cell could not be measured (in a row of medians: in the last
	// round that could not), and Failures in how many rounds it could not.
	Failed   string `json:"failed,omitempty"`
	Failures int    `json:"failures,omitempty"`
}

// Figures are what is measured.
type Figures struct {
	Produced  float64 `json:"produced_mbps"` // MB is 1e6 bytes
	Late      float64 `json:"late_ms"`       // the most by which a record was late for its schedule
	Delivered float64 `json:"delivered_mbps"`
	Share     float64 `json:"share"`   // of what all consumers were to get in the window at the workload's rate; 0 at full speed
	Missing   float64 `json:"missing"` // of the records that were produced in the window, not delivered within the grace
	P50       float64 `json:"p50_ms"`  // from the producer's hand to the consumer's
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	// Processor time: of the server, of the producer by second, of the consumers by
	// delivered MB. Beyond is what the server uses more than for the same producer with
	// no consumers.
	Server      float64 `json:"server_cpu_ms_per_s"`
	ServerPerMB float64 `json:"server_cpu_ms_per_mb"`
	Beyond      float64 `json:"server_cpu_beyond_ms_per_mb"`
	Producer    float64 `json:"producer_cpu_ms_per_s"`
	ClientPerMB float64 `json:"client_cpu_ms_per_mb"`
	Moved       float64 `json:"moved_per_byte"`  // bytes moved for each delivered one
	Requests    float64 `json:"requests_per_kb"` // requests for 1,000 delivered bytes
	Durable     float64 `json:"durable_share"`   // of the delivered bytes, from the durable store; of ours
	Traffic     traffic `json:"traffic"`         // of the window
}

// fields are what medians are taken of.
func (f *Figures) fields() []*float64 {
	return []*float64{&f.Produced, &f.Late, &f.Delivered, &f.Share, &f.Missing, &f.P50, &f.P99, &f.Max, &f.Server, &f.ServerPerMB, &f.Beyond,
		&f.Producer, &f.ClientPerMB, &f.Moved, &f.Requests, &f.Durable}
}

// key is a row's cell, to find it by.
type key struct {
	program           Program
	workload          Workload
	shards, consumers int
	poll              float64
}

func (r Row) key() key { return key{r.Program, r.Workload, r.Shards, r.Consumers, r.Poll} }

func find(rows []Row, k key) *Row {
	for i := range rows {
		if rows[i].key() == k {
			return &rows[i]
		}
	}
	return nil
}

// beyond computes what the server of each row of a round used beyond what it uses
// for the producer alone, where that was measured: the median of all such cells of
// that server, as the producer's work is the same however consumers follow.
func beyond(round []Row) {
	for i := range round {
		r := &round[i]
		if r.Consumers == 0 || r.Delivered <= 0 {
			continue
		}
		var alone []float64
		for _, a := range round {
			if a.Consumers == 0 && a.Failed == "" && a.Workload == r.Workload && a.Shards == r.Shards && family(a.Program) == family(r.Program) {
				alone = append(alone, a.Server)
			}
		}
		if len(alone) > 0 {
			r.Beyond = (r.Server - median(alone)) / r.Delivered
		}
	}
}

// summaries are the medians of rounds. The cells of all rounds are the same.
func summaries(rounds [][]Row) (all []Row) {
	for _, first := range rounds[0] {
		sum := Row{Program: first.Program, Workload: first.Workload, Shards: first.Shards, Consumers: first.Consumers, Poll: first.Poll}
		var of []*Row
		for _, round := range rounds {
			r := find(round, first.key())
			if r == nil {
				continue
			}
			if r.Failed != "" {
				sum.Failed = r.Failed
				sum.Failures++
				continue
			}
			of = append(of, r)
		}
		if len(of) > 0 {
			sum.Least, sum.Most = new(Figures), new(Figures)
			to, least, most := sum.fields(), sum.Least.fields(), sum.Most.fields()
			for i := range to {
				var values []float64
				for _, r := range of {
					values = append(values, *r.fields()[i])
				}
				*to[i], *least[i], *most[i] = median(values), slices.Min(values), slices.Max(values)
			}
			sum.Traffic = of[len(of)/2].Traffic
		}
		all = append(all, sum)
	}
	return all
}

// median sorts values.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
