package watch

import (
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

// shardBefore is what is remembered of a shard.
type shardBefore struct {
	length    uint64
	heartbeat uint64
	beat      time.Time // when heartbeat was seen to change
	first     time.Time // when a heartbeat was seen at all; zero: never
	moved     bool      // heartbeat has changed under our eyes
	published uint64
	publish   time.Time // when published was seen to change; zero: never
	behind    time.Time // since when published is less than length; zero: it is not
}

// addShards fills in the shards of a Frame. listed is whether the lengths are the
// store's, of now.
func (w *Watcher) addShards(f *Frame, shards []survey.Shard, now time.Time, window time.Duration, listed bool) {
	before := w.shard
	w.shard = make(map[string]*shardBefore, len(shards))
	for i := range shards {
		s := &shards[i]
		b, known := before[s.Shard]
		if !known {
			b = &shardBefore{length: s.Length}
		}
		w.shard[s.Shard] = b
		o := observe(s)
		nodes := w.told[s.Shard]
		facts := b.facts(s, o, now, window, known && listed && w.fresh)
		if o.hidden {
			unseen(&facts, nodes)
		}
		if !listed {
			facts.Stored, facts.StoredGrew, facts.BehindFor = cause.Maybe[uint64]{}, cause.Maybe[uint64]{}, cause.Maybe[time.Duration]{}
		}
		v := withConsumers(survey.Weigh(cause.Decide(facts), o.writer != "", nodes), w.heard[s.Shard])
		sh := Shard{Name: s.Shard, State: v.State, Why: v.Why, First: s.First, Length: s.Length, Sealed: s.Sealed, Lag: s.Lag, Writer: o.writer,
			LagTime: facts.BehindFor.V.Seconds()}
		sh.Ended = v.State == cause.ProducerStopped && o.answers && o.writer == "" &&
			!slices.ContainsFunc(nodes, func(t survey.Told) bool { return t.State == cause.ProducerStopped })
		if facts.StoredGrew.Known && window > 0 {
			sh.Rate = float64(facts.StoredGrew.V) / window.Seconds()
		}
		if facts.HeartbeatAge.Known {
			age := facts.HeartbeatAge.V.Seconds()
			sh.Heartbeat = &age
		}
		for _, r := range s.Replicas {
			sh.Replicas = append(sh.Replicas, Replica{r.Node, r.Lag, r.Error})
		}
		b.length = s.Length
		f.Shards = append(f.Shards, sh)
	}
	w.fresh = listed
}

// observed is what the replicas of a shard's length page say together.
type observed struct {
	answers, knows bool
	hidden         bool // in a tenant's memory: only the nodes can tell
	published      uint64
	heartbeat      uint64
	writer         string
}

func observe(s *survey.Shard) (o observed) {
	var ballot uint64
	for _, r := range s.Replicas {
		if r.Error != "" {
			continue
		}
		o.answers, o.hidden = true, o.hidden || r.Hidden
		o.knows = o.knows || r.Heartbeat > 0
		o.published, o.heartbeat = max(o.published, r.Published), max(o.heartbeat, r.Heartbeat)
		if r.Writer != "" && (o.writer == "" || r.Ballot > ballot) {
			o.writer, ballot = r.Writer, r.Ballot
		}
	}
	return o
}

// facts are what is known of a shard, from what is seen now and was seen before.
func (b *shardBefore) facts(s *survey.Shard, o observed, now time.Time, window time.Duration, known bool) cause.Facts {
	f := cause.Facts{Window: window, Stored: cause.Know(s.Length), Sealed: s.Sealed, CacheAnswers: cause.Know(o.answers)}
	if known && s.Length >= b.length {
		f.StoredGrew = cause.Know(s.Length - b.length)
	}
	if !o.answers {
		return f
	}
	f.Published, f.CacheKnows, f.Leased = cause.Know(o.published), cause.Know(o.knows), cause.Know(o.writer != "")
	if o.heartbeat > 0 {
		switch {
		case b.first.IsZero():
			b.first, b.beat = now, now
		case o.heartbeat != b.heartbeat:
			b.beat, b.moved = now, true
		}
		b.heartbeat = o.heartbeat
		// One that has not moved yet may move in a moment: nothing is claimed before it is late.
		if age := now.Sub(b.beat); b.moved || age.Seconds() >= cause.LateBeats*cause.DefaultHeartbeat.Seconds() {
			f.HeartbeatAge = cause.Know(age)
		}
	}
	if o.published != b.published {
		if known {
			b.publish = now
		}
		b.published = o.published
	}
	if !b.publish.IsZero() {
		f.PublishedAge = cause.Know(now.Sub(b.publish))
	}
	if o.published >= s.Length {
		b.behind = time.Time{}
	} else if b.behind.IsZero() {
		b.behind = now
	}
	f.BehindFor = cause.Know(time.Duration(0))
	if !b.behind.IsZero() {
		f.BehindFor = cause.Know(now.Sub(b.behind))
	}
	return f
}

// unseen corrects what an observer thinks of a shard whose memory it may not read: that
// it has no entry there says nothing, and the nodes have seen its heartbeat.
func unseen(f *cause.Facts, nodes []survey.Told) {
	f.CacheKnows = cause.Maybe[bool]{}
	if len(nodes) == 0 {
		f.Published, f.PublishedAge, f.BehindFor = cause.Maybe[uint64]{}, cause.Maybe[time.Duration]{}, cause.Maybe[time.Duration]{}
		return
	}
	f.HeartbeatAge = cause.Know(survey.Youngest(nodes, func(t survey.Told) float64 { return t.HeartbeatAge }))
	f.PublishedAge = cause.Know(survey.Youngest(nodes, func(t survey.Told) float64 { return t.PublishAge }))
}
