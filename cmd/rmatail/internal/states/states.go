// Package states says why delivery of each shard of a survey is slow: what `rmatail
// stat` shows as its state.
//
// It puts together what three kinds of observers tell (see package cause): the survey,
// of lengths and leases; the nodes, which have seen heartbeats come, and know what
// their appenders wait for; and, if it is told where, consumers, by their metrics. The
// first kind of trouble in the order of package cause is the shard's state.
//
// A node tells about the first so many shards (server.Config.ShardMetrics), and of those
// in trouble of the rest. For the others the producer's clock is believed, unless its
// heartbeat has moved between two surveys.
package states

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

// Settle decides the state of each shard of a Report. before is a survey of the same
// some time ago, for what takes two looks; nil: there was none.
func Settle(r, before *survey.Report, apart time.Duration, consumers []Consumer, now time.Time) {
	nodes, said := tellings(r), reports(r)
	for i := range r.Shards {
		s := &r.Shards[i]
		var old *survey.Shard
		if before != nil {
			if k := slices.IndexFunc(before.Shards, func(o survey.Shard) bool { return o.Shard == s.Shard }); k >= 0 {
				old = &before.Shards[k]
			}
		}
		f := facts(s, old, apart, nodes[s.Shard], now)
		all := []cause.Verdict{survey.Weigh(cause.Decide(f), f.Leased.V, nodes[s.Shard])}
		for _, c := range consumers {
			if v, ok := c.verdict(s.Shard); ok {
				all = append(all, v)
			}
		}
		all = append(all, said[s.Shard]...)
		s.Verdict = survey.First(all)
	}
}

// Unsettled reports whether a second look would tell more.
func Unsettled(r *survey.Report) bool {
	nodes := tellings(r)
	return slices.ContainsFunc(r.Shards, func(s survey.Shard) bool {
		return !s.Sealed && (s.Lag > 0 || len(nodes[s.Shard]) == 0)
	})
}

// tellings are what the nodes tell, by shard.
func tellings(r *survey.Report) map[string][]survey.Told {
	all := map[string][]survey.Told{}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		type shard struct {
			Shard string `json:"shard"`
			survey.Told
		}
		var st struct {
			Shards []shard `json:"shards"`
			Others []shard `json:"others"`
		}
		if !n.Up || json.Unmarshal(n.Stat, &st) != nil { // an older node
			continue
		}
		for _, s := range append(st.Shards, st.Others...) {
			s.Node = n.Name
			all[s.Shard] = append(all[s.Shard], s.Told)
		}
	}
	return all
}

// reports are what consumers have told nodes of late, by shard. Of its producer the nodes
// know more.
func reports(r *survey.Report) map[string][]cause.Verdict {
	all := map[string][]cause.Verdict{}
	for i := range r.Nodes {
		var st struct {
			Consumers struct {
				Worst []struct {
					Name  string  `json:"name"`
					Age   float64 `json:"age_seconds"`
					Worst []struct{ Shard, State, Why string }
				}
			}
		}
		if !r.Nodes[i].Up || json.Unmarshal(r.Nodes[i].Stat, &st) != nil {
			continue
		}
		for _, c := range st.Consumers.Worst {
			for _, s := range c.Worst {
				var state cause.State
				if state.UnmarshalText([]byte(s.State)) == nil && survey.OfConsumers(state) && c.Age <= survey.FreshReport {
					all[s.Shard] = append(all[s.Shard], cause.Verdict{State: state, Why: "consumer " + c.Name + ": " + s.Why})
				}
			}
		}
	}
	return all
}

// facts are a shard's as the survey has seen it.
func facts(s, old *survey.Shard, apart time.Duration, nodes []survey.Told, now time.Time) cause.Facts {
	f := cause.Facts{Stored: cause.Know(s.Length), Sealed: s.Sealed}
	asked, held, beat, hidden := 0, false, uint64(0), false
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.Error != "" {
			continue
		}
		asked++
		held = held || r.Writer != "" && r.Left > 0
		beat, hidden = max(beat, r.Heartbeat), hidden || r.Hidden
	}
	f.CacheAnswers = cause.Know(asked > 0)
	if asked == 0 {
		return f
	}
	f.Leased = cause.Know(held)
	if !hidden { // in a tenant's memory: only nodes can tell
		f.CacheKnows = cause.Know(beat > 0)
	}
	if beat > 0 || hidden && len(nodes) > 0 {
		f.Published = cause.Know(s.Length - s.Lag)
		f.HeartbeatAge = cause.Know(max(now.Sub(time.UnixMilli(int64(beat))), 0)) // by the producer's clock, unless more is known
	}
	if len(nodes) > 0 {
		f.HeartbeatAge, f.PublishedAge = cause.Know(survey.Youngest(nodes, func(n survey.Told) float64 { return n.HeartbeatAge })), cause.Know(survey.Youngest(nodes, func(n survey.Told) float64 { return n.PublishAge }))
	}
	if old == nil {
		return f
	}
	f.Window, f.StoredGrew = apart, cause.Know(s.Length-min(old.Length, s.Length))
	if len(nodes) == 0 && beat > 0 && beat != heartbeat(old) {
		f.HeartbeatAge = cause.Know(time.Duration(0)) // it beats, whatever its clock says
	}
	if s.Lag > 0 && old.Lag > 0 {
		f.BehindFor = cause.Know(apart)
		if !f.PublishedAge.Known && s.Length-s.Lag != old.Length-old.Lag {
			f.PublishedAge = cause.Know(time.Duration(0))
		}
	}
	return f
}

func heartbeat(s *survey.Shard) (beat uint64) {
	for i := range s.Replicas {
		beat = max(beat, s.Replicas[i].Heartbeat)
	}
	return beat
}

// OfNode is the state of a shard by what a single node says of itself, and consumers.
func OfNode(stat json.RawMessage, shard string, consumers []Consumer) cause.Verdict {
	r := &survey.Report{Nodes: []survey.Node{{Up: true, Stat: stat}}}
	nodes := tellings(r)[shard]
	all := []cause.Verdict{{State: cause.Unknown, Why: "the node tells nothing of it: nobody has written it since the node started, or it tells of other shards"}}
	if len(nodes) > 0 {
		all[0] = nodes[0].Verdict
	}
	for _, c := range consumers {
		if v, ok := c.verdict(shard); ok {
			all = append(all, v)
		}
	}
	return survey.First(append(all, reports(r)[shard]...))
}
