package reader

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/internal/spread"
)

// reportEvery is how often a process that has a name tells a node how it fares.
const reportEvery = 2 * time.Second

// reportAgain is after how long a node that took no report is tried again.
const reportAgain = 30 * time.Second

// reporter tells one node how this process fares: the first one that listens, as long
// as it is up. Of its run goroutine.
type reporter struct {
	c    *Cluster
	deaf map[*wire.Client]time.Time // that have refused a report, and until when they are left alone
	last [FromDurable]spread.Snapshot
}

func (c *Cluster) report() {
	c.observer.begin()
	r := &reporter{c: c, deaf: map[*wire.Client]time.Time{}}
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
			r.tell()
		}
	}
}

// tell sends a report, which nobody needs: that it does not arrive is no trouble.
func (r *reporter) tell() {
	client := r.listener()
	if client == nil {
		return
	}
	payload, err := r.report().AppendTo(nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(r.c.ctx, reportEvery)
		defer cancel()
		_, err = client.Call(ctx, wire.OpReport, payload, nil)
	}
	if err != nil {
		r.deaf[client] = time.Now().Add(reportAgain) // an older node, or one that has heard enough
		r.c.cfg.Logger.Debug("report not taken", "err", err)
	}
}

// listener is the connection to the first node that is up and takes reports. Those that
// have gone are forgotten.
func (r *reporter) listener() (first *wire.Client) {
	ro := r.c.roster.Load()
	if ro == nil {
		return nil
	}
	up, now := map[*wire.Client]time.Time{}, time.Now()
	for _, p := range ro.peers {
		client := p.client.Load()
		if client == nil {
			continue
		}
		up[client] = r.deaf[client]
		if first == nil && now.After(r.deaf[client]) {
			first = client
		}
	}
	r.deaf = up
	return first
}

// report is how this process fares.
func (r *reporter) report() wire.Report {
	s := r.c.Stats()
	rep := wire.Report{Name: r.c.cfg.Name, Transport: s.Transport, Bytes: s.DeliveredBy}
	rep.P50, rep.P99 = r.times()
	shards := r.c.Shards()
	rep.Shards = len(shards)
	trouble := func(s *ShardStats) int {
		if s.State.Bad() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(shards, func(a, b ShardStats) int {
		return cmp.Or(cmp.Compare(trouble(&b), trouble(&a)), cmp.Compare(b.LagTime, a.LagTime), cmp.Compare(b.Lag, a.Lag))
	})
	for i := range shards[:min(len(shards), wire.MaxReportShards)] {
		s := &shards[i]
		if i > 0 && s.State <= cause.Fine && s.Lag == 0 {
			break
		}
		rep.Worst = append(rep.Worst, wire.ReportShard{Shard: s.Shard, State: s.State.String(), Why: s.Why, Lag: s.Lag, LagTime: s.LagTime.Seconds()})
	}
	return rep
}

// times are the median and the 99th percentile of the reads of memory since the last
// report, to a power of two of microseconds, in seconds.
func (r *reporter) times() (p50, p99 float64) {
	var fresh [spread.Buckets]uint64
	total := uint64(0)
	for i := range r.last {
		now := r.c.count.times[i].Snapshot()
		for b := range fresh {
			fresh[b] += now.Below[b] - r.last[i].Below[b]
		}
		total += now.Count - r.last[i].Count
		r.last[i] = now
	}
	if total == 0 {
		return 0, 0
	}
	at := func(q float64) float64 {
		rank := uint64(q * float64(total))
		b := slices.IndexFunc(fresh[:], func(n uint64) bool { return n > rank })
		if b < 0 {
			b = spread.Buckets - 1
		}
		return spread.Bound(b).Seconds()
	}
	return at(0.5), at(0.99)
}
