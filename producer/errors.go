package producer

import "errors"

// Errors of opening an Appender.
var (
	// ErrConfig is returned when a Config contradicts itself.
	ErrConfig = errors.New("producer configuration")
)

// Errors of appending. Errors of the durable store (wire.ErrFull,
// durable.ErrSealed and so on) are returned as they are.
var (
	// ErrFenced is returned when the durable store has another length than this
	// Appender wrote: another writer has the shard. It ends the Appender.
	ErrFenced = errors.New("another writer has appended to the shard")
	// ErrRecord is returned when a record is empty or longer than MaxRecord.
	ErrRecord = errors.New("bad record size")
	// ErrDropped is returned when a record met a full queue and the policy is to
	// drop; with DropOldest it is what the Acks of the dropped ones resolve with.
	ErrDropped = errors.New("record dropped")
	// ErrQueueFull is returned by TryAppend when it would have to wait.
	ErrQueueFull = errors.New("queue is full")
	// ErrClosed is returned after Close, and to who waited for room then.
	ErrClosed = errors.New("appender is closed")
)
