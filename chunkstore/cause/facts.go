package cause

import "time"

// Maybe is a fact that an observer may not have. The zero value is unknown.
type Maybe[T any] struct {
	V     T
	Known bool
}

// Know is a fact that is known.
func Know[T any](v T) Maybe[T] { return Maybe[T]{v, true} }

// Transport is the way over which memory is read; the greater one is the better one.
type Transport int

const (
	NoTransport Transport = iota
	TCP
	RDMA
	SHM
)

func (t Transport) String() string {
	if t < NoTransport || t > SHM {
		return "?"
	}
	return [...]string{"none", "tcp", "rdma", "shm"}[t]
}

// Facts are what an observer knows of a shard at one moment. Counts are of the last
// Window. Every field may be left out.
type Facts struct {
	// Window is the time over which the counts below were taken.
	Window time.Duration

	// Stored is the durable length, Published the greatest one that the cache has
	// published, Position how far the slowest consumer that is observed has come.
	Stored, Published, Position Maybe[uint64]
	// Sealed: no byte will come any more. False may mean that it is not known.
	Sealed bool
	// Closed: its writer has given its lease back, and none came after it. False may
	// mean that it is not known.
	Closed bool

	// HeartbeatEvery is how often an open Appender publishes; 0: DefaultHeartbeat.
	HeartbeatEvery time.Duration
	// HeartbeatAge is how long ago the producer's heartbeat has moved last. It is
	// known only as long as the cache answers: one that is not reached is not silent.
	HeartbeatAge Maybe[time.Duration]
	// PublishedAge is how long ago Published has moved last.
	PublishedAge Maybe[time.Duration]
	// StoredGrew is by how much Stored has grown in the Window.
	StoredGrew Maybe[uint64]
	// Leased is whether a writer holds the shard's lease.
	Leased Maybe[bool]
	// QueuedFor is for how long something has waited in the writer's queue without a
	// break; QueuedBytes what waits.
	QueuedFor   Maybe[time.Duration]
	QueuedBytes Maybe[uint64]
	// AppendTime is what a durable append takes: the one under way so far, or that of
	// the slowest percent of the last ones, whichever is more.
	AppendTime Maybe[time.Duration]
	// AppendsRefused are batches that the store did not take in the Window.
	AppendsRefused Maybe[uint64]

	// CacheAnswers is whether any replica of the shard's length page does.
	CacheAnswers Maybe[bool]
	// CacheKnows is whether any of them has the shard's entry.
	CacheKnows Maybe[bool]
	// BehindFor is for how long Published has been less than Stored without a break.
	BehindFor Maybe[time.Duration]
	// HitRate is the part of the recent chunks that the cache holds, 0 to 1.
	HitRate Maybe[float64]
	// FromCache and FromStore are the bytes delivered in the Window by source; Holes
	// are reads in the Window that found the cache to lack published bytes.
	FromCache, FromStore, Holes Maybe[uint64]

	// StoreWait is how long the oldest request to the durable store has been waiting,
	// for its turn, for the byte rate, or for an answer; 0: none waits.
	StoreWait Maybe[time.Duration]
	// StoreTime is what a read of the store took on average in the Window, StoreHeld
	// the part of the Window for which reads were held back by a limit, 0 to 1.
	StoreTime Maybe[time.Duration]
	StoreHeld Maybe[float64]
	// StoreRefused are requests that the store refused or did not answer in time, in
	// the Window.
	StoreRefused Maybe[uint64]

	// Best is the best transport that the nodes offer and this observer may use; Used
	// the best one that it has.
	Best, Used Maybe[Transport]
	// ReadsFailed are reads that failed with their transport, in the Window.
	ReadsFailed Maybe[uint64]

	// LagAge is for how long bytes that exist have not been delivered without a break.
	LagAge Maybe[time.Duration]
	// ConsumerAway is for how long the consumer has not asked for more; 0: it waits
	// for bytes.
	ConsumerAway Maybe[time.Duration]
	// ConsumerShare is the part of the Window that the consumer took for itself, 0 to 1.
	ConsumerShare Maybe[float64]
	// Capped: a rate that the consumer has set holds it up at present.
	Capped bool
	// CatchingUp: Position is still below what existed when the consumer began.
	CatchingUp bool
}

// Bounds of the decision.
const (
	DefaultHeartbeat = time.Second
	// LateBeats and StoppedBeats are after how many heartbeat intervals without one a
	// producer is slow, and has stopped.
	LateBeats, StoppedBeats = 2.5, 5
	// Patience is how long bytes may be missing, records queue, or the store be waited
	// for: the delay after which consumers turn to the durable store, too.
	Patience = time.Second
	// SlowAppend is what a durable append takes at most where a queue is not the
	// store's fault.
	SlowAppend = 250 * time.Millisecond
	// SlowRead is what a durable read takes at most where the store is quick, and
	// HeldBack the part of the time for which limits may hold reads back.
	SlowRead = 250 * time.Millisecond
	HeldBack = 0.5
	// BusyConsumer is the part of the time that a consumer may take for itself while
	// bytes wait.
	BusyConsumer = 0.5
	// LowHitRate is the part of the recent chunks that the cache holds at least.
	LowHitRate = 0.9
	// FailedReads in a Window are no accident.
	FailedReads = 3
)
