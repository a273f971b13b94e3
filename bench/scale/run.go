package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/rmatail/rmatail/bench"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/reader"
)

// Row is what one experiment gave. Rates are of all consumers, not of the sample.
type Row struct {
	Experiment
	Network Network `json:"network"`

	MovedGbps  float64 `json:"moved_gbps"`
	UsefulGbps float64 `json:"useful_gbps"`
	// MovedPerUseful are bytes by bytes.
	MovedPerUseful float64 `json:"moved_per_useful"`
	// Requests are one-sided reads a second: of length pages (with the look-up of their
	// places), and of data, descriptors and places of extents.
	Requests float64 `json:"requests_per_second"`
	Metadata float64 `json:"metadata_requests_per_second"`
	// Delivery is from the append of a byte until its consumer has it.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// StoreReads are ranged reads of the durable store; StoreStats questions for a
	// length, without the one that each Reader asks when it is opened.
	StoreReads     float64 `json:"store_reads"`
	StorePeak      float64 `json:"store_reads_per_second_peak"`
	StoreStats     float64 `json:"store_stats"`
	StoreStatsPeak float64 `json:"store_stats_per_second_peak"`
	// OpenStats are the questions of all Readers that are opened.
	OpenStats float64 `json:"open_stats"`
	Hedges    float64 `json:"hedges_per_second"`
	Quorums   float64 `json:"quorum_reads"`
	Retries   float64 `json:"retries"`
	// Data and Pages are the load of data and of metadata nodes, of each that is not lost.
	Data  Load `json:"data"`
	Pages Load `json:"metadata"`
	// Written is what the writers put into each data node on average.
	Written Writes `json:"written"`

	// Live is which part of a data node's extents has not outlived its time, SecondSets
	// which part of them is in the second of its two candidate sets.
	Live       float64 `json:"live"`
	SecondSets float64 `json:"second_sets"`

	Events int           `json:"events"`
	Took   time.Duration `json:"took_ns"`
}

// Load is that of nodes of one kind.
type Load struct {
	MeanGbps float64 `json:"mean_gbps"`
	MaxGbps  float64 `json:"max_gbps"`
	// MaxShare is the busiest node's bytes by the mean.
	MaxShare    float64       `json:"max_share"`
	MaxRequests float64       `json:"max_requests_per_second"`
	Busy        float64       `json:"busy"` // part of the time, of the busiest
	Waiting     time.Duration `json:"longest_wait_ns"`
}

// Config says what is run.
type Config struct {
	Experiments []Experiment
	Network     Network
	Progress    func(Row)
}

// Result is what all of them gave.
type Result struct {
	Command     string            `json:"command"`
	Environment bench.Environment `json:"environment"`
	Rows        []Row             `json:"rows"`
	Claims      []bench.Claim     `json:"claims"`
}

// Run runs the experiments, as many at once as there are processors. Progress may be called
// at once.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	res := &Result{Environment: bench.ThisEnvironment()}
	res.Rows = make([]Row, len(cfg.Experiments))
	errs := make([]error, len(cfg.Experiments))
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, e := range cfg.Experiments {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			res.Rows[i], errs[i] = Simulate(e, cfg.Network)
			if errs[i] == nil && cfg.Progress != nil {
				cfg.Progress(res.Rows[i])
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	res.Environment.End()
	res.Claims = claims(res.Rows)
	return res, nil
}

// view is the cluster of an experiment: data and metadata nodes are others.
func (e Experiment) view() (*cluster.View, error) {
	var d cluster.Description
	for i := range e.DataNodes {
		d.Nodes = append(d.Nodes, cluster.Node{Name: fmt.Sprintf("d%03d", i), Addr: fmt.Sprintf("d%03d:1", i), Roles: cluster.Data, Weight: 1})
	}
	for i := range e.MetadataNodes {
		d.Nodes = append(d.Nodes, cluster.Node{Name: fmt.Sprintf("m%03d", i), Addr: fmt.Sprintf("m%03d:1", i), Roles: cluster.Metadata, Weight: 1})
	}
	return cluster.NewView(d)
}

// Simulate runs one experiment.
func Simulate(e Experiment, net Network) (Row, error) {
	if err := e.check(); err != nil {
		return Row{}, err
	}
	wall := time.Now()
	view, err := e.view()
	if err != nil {
		return Row{}, err
	}
	w := newWorld(e, net, view)
	live := e.liveShare(view)
	if w.second, err = secondShare(live, view.TTL); err != nil {
		return Row{}, err
	}
	geometry, err := layout.GeometryFor(arenaBytes)
	if err != nil {
		return Row{}, err
	}
	shards := make([]layout.Shard, len(w.shards))
	for i := range w.shards {
		shards[i] = w.shards[i].Shard
	}
	site, err := reader.NewVirtualSite(w, view, geometry, shards, reader.Config{PollMin: e.Poll, PollMax: e.Poll}, began)
	if err != nil {
		return Row{}, err
	}
	var all []*reader.Virtual
	for i := range e.sampled() {
		v := site.NewVirtual()
		v.Number = i
		all = append(all, v)
		w.At(began.Add(spread(w.rng, e.Start)), &opening{w, v})
	}
	steps := w.run(w.from)
	before := total(all)
	end := w.from.Add(e.For)
	if e.Lost > 0 {
		steps += w.run(w.from.Add(e.LostAt))
		w.lose()
	}
	steps += w.run(end)
	row := w.row(before, total(all))
	row.Events, row.Took = steps, time.Since(wall)
	row.Live, row.SecondSets = live, w.second
	if row.Written, err = writes(e, net, view); err != nil {
		return Row{}, err
	}
	return row, nil
}

// spread draws a time below d.
func spread(rng *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(d)))
}

// opening is the start of a consumer.
type opening struct {
	w *world
	v *reader.Virtual
}

// Due opens the consumer's Readers, of neighbouring shards, and begins to poll.
func (o *opening) Due(now time.Time) {
	e := o.w.e
	first := o.w.rng.IntN(e.Shards/e.Follows) * e.Follows
	for s := range e.Streams {
		for n := range e.Follows {
			if err := o.v.Follow(s*e.Shards+first+n, now); err != nil {
				panic(err) // only a closed Cluster refuses
			}
		}
	}
	o.v.Due(now)
}

// total adds up what the consumers have done.
func total(all []*reader.Virtual) (t reader.Stats) {
	t.Retries = map[string]uint64{}
	for _, v := range all {
		s := v.Stats()
		t.Hedges += s.Hedges
		t.QuorumReads += s.QuorumReads
		for k, n := range s.Retries {
			t.Retries[k] += n
		}
	}
	return t
}

func (w *world) row(before, after reader.Stats) Row {
	e, c := w.e, w.count
	sec := e.For.Seconds()
	r := Row{Experiment: e, Network: w.net, MovedGbps: c.moved * 8 / 1e9 / sec, UsefulGbps: c.useful * 8 / 1e9 / sec,
		MovedPerUseful: c.moved / max(c.useful, 1), Requests: c.requests / sec, Metadata: c.pages / sec,
		P50: w.delays.quantile(0.5), P99: w.delays.quantile(0.99), Max: w.delays.max,
		StoreReads: c.storeReads, StorePeak: w.store.peak / storeSlot.Seconds(), StoreStats: c.stats, StoreStatsPeak: w.store.statsPeak / storeSlot.Seconds(),
		OpenStats: float64(e.Consumers * e.Streams * e.Follows),
		Hedges:    e.weight() * float64(after.Hedges-before.Hedges) / sec, Quorums: e.weight() * float64(after.QuorumReads-before.QuorumReads)}
	for k, n := range after.Retries {
		r.Retries += e.weight() * float64(n-before.Retries[k])
	}
	r.Data, r.Pages = w.load(w.nodes[:e.DataNodes]), w.load(w.nodes[e.DataNodes:])
	return r
}

func (w *world) load(nodes []node) (l Load) {
	sec, n := w.e.For.Seconds(), 0
	for i := range nodes {
		if nodes[i].lost {
			continue
		}
		n++
		gbps := nodes[i].bytes * 8 / 1e9 / sec
		l.MeanGbps += gbps
		l.MaxGbps = max(l.MaxGbps, gbps)
		l.MaxRequests = max(l.MaxRequests, nodes[i].reads/sec)
		l.Busy = max(l.Busy, nodes[i].busy.Seconds()/sec)
		l.Waiting = max(l.Waiting, nodes[i].waiting)
	}
	if n > 0 {
		l.MeanGbps /= float64(n)
	}
	if l.MeanGbps > 0 {
		l.MaxShare = l.MaxGbps / l.MeanGbps
	}
	return l
}
