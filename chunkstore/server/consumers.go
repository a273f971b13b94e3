package server

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// consumersMost bounds the consumers that are known by their reports.
	consumersMost = 4096
	// consumersTold bounds those that Stats tells of, the ones that fare worst.
	consumersTold = 32
	// reportFresh is how old a report may be to count.
	reportFresh = 10 * time.Second
)

// sourceNames are where bytes come from, as consumers report it.
var sourceNames = [...]string{"shm", "rdma", "tcp", "durable"}

// ConsumerStats is a consumer by its own account.
type ConsumerStats struct {
	wire.Report
	Addr string  `json:"addr"` // it comes from
	Age  float64 `json:"age_seconds"`
	// Rates are bytes a second by source, between its last two reports.
	Rates map[string]float64 `json:"rates"`
	// State is the worst of its shards'.
	State cause.State `json:"state"`
}

// ConsumersStats are the consumers that report to a node. What they say is shown, and
// believed by nobody but people.
type ConsumersStats struct {
	Count  int                 `json:"count"`
	States map[cause.State]int `json:"states"` // how many are in which
	// Bytes are those that were delivered while consumers reported here, by source.
	Bytes map[string]uint64 `json:"bytes"`
	// Rates are bytes a second by source, of all whose reports are fresh.
	Rates map[string]float64 `json:"rates"`
	// Worst are those that fare worst, the worst first, up to 32.
	Worst []ConsumerStats `json:"worst"`
}

// consumers keeps the last report of each connection.
type consumers struct {
	mu struct {
		sync.Mutex
		of    map[*conn]*reported
		bytes map[string]uint64
	}
}

type reported struct {
	ConsumerStats
	at time.Time
}

// report takes in what a consumer tells of itself. Shards that it may not read are left
// out: nobody paints another's streams.
func (c *conn) report(p []byte) error {
	r, err := wire.ParseReport(p)
	if err != nil {
		return err
	}
	r.Worst = slices.DeleteFunc(r.Worst, func(s wire.ReportShard) bool {
		shard, err := parseShard([]byte(s.Shard))
		return err != nil || shard.String() != s.Shard || c.mayRead(shard) != nil
	})
	if !c.s.consumers.take(c, r, time.Now()) {
		return &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d consumers report here, the limit of this node", consumersMost)}
	}
	return nil
}

// take keeps a report; false: there is no room.
func (k *consumers) take(c *conn, r wire.Report, now time.Time) bool {
	next := &reported{ConsumerStats{Report: r, Addr: c.nc.RemoteAddr().String(), State: worstOf(r.Worst), Rates: map[string]float64{}}, now}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.mu.of[c]
	if before == nil && len(k.mu.of) >= consumersMost {
		return false
	}
	if k.mu.of == nil {
		k.mu.of, k.mu.bytes = map[*conn]*reported{}, map[string]uint64{}
	}
	k.mu.of[c] = next
	if before == nil {
		return true // what it got before was elsewhere
	}
	d := now.Sub(before.at).Seconds()
	for _, source := range sourceNames {
		if n, was := r.Bytes[source], before.Bytes[source]; n > was && d > 0 {
			k.mu.bytes[source] += n - was
			next.Rates[source] = float64(n-was) / d
		}
	}
	return true
}

// worstOf is the state that matters most of those that a consumer tells.
func worstOf(shards []wire.ReportShard) cause.State {
	worst := cause.Unknown
	for i := range shards {
		var s cause.State
		if s.UnmarshalText([]byte(shards[i].State)) == nil && (s > cause.Fine || worst == cause.Unknown) && worst <= cause.Fine {
			worst = s
		}
	}
	return worst
}

// leave forgets a connection's report.
func (k *consumers) leave(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mu.of, c)
}

// stats are the consumers for Stats.
func (k *consumers) stats(now time.Time) *ConsumersStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := &ConsumersStats{Count: len(k.mu.of), States: map[cause.State]int{}, Bytes: map[string]uint64{}, Rates: map[string]float64{}}
	for _, source := range sourceNames {
		st.Bytes[source] = k.mu.bytes[source]
	}
	all := make([]*reported, 0, len(k.mu.of))
	for _, r := range k.mu.of {
		r.Age = now.Sub(r.at).Seconds()
		st.States[r.State]++
		for source, rate := range r.Rates {
			if r.Age <= reportFresh.Seconds() {
				st.Rates[source] += rate
			}
		}
		all = append(all, r)
	}
	silent := func(r *reported) int {
		if r.Age > reportFresh.Seconds() {
			return 1
		}
		return 0
	}
	bad := func(r *reported) int {
		if r.State.Bad() {
			return 1
		}
		return 0
	}
	lag := func(r *reported) (most float64) {
		for i := range r.Worst {
			most = max(most, r.Worst[i].LagTime)
		}
		return most
	}
	slices.SortFunc(all, func(a, b *reported) int {
		return cmp.Or(cmp.Compare(bad(b), bad(a)), cmp.Compare(silent(b), silent(a)), cmp.Compare(lag(b), lag(a)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Addr, b.Addr))
	})
	for _, r := range all[:min(len(all), consumersTold)] {
		st.Worst = append(st.Worst, r.ConsumerStats)
	}
	return st
}

// addConsumers adds what consumers report.
func (c *collector) addConsumers(node prometheus.Labels) {
	c.many(node, prometheus.GaugeValue, "consumers", "Consumers that report to this node, by the worst state of their shards.", []string{"state"},
		func(st Stats, emit func(float64, ...string)) {
			for _, state := range cause.States() {
				emit(float64(st.Consumers.States[state]), state.String())
			}
		})
	c.many(node, prometheus.CounterValue, "consumer_bytes_total", "Bytes delivered at the consumers that report to this node, by source, by their own account.", []string{"source"},
		func(st Stats, emit func(float64, ...string)) {
			for _, source := range sourceNames {
				emit(float64(st.Consumers.Bytes[source]), source)
			}
		})
}
