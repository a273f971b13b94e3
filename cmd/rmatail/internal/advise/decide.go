package advise

import (
	"fmt"
	"math"
	"time"
)

// The thresholds and bounds of the decision; the package comment says where they
// come from.
const (
	burstThreshold = 3
	tailThreshold  = 5
	utilisation    = 2.0 / 3
	headroom       = 2
	leastBatch     = 64
	mostBatch      = 4096
	batchBytes     = 1 << 20 // the largest append
	fewBatches     = 1000    // a p99 rests on ten of them
)

// Wishes are what cannot be measured.
type Wishes struct {
	Loss Loss
	// Latency is how long a record may wait in the queue. 0: 100 ms.
	Latency time.Duration
	// Connections is how many writes the sink takes at once. 0: one a shard.
	Connections int
}

// Advice is what to do, and why. Its keys are an interface.
type Advice struct {
	Answers []Answer `json:"answers"`
	Mode    string   `json:"mode"` // direct or queue
	// Semaphore is how many writes may be under way, with direct.
	Semaphore int `json:"semaphore,omitempty"`
	// Of all shards together, with queue.
	QueueRecords int `json:"queue_records,omitempty"`
	// Of each appender.
	QueueRecordsEach int      `json:"queue_records_each,omitempty"`
	Batch            int      `json:"batch,omitempty"`
	Policy           string   `json:"policy"` // block, drop-newest
	Reasons          []string `json:"reasons"`
	Warnings         []string `json:"warnings"`
}

// Answer is one of the four questions.
type Answer struct {
	Question  string  `json:"question"`
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold,omitempty"`
	Text      string  `json:"text"`
}

// Decide answers the questions and recommends. Facts have passed Check.
func Decide(f Facts, w Wishes) Advice {
	if w.Latency <= 0 {
		w.Latency = 100 * time.Millisecond
	}
	if w.Connections <= 0 {
		w.Connections = max(f.Shards, 1)
	}
	burst := f.ArrivalsPeak / f.ArrivalsMean
	tail := float64(f.SinkP99) / float64(f.SinkP50)
	drain := max(f.DrainMax, f.SinkP99) // nothing was ever queued: the sink's own pauses have to be bridged
	capacity := f.ArrivalsPeak * drain.Seconds()
	a := Advice{Warnings: []string{}, Answers: []Answer{
		{"peak by mean of arrivals", burst, burstThreshold, fmt.Sprintf("%.0f/s by %.0f/s", f.ArrivalsPeak, f.ArrivalsMean)},
		{"p99 by p50 of the sink", tail, tailThreshold, fmt.Sprintf("%s by %s", round(f.SinkP99), round(f.SinkP50))},
		{"what a lost record costs", w.Loss.cost, 0, w.Loss.String()},
		{"capacity needed, records", math.Ceil(capacity), 0, fmt.Sprintf("%.0f/s for %s until the queue is empty", f.ArrivalsPeak, round(drain))},
	}}
	if f.Batches > 0 && f.Batches < fewBatches {
		a.warn("only %d writes were measured: their p99 is about the slowest one", f.Batches)
	}
	// A write takes its usual time, and one in a hundred longer.
	write := f.SinkP50.Seconds() + 0.01*f.SinkP99.Seconds()
	busy := f.ArrivalsPeak * write // connections that the peak keeps busy, one record a write
	if burst <= burstThreshold && tail <= tailThreshold && busy <= utilisation*float64(w.Connections) {
		a.direct(f, w, busy)
		return a
	}
	if burst > burstThreshold {
		a.because("arrivals are bursty: peak by mean is %.1f, above %d", burst, burstThreshold)
	}
	if tail > tailThreshold {
		a.because("the sink is uneven: p99 by p50 is %.1f, above %d; whoever writes himself waits as long", tail, tailThreshold)
	}
	if busy > utilisation*float64(w.Connections) {
		a.because("one record a write, the peak keeps %.1f connections busy, and there are %d: only batches help", busy, w.Connections)
	}
	a.queue(f, w, write, capacity)
	return a
}

// direct recommends direct writes.
func (a *Advice) direct(f Facts, w Wishes, busy float64) {
	a.Mode, a.Semaphore, a.Policy = "direct", w.Connections, w.Loss.policy(f.ArrivalsPeak)
	a.because("arrivals are even and the sink is too, and one record a write the peak keeps %.2f of %d connections busy: a queue would only add waiting", busy, w.Connections)
	a.because("the semaphore of %d keeps a burst from becoming a goroutine a record", w.Connections)
	a.full(w, f)
}

// queue recommends a queue.
func (a *Advice) queue(f Facts, w Wishes, write, capacity float64) {
	lanes := float64(w.Connections)
	need := headroom * f.ArrivalsPeak * write / lanes
	most := min(mostBatch, powerOfTwo(batchBytes/f.recordBytes()+1)/2)
	a.Mode, a.Batch, a.Policy = "queue", max(min(max(powerOfTwo(need), leastBatch), most), 1), w.Loss.policy(f.ArrivalsPeak)
	a.because("batches of up to %d records: the sink writes %.0f/s then, %.1f times the peak", a.Batch, lanes*float64(a.Batch)/write, lanes*float64(a.Batch)/write/f.ArrivalsPeak)
	fastest := lanes * float64(a.Batch) / write
	if fastest < f.ArrivalsMean {
		a.warn("the sink cannot keep up with the mean of %.0f/s, even so: no queue is long enough. Use more shards, a faster disk, or a weaker flush policy", f.ArrivalsMean)
	}
	least := 2 * a.Batch * w.Connections // one batch on its way, one being filled
	bound := int(fastest * w.Latency.Seconds())
	records := max(int(math.Ceil(capacity)), least)
	if records > bound && bound >= least {
		a.because("peak by drain time asks for %d records, but over %d a record waits longer than the %s allowed", records, bound, w.Latency)
		records = bound
	}
	a.QueueRecordsEach = powerOfTwo(float64(records) / float64(max(f.Shards, 1)))
	if a.QueueRecordsEach*max(f.Shards, 1) > bound && a.QueueRecordsEach/2*max(f.Shards, 1) >= least {
		a.QueueRecordsEach /= 2 // rounding up would break the bound
	}
	a.QueueRecords = a.QueueRecordsEach * max(f.Shards, 1)
	a.because("a queue of %d records (%.1f MB) holds %s of the peak", a.QueueRecords, float64(a.QueueRecords)*f.recordBytes()/1e6, round(time.Duration(float64(a.QueueRecords)/f.ArrivalsPeak*1e9)))
	a.full(w, f)
}

// full says what happens without room, and what was seen of it.
func (a *Advice) full(w Wishes, f Facts) {
	switch {
	case a.Policy == "drop-newest":
		a.because("a lost record costs %s: when there is no room it is dropped and counted, and nobody waits", w.Loss.words())
	case w.Loss.fatal():
		a.because("a lost record is fatal: callers wait for room, and a record counts only when its Ack says so, as a queue in memory dies with its process")
	default:
		a.because("a lost record costs %s: callers wait for room, bounded by their contexts", w.Loss.words())
	}
	if n := f.Dropped + f.DroppedOld; n > 0 && a.Policy == "block" {
		a.warn("%d records were dropped so far", n)
	}
	if f.Arrivals > 0 && f.Blocked*10 > f.Arrivals {
		a.warn("%d of %d records waited for room", f.Blocked, f.Arrivals)
	}
}

func (a *Advice) because(format string, args ...any) {
	a.Reasons = append(a.Reasons, fmt.Sprintf(format, args...))
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// powerOfTwo rounds up.
func powerOfTwo(v float64) int {
	p := 1
	for float64(p) < v && p < 1<<30 {
		p *= 2
	}
	return p
}

// round leaves three digits or so.
func round(d time.Duration) time.Duration {
	for unit := time.Duration(1e9); unit > 1; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}
