package producer

import "time"

// Stats is what an Appender has measured since it was opened. It answers whether
// a queue is needed, and how large: the capacity needed is the peak of arrivals
// times the drain time. Durations are in nanoseconds in JSON.
type Stats struct {
	Seconds float64 `json:"seconds"` // measured over

	Records       uint64 `json:"records"` // durable
	Bytes         uint64 `json:"bytes"`   // durable
	Failed        uint64 `json:"failed"`  // records whose Ack resolved with an error of the sink
	DroppedNewest uint64 `json:"dropped_newest"`
	DroppedOldest uint64 `json:"dropped_oldest"`
	Blocked       uint64 `json:"blocked"` // records that waited for room in the queue

	// Batches that the sink was given, and the largest.
	Batches         uint64 `json:"batches"`
	BatchRecordsMax int    `json:"batch_records_max"`
	BatchBytesMax   int    `json:"batch_bytes_max"`

	// Arrivals are all records that came, dropped ones included, per second: the
	// peak is that of the fullest 100 ms, the mean goes from the first to the last.
	Arrivals     uint64  `json:"arrivals"`
	ArrivalsPeak float64 `json:"arrivals_peak"`
	ArrivalsMean float64 `json:"arrivals_mean"`

	// Sink is the time of one durable append of a batch; Ack that from a batch's
	// first record to its acknowledgement.
	SinkP50 time.Duration `json:"sink_p50"`
	SinkP99 time.Duration `json:"sink_p99"`
	SinkMax time.Duration `json:"sink_max"`
	AckP50  time.Duration `json:"ack_p50"`
	AckP99  time.Duration `json:"ack_p99"`
	AckMax  time.Duration `json:"ack_max"`

	// What waits for the sink, batches on their way not included.
	QueueRecords    int `json:"queue_records"`
	QueueBytes      int `json:"queue_bytes"`
	QueueRecordsMax int `json:"queue_records_max"`
	QueueBytesMax   int `json:"queue_bytes_max"`
	// Drain is how long something waited without a break: the last time, and the
	// longest.
	Drain    time.Duration `json:"drain"`
	DrainMax time.Duration `json:"drain_max"`

	sink, ack histogram
}

// Merge adds what another Appender has measured: counts, rates and depths add
// up, quantiles are those of all batches together.
func (s *Stats) Merge(o *Stats) {
	s.Seconds = max(s.Seconds, o.Seconds)
	s.Records += o.Records
	s.Bytes += o.Bytes
	s.Failed += o.Failed
	s.DroppedNewest += o.DroppedNewest
	s.DroppedOldest += o.DroppedOldest
	s.Blocked += o.Blocked
	s.Batches += o.Batches
	s.BatchRecordsMax = max(s.BatchRecordsMax, o.BatchRecordsMax)
	s.BatchBytesMax = max(s.BatchBytesMax, o.BatchBytesMax)
	s.Arrivals += o.Arrivals
	s.ArrivalsPeak += o.ArrivalsPeak
	s.ArrivalsMean += o.ArrivalsMean
	s.QueueRecords += o.QueueRecords
	s.QueueBytes += o.QueueBytes
	s.QueueRecordsMax += o.QueueRecordsMax
	s.QueueBytesMax += o.QueueBytesMax
	s.Drain = max(s.Drain, o.Drain)
	s.DrainMax = max(s.DrainMax, o.DrainMax)
	s.sink.merge(&o.sink)
	s.ack.merge(&o.ack)
	s.quantiles()
}

// SinkTimes is how often the sink has taken about so many microseconds, as text:
// "120:5 130:9". The difference of two gives the quantiles of what came between them.
func (s *Stats) SinkTimes() string { return s.sink.text() }

// AckTimes is the same of what Ack is the time of.
func (s *Stats) AckTimes() string { return s.ack.text() }

func (s *Stats) quantiles() {
	s.SinkP50, s.SinkP99, s.SinkMax = s.sink.quantile(0.5), s.sink.quantile(0.99), s.sink.max
	s.AckP50, s.AckP99, s.AckMax = s.ack.quantile(0.5), s.ack.quantile(0.99), s.ack.max
}

// sinkSpread is the 99th percentile of the sink's time by its median, 0 for none.
func (s *Stats) sinkSpread() float64 {
	if s.SinkP50 <= 0 {
		return 0
	}
	return float64(s.SinkP99) / float64(s.SinkP50)
}

// arrivalStep is the time over which the peak of arrivals is taken.
const arrivalStep = 100 * time.Millisecond

// gauge measures for Stats. The queue's lock guards it.
type gauge struct {
	opened      time.Time
	sum         Stats // counts and maxima
	blocked     uint64
	dropped     [DropOldest + 1]uint64
	first, last time.Time // arrivals
	step        time.Time // when the present 100 ms began
	inStep      uint64
	peak        uint64
	filled      time.Time // since when something waits; zero: nothing does
	lastSink    time.Duration
	refused     uint64 // batches that the sink did not take
	unreported  int    // drops that were not logged yet
	reported    time.Time
}

func (g *gauge) arrive(now time.Time) {
	if g.sum.Arrivals == 0 {
		g.first, g.step = now, now
	}
	g.sum.Arrivals++
	g.last = now
	if now.Sub(g.step) >= arrivalStep {
		g.peak = max(g.peak, g.inStep)
		g.step, g.inStep = now, 0
	}
	g.inStep++
}

func (g *gauge) depth(records, bytes int) {
	g.sum.QueueRecordsMax = max(g.sum.QueueRecordsMax, records)
	g.sum.QueueBytesMax = max(g.sum.QueueBytesMax, bytes)
}

// fills is called when the first record waits, drains when none does any more.
func (g *gauge) fills(now time.Time) {
	if g.filled.IsZero() {
		g.filled = now
	}
}

func (g *gauge) drains(now time.Time) {
	g.sum.Drain = now.Sub(g.filled)
	g.sum.DrainMax = max(g.sum.DrainMax, g.sum.Drain)
	g.filled = time.Time{}
}

// land counts a batch that the sink is done with.
func (g *gauge) land(b *batch, err error, took time.Duration, now time.Time) {
	if err != nil {
		g.sum.Failed += uint64(b.n)
	} else {
		g.sum.Records += uint64(b.n)
		g.sum.Bytes += uint64(len(b.buf))
	}
	g.sum.Batches++
	g.sum.BatchRecordsMax = max(g.sum.BatchRecordsMax, b.n)
	g.sum.BatchBytesMax = max(g.sum.BatchBytesMax, len(b.buf))
	if took > 0 {
		g.sum.sink.add(took)
		g.lastSink = took
		if err != nil {
			g.refused++
		}
	}
	g.sum.ack.add(now.Sub(b.born))
}

// report adds n drops and returns how many are to be logged now: those of a
// second together.
func (g *gauge) report(n int, now time.Time) int {
	g.unreported += n
	if g.unreported == 0 || now.Sub(g.reported) < time.Second {
		return 0
	}
	n, g.unreported, g.reported = g.unreported, 0, now
	return n
}

func (g *gauge) snapshot(records, bytes int, now time.Time) Stats {
	s := g.sum
	s.Seconds = now.Sub(g.opened).Seconds()
	s.Blocked, s.DroppedNewest, s.DroppedOldest = g.blocked, g.dropped[DropNewest], g.dropped[DropOldest]
	s.QueueRecords, s.QueueBytes = records, bytes
	s.ArrivalsPeak = float64(max(g.peak, g.inStep)) / arrivalStep.Seconds()
	if d := g.last.Sub(g.first); d > 0 {
		s.ArrivalsMean = float64(s.Arrivals) / d.Seconds()
	}
	if !g.filled.IsZero() {
		s.Drain = now.Sub(g.filled)
		s.DrainMax = max(s.DrainMax, s.Drain)
	}
	s.quantiles()
	return s
}
