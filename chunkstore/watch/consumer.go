package watch

import (
	"cmp"
	"slices"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

// consumersMost are shown.
const consumersMost = 32

// reports is what a node's statistics say of consumers.
type reports struct {
	Count  int                 `json:"count"`
	States map[cause.State]int `json:"states"`
	Rates  map[string]float64  `json:"rates"`
	Worst  []struct {
		Name      string             `json:"name"`
		Addr      string             `json:"addr"`
		Age       float64            `json:"age_seconds"`
		Transport string             `json:"transport"`
		Rates     map[string]float64 `json:"rates"`
		P50       float64            `json:"p50"`
		P99       float64            `json:"p99"`
		Shards    int                `json:"shards"`
		State     cause.State        `json:"state"`
		Worst     []reportedShard    `json:"worst"`
	} `json:"worst"`
}

type reportedShard struct {
	Shard   string  `json:"shard"`
	State   string  `json:"state"`
	Why     string  `json:"why"`
	Lag     uint64  `json:"lag"`
	LagTime float64 `json:"lag_seconds"`
}

// addConsumers takes in what consumers have told a node.
func (w *Watcher) addConsumers(f *Frame, node string, r *reports) {
	f.Reporting += r.Count
	for state, n := range r.States {
		if state.Bad() {
			f.Behind += n
		}
	}
	for i := range r.Worst {
		c := &r.Worst[i]
		one := Consumer{Name: c.Name, Node: node, Addr: c.Addr, Age: c.Age, Transport: c.Transport, Rates: c.Rates, P50: c.P50, P99: c.P99, Shards: c.Shards, State: c.State}
		f.Totals.ReadP99 = max(f.Totals.ReadP99, c.P99)
		for k := range c.Worst {
			s := &c.Worst[k]
			var state cause.State
			if state.UnmarshalText([]byte(s.State)) != nil {
				continue // of a later version
			}
			if one.Shard == "" {
				one.Shard, one.State, one.Why, one.Lag, one.LagTime = s.Shard, state, s.Why, s.Lag, s.LagTime
			}
			if c.Age <= survey.FreshReport {
				w.heard[s.Shard] = append(w.heard[s.Shard], cause.Verdict{State: state, Why: "consumer " + c.Name + ": " + s.Why})
			}
		}
		f.Consumers = append(f.Consumers, one)
	}
}

// fewest keeps the consumers that fare worst.
func (f *Frame) fewest() {
	trouble := func(c *Consumer) int {
		switch {
		case c.State.Bad():
			return 0
		case c.Age > survey.FreshReport:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(f.Consumers, func(a, b Consumer) int {
		return cmp.Or(cmp.Compare(trouble(&a), trouble(&b)), cmp.Compare(b.LagTime, a.LagTime), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Addr, b.Addr))
	})
	f.Consumers = f.Consumers[:min(len(f.Consumers), consumersMost)]
}

// withConsumers adds what consumers say of a shard. Of its producer the nodes know more.
func withConsumers(v cause.Verdict, heard []cause.Verdict) cause.Verdict {
	all := []cause.Verdict{v}
	for _, h := range heard {
		if survey.OfConsumers(h.State) {
			all = append(all, h)
		}
	}
	return survey.First(all)
}
