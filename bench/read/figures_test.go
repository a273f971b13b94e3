package read

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{5, 1, 9}, Spread{5, 1, 9}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9}},
	} {
		if got := spread(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}

// TestMediansAreOfEveryFigure sets each figure of three rounds to 1, 2 and 6 times
// a number of its own.
func TestMediansAreOfEveryFigure(t *testing.T) {
	all := make([]Figures, 3)
	for round, factor := range []float64{6, 1, 2} {
		v := reflect.ValueOf(&all[round]).Elem()
		for i := range v.NumField() {
			x := factor * float64(i+1)
			if v.Field(i).Kind() == reflect.Pointer {
				v.Field(i).Set(reflect.ValueOf(&x))
			} else {
				v.Field(i).SetFloat(x)
			}
		}
	}
	v := reflect.ValueOf(medians(all))
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				t.Errorf("%s was left out", v.Type().Field(i).Name)
				continue
			}
			f = f.Elem()
		}
		if f.Float() != 2*float64(i+1) {
			t.Errorf("median of %s is %v, want %v", v.Type().Field(i).Name, f.Float(), 2*float64(i+1))
		}
	}
	all[1].ServerCPU = nil
	if m := medians(all); m.ServerCPU != nil || m.Allocs == nil {
		t.Error("a figure that one round lacks is not left out, or another is")
	}
}

func TestPerMB(t *testing.T) {
	f := Figures{ClientCPU: 2, ServerCPU: new(3.0)}
	f.perMB(4096)
	if f.ClientCPUByMB != 512 || *f.ServerCPUByMB != 768 {
		t.Errorf("2 and 3 us for 4 KiB are %v and %v us for 1 MiB", f.ClientCPUByMB, *f.ServerCPUByMB)
	}
}

// round is a row of one round, of which only the main figures matter.
func round(c cell, ours, floor float64) Row {
	r := Row{Transport: c.transport, Kind: c.kind, Mode: c.mode, Batch: c.batch, Bytes: c.kind.bytes()}
	figures := func(v float64) Figures {
		if c.mode == Latency {
			return Figures{TTypical: v, MsgRate: 99}
		}
		return Figures{MsgRate: v, TTypical: 99}
	}
	r.Ours = figures(ours)
	if floor > 0 {
		r.Floor = new(figures(floor))
	}
	return r
}

// TestSummaryPairsRounds: the ratio is taken round by round, so that a machine that
// was slow in one of them does not show in it.
func TestSummaryPairsRounds(t *testing.T) {
	for _, m := range []Mode{Latency, Rate} {
		c := cell{RDMA, Raw, m, 1}
		rows := summaries([][]Row{{round(c, 10, 20)}, {round(c, 1, 2.5)}, {round(c, 6, 10)}})
		want := Row{OursSpread: &Spread{6, 1, 10}, FloorSpread: &Spread{10, 2.5, 20}, Ratio: &Spread{0.5, 0.4, 0.6}}
		r := rows[0]
		if len(rows) != 1 || *r.OursSpread != *want.OursSpread || *r.FloorSpread != *want.FloorSpread ||
			math.Abs(r.Ratio.Median-0.5)+math.Abs(r.Ratio.Least-0.4)+math.Abs(r.Ratio.Most-0.6) > 1e-9 || r.main(*r.Floor) != 10 {
			t.Errorf("%v: %+v, ratio %+v", m, r, r.Ratio)
		}
	}
	c := cell{RDMA, Chunk, Rate, 64}
	if r := summaries([][]Row{{round(c, 1, 0)}, {round(c, 2, 0)}})[0]; r.Floor != nil || r.Ratio != nil || r.OursSpread.Median != 1.5 {
		t.Errorf("without a floor: %+v", r)
	}
	if summaries(nil) != nil {
		t.Error("no rounds have rows")
	}
}

func TestNamesAreReadAsWritten(t *testing.T) {
	for _, v := range Transports() {
		var got Transport
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	for _, v := range Kinds() {
		var got Kind
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	for _, v := range []Mode{Latency, Rate} {
		var got Mode
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	if err := new(Kind).UnmarshalText([]byte("chonk")); !errors.Is(err, ErrConfig) {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := func(change func(*Config)) error {
		c := Config{Node: []string{"node"}}
		change(&c)
		_, err := c.withDefaults()
		return err
	}
	if err := good(func(*Config) {}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*Config){
		"no node":          func(c *Config) { c.Node = nil },
		"no transport":     func(c *Config) { c.Transports = []Transport{} },
		"batch of none":    func(c *Config) { c.Batches = []int{1, 0} },
		"batch too large":  func(c *Config) { c.Batches = []int{maxBatch + 1} },
		"too many at once": func(c *Config) { c.InFlight = maxInFlight + 1 },
		"readers":          func(c *Config) { c.Readers = -1 },
		"shards":           func(c *Config) { c.Shards = 2000 },
		"odd size":         func(c *Config) { c.ShardBytes = 1<<20 + 1 },
		"too large":        func(c *Config) { c.Shards, c.ShardBytes = 1000, 1<<30 },
		"short cells":      func(c *Config) { c.For = 1 },
		"rounds":           func(c *Config) { c.Rounds = 101 },
	} {
		if err := good(change); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClaimsHoldAtTheirBounds gives each ratio its bound, and a little less.
func TestClaimsHoldAtTheirBounds(t *testing.T) {
	bounds := []struct {
		c     cell
		bound float64
		worse float64
	}{
		{cell{RDMA, Raw, Rate, 64}, 0.95, 0.949}, {cell{RDMA, Line, Rate, 64}, 0.95, 0.949}, {cell{RDMA, Raw, Latency, 1}, 1.12, 1.121},
		{cell{SHM, Backlog, Rate, 0}, 0.75, 0.749}, {cell{TCP, Raw, Rate, 64}, 0.85, 0.849},
	}
	result := func(value func(i int) float64, idle, allocs float64) *Result {
		var rows []Row
		for i, b := range bounds {
			r := round(b.c, value(i), 1)
			if b.c.kind.verified() {
				r.Ours.Allocs = &allocs
			}
			rows = append(rows, r)
		}
		rounds := [][]Row{rows, rows, rows, rows, rows}
		return &Result{Rounds: rounds, Rows: summaries(rounds), OneSided: []OneSided{{Transport: SHM, Busy: Spread{Median: idle, Most: 2}, Idle: Spread{Median: 0.5, Most: 1}}}}
	}
	few := result(func(i int) float64 { return bounds[i].bound }, 1, 0.001)
	good, bad := claims(few), claims(result(func(i int) float64 { return bounds[i].worse }, 1.01, 1))
	if len(good) != len(bounds)+2 || len(bad) != len(good) {
		t.Fatalf("%d and %d claims, want %d", len(good), len(bad), len(bounds)+2)
	}
	for i := range good {
		if !good[i].Holds || bad[i].Holds || good[i].Text != bad[i].Text {
			t.Errorf("%s: %v with %s, %v with %s", good[i].Text, good[i].Holds, good[i].Measured, bad[i].Holds, bad[i].Measured)
		}
	}
	few.Rounds = few.Rounds[:claimedFrom-1]
	if claims(few) != nil {
		t.Error("something is claimed of few rounds")
	}
}

// TestOneSided: idle windows count for as long as those with reads took.
func TestOneSided(t *testing.T) {
	var o OneSided
	ms := time.Millisecond
	o.from([]pair{
		{busy: window{reads: 1000, took: 2 * time.Second, cpu: 6 * ms, wakes: 8}, idle: window{took: time.Second, cpu: 2 * ms, wakes: 2}},
		{busy: window{reads: 500, took: time.Second, cpu: 2 * ms, wakes: 1}, idle: window{took: time.Second, cpu: 5 * ms, wakes: 3}},
		{busy: window{reads: 2000, took: 4 * time.Second, cpu: 8 * ms, wakes: 5}, idle: window{took: 4 * time.Second, cpu: 8 * ms, wakes: 5}},
	})
	want := OneSided{Reads: 500, Seconds: 2, Busy: Spread{6000, 2000, 8000}, Idle: Spread{5000, 4000, 8000}, Ratio: Spread{1, 0.4, 1.5},
		Excess: Spread{0, -6000, 2000}, BusyWakes: &Spread{5, 1, 8}, IdleWakes: &Spread{4, 3, 5}}
	if !reflect.DeepEqual(o, want) || !o.noBusier() {
		t.Errorf("%+v %v %v, want %+v", o, o.BusyWakes, o.IdleWakes, want)
	}
	busier := OneSided{}
	busier.from([]pair{{busy: window{reads: 1, took: ms, cpu: 2, wakes: -1}, idle: window{took: ms, cpu: 1}}})
	if busier.noBusier() || busier.BusyWakes != nil {
		t.Errorf("%+v", busier)
	}
}
