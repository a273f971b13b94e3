package server

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/producer"
)

// ShardStats is how a shard fares by what the node knows: its own arena, leases and
// appenders. What consumers do over shared memory and RDMA it does not see.
type ShardStats struct {
	Shard string `json:"shard"`
	cause.Verdict
	// Tenant is whose memory it is published in; empty: nobody's.
	Tenant    string `json:"tenant,omitempty"`
	Published uint64 `json:"published"`
	Writer    string `json:"writer,omitempty"` // holds the lease; empty: nobody, or one that has no name
	// Ages in seconds since the producer's heartbeat and the published length have
	// moved, as the node has seen it.
	HeartbeatAge float64 `json:"heartbeat_age_seconds"`
	PublishAge   float64 `json:"publish_age_seconds"`
}

const (
	// watchEvery is how often the shards are looked at.
	watchEvery = time.Second
	// watchMost bounds how many are: those whose lease was renewed last.
	watchMost = 1024
	// watchWindow is over what time at least what the appenders count is compared.
	watchWindow = 5 * time.Second
)

// shards looks at the shards that are published here, every second.
type shards struct {
	s  *Server
	mu struct {
		sync.Mutex
		seen  map[layout.Shard]*shardSeen
		stats []ShardStats // by name
	}
}

// shardSeen is what is remembered of a shard.
type shardSeen struct {
	length, beat     uint64
	movedAt, beatAt  time.Time
	windowAt         time.Time // when refused was counted
	refused, counted uint64    // batches that the store did not take; at the window's begin, now
}

func (w *shards) run() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-w.s.serving.Done():
			return
		case <-t.C:
			w.look(time.Now())
		}
	}
}

// look looks at every shard.
func (w *shards) look(now time.Time) {
	var pulses map[layout.Shard]producer.Pulse
	if w.s.appenders != nil {
		pulses = w.s.appenders.pulses()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.mu.seen
	w.mu.seen = make(map[layout.Shard]*shardSeen, len(before))
	w.mu.stats = make([]ShardStats, 0, len(before))
	w.s.memories.each(func(m *memory) {
		leased := m.arena.Leases().Recent(watchMost - len(w.mu.stats))
		for i := range leased {
			l := &leased[i]
			e, ok := m.arena.Entry(l.Shard)
			if !ok {
				continue // a metadata replica elsewhere has it, or its time has passed
			}
			k := before[l.Shard]
			if k == nil {
				k = &shardSeen{movedAt: now, beatAt: now, windowAt: now}
			}
			w.mu.seen[l.Shard] = k
			facts := w.facts(m, l, e, k, now)
			if p, open := pulses[l.Shard]; open {
				facts.Window = k.count(p.Refused, now)
				facts.AppendsRefused = cause.Know(k.counted - k.refused)
				facts.QueuedFor, facts.QueuedBytes, facts.AppendTime = cause.Know(p.Queued), cause.Know(uint64(p.QueueBytes)), cause.Know(p.Append)
			}
			st := ShardStats{Shard: l.Shard.String(), Verdict: cause.Decide(facts), Tenant: m.tenant, Published: e.Length,
				HeartbeatAge: now.Sub(k.beatAt).Seconds(), PublishAge: now.Sub(k.movedAt).Seconds()}
			if l.Left > 0 {
				st.Writer = l.Owner
			}
			w.mu.stats = append(w.mu.stats, st)
		}
	})
	slices.SortFunc(w.mu.stats, func(a, b ShardStats) int { return cmp.Compare(a.Shard, b.Shard) })
}

// facts are what the arena and the leases tell of a shard.
func (w *shards) facts(m *memory, l *chunkstore.LeasedShard, e layout.Entry, k *shardSeen, now time.Time) cause.Facts {
	if e.Length != k.length {
		k.length, k.movedAt = e.Length, now
	}
	if e.HeartbeatMS != k.beat {
		k.beat, k.beatAt = e.HeartbeatMS, now
	}
	f := cause.Facts{
		Published: cause.Know(e.Length), Sealed: e.Flags&layout.FlagSealed != 0,
		HeartbeatEvery: w.s.cfg.Heartbeat, HeartbeatAge: cause.Know(now.Sub(k.beatAt)), PublishedAge: cause.Know(now.Sub(k.movedAt)),
		Leased: cause.Know(l.Left > 0), Closed: l.Released, CacheAnswers: cause.Know(true), CacheKnows: cause.Know(true),
	}
	if f.PublishedAge.V < m.arena.TTL()-2*watchEvery { // what is older may be gone
		f.HitRate = w.held(m, l.Shard.Hash(e.Incarnation), e.Length)
	}
	return f
}

// held is 1 if the arena holds the last extent of a shard, else 0; it is not known if
// the extent is placed elsewhere.
func (w *shards) held(m *memory, h layout.Hash, length uint64) cause.Maybe[float64] {
	if length == 0 || w.s.cfg.Cluster != nil && !w.s.places(h, (length-1)/layout.ExtentSize) {
		return cause.Maybe[float64]{}
	}
	if m.arena.Holds(h, (length-1)/layout.ExtentSize) {
		return cause.Know(1.0)
	}
	return cause.Know(0.0)
}

// count moves the window over what was refused, and returns its length.
func (k *shardSeen) count(refused uint64, now time.Time) time.Duration {
	if refused < k.counted || now.Sub(k.windowAt) >= 2*watchWindow { // opened anew, or time to forget
		k.refused, k.windowAt = min(k.counted, refused), now
	}
	k.counted = refused
	return now.Sub(k.windowAt)
}

// snapshot is how the shards fared when they were looked at last, by name.
func (w *shards) snapshot() []ShardStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.stats
}

// pulses are those of the open shards.
func (a *appenders) pulses() map[layout.Shard]producer.Pulse {
	a.mu.Lock()
	open := make(map[layout.Shard]*producer.Appender, len(a.mu.places))
	for shard, pl := range a.mu.places {
		select {
		case <-pl.opened:
			if pl.appender != nil {
				open[shard] = pl.appender
			}
		default:
		}
	}
	a.mu.Unlock()
	all := make(map[layout.Shard]producer.Pulse, len(open))
	for shard, p := range open {
		all[shard] = p.Pulse()
	}
	return all
}

// othersMost bounds those that Stats tells of beyond the first.
const othersMost = 256

// shardStats are the shards for Stats: the first by name; those of the rest that
// somebody should look at, or that are in a memory where only its tenant can look; and
// how many there are in each state.
func (s *Server) shardStats() (first, others []ShardStats, states map[cause.State]int) {
	all := s.shards.snapshot()
	states = map[cause.State]int{}
	for i := range all {
		states[all[i].State]++
	}
	most := min(len(all), max(s.cfg.ShardMetrics, 0))
	for _, st := range all[most:] {
		if (st.State.Bad() || st.Tenant != "") && len(others) < othersMost {
			others = append(others, st)
		}
	}
	return all[:most], others, states
}
