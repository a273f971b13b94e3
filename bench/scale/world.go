package scale

import (
	"container/heap"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/plan"
	"github.com/rmatail/rmatail/reader"
)

// began is when virtual time begins. Shards have been written for a while by then.
var began = time.Date(2025, 7, 7, 0, 0, 0, 0, time.UTC)

const (
	incarnation = 7
	history     = time.Hour // of the shards
	// writerTimeout is how long a writer waits for nodes that do not answer: the default of
	// producer.ReplicaConfig.Timeout.
	writerTimeout = 500 * time.Millisecond
)

// world is nodes, network and time for Virtuals.
type world struct {
	e    Experiment
	net  Network
	view *cluster.View
	rng  *rand.Rand

	now    time.Time
	events events
	seq    uint64

	nodes    []node
	shards   []shard
	consumer []time.Time // when the link of each is free
	lostAt   time.Time   // zero: never
	second   float64     // part of the extents that are in their second sets
	store    storeLoad
	from     time.Time // counting begins
	count    counts
	delays   histogram
}

// node is one queue.
type node struct {
	free    time.Time
	lost    bool
	reads   float64 // counted
	bytes   float64
	busy    time.Duration
	waiting time.Duration // the longest
}

// shard is one log.
type shard struct {
	layout.Shard
	hash    layout.Hash
	phase   time.Duration
	stalled bool // its writer waits for lost replicas
}

type counts struct {
	moved, useful     float64 // bytes
	requests, pages   float64 // one-sided reads, and those of length pages
	storeReads, stats float64
	storeBytes        float64
}

// storeLoad is the durable store's in each 100 ms, for its peak.
type storeLoad struct {
	slot      int64
	now, peak float64
	statsNow  float64
	statsPeak float64
}

const storeSlot = 100 * time.Millisecond

func newWorld(e Experiment, net Network, view *cluster.View) *world {
	w := &world{e: e, net: net, view: view, rng: rand.New(rand.NewPCG(e.Seed, 1)), now: began, nodes: make([]node, len(view.Nodes)),
		consumer: make([]time.Time, e.sampled()), from: began.Add(e.Warm)}
	for s := range e.Streams {
		for n := range e.Shards {
			sh := layout.Shard{Stream: "stream" + string(rune('a'+s)), Number: uint32(n)}
			w.shards = append(w.shards, shard{Shard: sh, hash: sh.Hash(incarnation), phase: time.Duration(w.rng.Int64N(int64(w.cycle())))})
		}
	}
	return w
}

// cycle is how long a batch takes.
func (w *world) cycle() time.Duration { return w.net.Flush + 2*w.net.RTT }

// appended is how far a shard's records reach at a time: whole ones.
func (w *world) appended(at time.Time) uint64 {
	n := w.e.shardRate() * (at.Sub(began) + history).Seconds()
	return uint64(n) / uint64(w.e.RecordBytes) * uint64(w.e.RecordBytes)
}

// cameAt is when the byte before a position was appended.
func (w *world) cameAt(pos uint64) time.Time {
	return began.Add(time.Duration(float64(pos)/w.e.shardRate()*1e9) - history)
}

// published is a shard's length at a time: all that had come when the last batch began
// that is over.
func (w *world) published(s *shard, at time.Time) uint64 {
	if s.stalled && at.After(w.lostAt) && at.Before(w.lostAt.Add(writerTimeout)) {
		at = w.lostAt
	}
	d := w.cycle()
	n := (at.Sub(began) - s.phase) / d
	return w.appended(began.Add(s.phase + (n-1)*d))
}

// Published implements reader.World.
func (w *world) Published(_, i int, at time.Time) layout.Entry {
	s := &w.shards[i]
	d := w.cycle()
	beat := at.Sub(began) - (at.Sub(began)-s.phase)%d
	return layout.Entry{Length: w.published(s, at), HeartbeatMS: uint64((history + beat) / time.Millisecond), Incarnation: incarnation}
}

// Holds implements reader.World. A replica has a batch before it is published.
func (w *world) Holds(_, i int, extent uint64, at time.Time) (end uint64, second bool) {
	s := &w.shards[i]
	end = min(w.published(s, at.Add(w.net.RTT)), (extent+1)*layout.ExtentSize)
	if end <= extent*layout.ExtentSize {
		return 0, false
	}
	draw := binary.LittleEndian.Uint64(s.hash[:]) ^ (extent+1)*0x9e3779b97f4a7c15
	return end, float64(draw>>32)/(1<<32) < w.second
}

// Durable implements reader.World.
func (w *world) Durable(i int, at time.Time) durable.Info {
	return durable.Info{Incarnation: incarnation, Length: w.published(&w.shards[i], at.Add(2*w.net.RTT))}
}

// lose silences nodes now, and has the writers wait that need them.
func (w *world) lose() {
	w.lostAt = w.now
	for i := range w.e.Lost {
		w.nodes[i].lost = true
	}
	var set cluster.Replicas
	for i := range w.shards {
		s := &w.shards[i]
		w.view.Extent(s.hash, layout.Extent(w.appended(w.now)), &set)
		left := 0
		for _, n := range set.Full() {
			if !w.nodes[n].lost {
				left++
			}
		}
		s.stalled = left < min(w.view.Quorum, len(set.Full()))
	}
}

// Ask implements reader.World: a queue at the node, and one at the consumer's link.
func (w *world) Ask(a *reader.Ask) (served, answered time.Time, ok bool) {
	counted := !w.now.Before(w.from)
	weight := w.e.weight()
	if a.Node < 0 {
		w.asked(a, counted, weight)
		return w.now.Add(w.net.Store / 2), w.now.Add(w.net.Store), true
	}
	n := &w.nodes[a.Node]
	if counted {
		w.count.requests += weight * float64(a.Reads)
		if a.Kind == reader.AskPage {
			w.count.pages += weight * float64(a.Reads)
		}
		n.reads += weight * float64(a.Reads)
	}
	if n.lost {
		return time.Time{}, time.Time{}, false
	}
	arrives := w.now.Add(w.net.RTT / 2)
	start := arrives
	if n.free.After(start) {
		start = n.free
	}
	reads, bytes := float64(a.Reads), float64(a.Bytes)
	each := seconds(plan.Service(reads, bytes, w.net.LinkGbps, w.net.ReadsPerSecond))
	all := time.Duration(float64(each) * weight)
	n.free = start.Add(all)
	if counted {
		w.count.moved += weight * float64(a.Bytes)
		n.bytes += weight * float64(a.Bytes)
		n.busy += all
		n.waiting = max(n.waiting, start.Sub(arrives))
	}
	there := start.Add((each + all) / 2).Add(w.net.RTT / 2) // in the middle of those that it stands for
	own := seconds(plan.Wire(reads, bytes) * 8 / (w.net.ConsumerLinkGbps * 1e9))
	link := &w.consumer[a.Of().Number]
	if link.Before(w.now) {
		*link = w.now
	}
	*link = link.Add(own) // what was asked for before comes before
	there = there.Add(own)
	if link.After(there) {
		there = *link
	}
	return start, there, true
}

// asked counts a question to the durable store.
func (w *world) asked(a *reader.Ask, counted bool, weight float64) {
	if slot := int64(w.now.Sub(began) / storeSlot); slot != w.store.slot {
		w.store.slot, w.store.now, w.store.statsNow = slot, 0, 0
	}
	if a.Kind == reader.AskStat {
		w.store.statsNow += weight
		w.store.statsPeak = max(w.store.statsPeak, w.store.statsNow)
	} else {
		w.store.now += weight
		w.store.peak = max(w.store.peak, w.store.now)
	}
	if !counted {
		return
	}
	if a.Kind == reader.AskStat {
		w.count.stats += weight
		return
	}
	w.count.storeReads += weight
	w.count.storeBytes += weight * float64(a.Bytes)
}

// Delivered implements reader.World.
func (w *world) Delivered(_ *reader.Virtual, _ int, from, to uint64, _ reader.Source) {
	if w.now.Before(w.from) {
		return
	}
	w.count.useful += w.e.weight() * float64(to-from)
	const points = 4
	for i := range uint64(points) {
		pos := from + (to-from)*(2*i+1)/(2*points)
		d := w.now.Sub(w.cameAt(pos))
		w.delays.add(d, float64(to-from)/points)
	}
}

// At implements reader.World.
func (w *world) At(t time.Time, e reader.Event) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, e})
}

// run lets time pass.
func (w *world) run(until time.Time) (steps int) {
	for len(w.events) > 0 && w.events[0].at.Before(until) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.Event.Due(e.at)
		steps++
	}
	w.now = until
	return steps
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// event is one of the heap.
type event struct {
	at  time.Time
	seq uint64
	reader.Event
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}

// histogram of durations with a resolution of one percent.
type histogram struct {
	buckets [2400]float64
	all     float64
	max     time.Duration
}

func (h *histogram) add(d time.Duration, weight float64) {
	i := 0
	if us := float64(d) / 1e3; us > 1 {
		i = min(int(math.Log(us)*100), len(h.buckets)-1)
	}
	h.buckets[i] += weight
	h.all += weight
	h.max = max(h.max, d)
}

// quantile returns the upper end of the bucket that a part q of the weight is below.
func (h *histogram) quantile(q float64) time.Duration {
	sum := 0.0
	for i, n := range h.buckets {
		if sum += n; n > 0 && sum >= q*h.all {
			return min(time.Duration(math.Exp(float64(i+1)/100)*1e3), h.max)
		}
	}
	return 0
}
