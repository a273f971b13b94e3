package read

import (
	"cmp"
	"slices"
)

// mib is perftest's MB.
const mib = 1 << 20

// Figures are what one measurement of a cell gave, or the medians of several. The
// package comment has the keys.
type Figures struct {
	Reads   float64 `json:"reads"`
	Seconds float64 `json:"seconds"`

	TMin     float64 `json:"t_min_usec,omitempty"`
	TMax     float64 `json:"t_max_usec,omitempty"`
	TTypical float64 `json:"t_typical_usec,omitempty"`
	TAvg     float64 `json:"t_avg_usec,omitempty"`
	TStdev   float64 `json:"t_stdev_usec,omitempty"`
	P10      float64 `json:"p10_usec,omitempty"`
	P90      float64 `json:"p90_usec,omitempty"`
	P99      float64 `json:"p99_usec,omitempty"`
	P999     float64 `json:"p99_9_usec,omitempty"`

	BWPeak    float64 `json:"bw_peak_mbps"`
	BWAverage float64 `json:"bw_average_mbps"`
	MsgRate   float64 `json:"msg_rate_mpps"`

	Allocs        *float64 `json:"allocs_per_read,omitempty"`
	ClientCPU     float64  `json:"client_cpu_usec_per_read"`
	ServerCPU     *float64 `json:"server_cpu_usec_per_read,omitempty"`
	ClientCPUByMB float64  `json:"client_cpu_usec_per_mb"`
	ServerCPUByMB *float64 `json:"server_cpu_usec_per_mb,omitempty"`
}

// perMB fills what follows from the other figures.
func (f *Figures) perMB(bytes int) {
	by := mib / float64(bytes)
	f.ClientCPUByMB = f.ClientCPU * by
	if f.ServerCPU != nil {
		f.ServerCPUByMB = new(*f.ServerCPU * by)
	}
}

// Spread is a figure of all rounds.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// spread returns the median of values, of an even number the mean of the two in
// the middle; zero of none.
func spread(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return Spread{}
	}
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Least: s[0], Most: s[n-1]}
}

// medians returns the medians of all figures. A figure that not all have is left
// out.
func medians(all []Figures) (m Figures) {
	one := func(of func(*Figures) *float64) {
		values := make([]float64, 0, len(all))
		for i := range all {
			values = append(values, *of(&all[i]))
		}
		*of(&m) = spread(values).Median
	}
	for _, of := range []func(*Figures) *float64{
		func(f *Figures) *float64 { return &f.Reads }, func(f *Figures) *float64 { return &f.Seconds },
		func(f *Figures) *float64 { return &f.TMin }, func(f *Figures) *float64 { return &f.TMax },
		func(f *Figures) *float64 { return &f.TTypical }, func(f *Figures) *float64 { return &f.TAvg },
		func(f *Figures) *float64 { return &f.TStdev },
		func(f *Figures) *float64 { return &f.P10 }, func(f *Figures) *float64 { return &f.P90 },
		func(f *Figures) *float64 { return &f.P99 }, func(f *Figures) *float64 { return &f.P999 },
		func(f *Figures) *float64 { return &f.BWPeak }, func(f *Figures) *float64 { return &f.BWAverage },
		func(f *Figures) *float64 { return &f.MsgRate },
		func(f *Figures) *float64 { return &f.ClientCPU }, func(f *Figures) *float64 { return &f.ClientCPUByMB },
	} {
		one(of)
	}
	for _, of := range []func(*Figures) **float64{
		func(f *Figures) **float64 { return &f.Allocs },
		func(f *Figures) **float64 { return &f.ServerCPU }, func(f *Figures) **float64 { return &f.ServerCPUByMB },
	} {
		values := make([]float64, 0, len(all))
		for i := range all {
			if v := *of(&all[i]); v != nil {
				values = append(values, *v)
			}
		}
		if len(all) > 0 && len(values) == len(all) {
			*of(&m) = new(spread(values).Median)
		}
	}
	return m
}

// Row is a cell and its figures: of one round, or the medians of all.
type Row struct {
	Transport Transport `json:"transport"`
	Kind      Kind      `json:"read"`
	Mode      Mode      `json:"mode"`
	Batch     int       `json:"batch"` // 0: the reader's own
	Bytes     int       `json:"bytes"`

	Ours  Figures  `json:"ours"`
	Floor *Figures `json:"floor,omitempty"`

	OursSpread  *Spread `json:"ours_spread,omitempty"`
	FloorSpread *Spread `json:"floor_spread,omitempty"`
	Ratio       *Spread `json:"ratio,omitempty"` // ours by the floor's
}

func (r Row) cell() cell { return cell{r.Transport, r.Kind, r.Mode, r.Batch} }

// main is the figure that a row is compared by.
func (r Row) main(f Figures) float64 {
	if r.Mode == Latency {
		return f.TTypical
	}
	return f.MsgRate
}

// summary makes one row of a cell's rows in all rounds.
func summary(rounds []Row) Row {
	r := rounds[0]
	r.OursSpread, r.FloorSpread, r.Ratio, r.Floor = nil, nil, nil, nil
	var ours, floors []Figures
	var main, floorMain, ratios []float64
	for _, o := range rounds {
		ours = append(ours, o.Ours)
		main = append(main, o.main(o.Ours))
		if o.Floor == nil {
			continue
		}
		floors = append(floors, *o.Floor)
		floorMain = append(floorMain, o.main(*o.Floor))
		if f := o.main(*o.Floor); f > 0 {
			ratios = append(ratios, o.main(o.Ours)/f)
		}
	}
	r.Ours, r.OursSpread = medians(ours), new(spread(main))
	if len(floors) == len(rounds) {
		r.Floor, r.FloorSpread, r.Ratio = new(medians(floors)), new(spread(floorMain)), new(spread(ratios))
	}
	return r
}

// summaries are the rows of all cells, in the order of the first round.
func summaries(rounds [][]Row) (rows []Row) {
	if len(rounds) == 0 {
		return nil
	}
	for i := range rounds[0] {
		var of []Row
		for _, round := range rounds {
			of = append(of, round[i])
		}
		rows = append(rows, summary(of))
	}
	return rows
}

// find returns the row of a cell, nil if it was not measured.
func find(rows []Row, c cell) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.cell() == c })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// largest is the largest batch.
func largest(batches []int) int { return slices.MaxFunc(batches, cmp.Compare) }
