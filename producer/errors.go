package producer

import (
	"errors"
	"fmt"
	"os"
)

// Errors of opening an Appender.
var (
	// ErrConfig is returned when a Config contradicts itself.
	ErrConfig = errors.New("producer configuration")
)

// Errors of a cluster's nodes, as the cache reports them. Nothing that is durable
// depends on them.
var (
	// errSuspended is returned for a node that is left alone after a failure.
	errSuspended = errors.New("suspended")
	// errNodeQueue is returned when more waits for a node than it may.
	errNodeQueue = errors.New("queue of the node is full")
	// errNodeSlow is returned when a node has not answered in time.
	errNodeSlow = fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	// errMoved is why a connection is given up when a node has another address.
	errMoved = errors.New("the cluster's description has another address")
)

// Errors of appending. Errors of the durable store (wire.ErrFull,
// durable.ErrSealed and so on) are returned as they are.
var (
	// ErrFenced is returned when the durable store has another length than this
	// Appender wrote: another writer has the shard. It ends the Appender.
	ErrFenced = errors.New("another writer has appended to the shard")
	// ErrLeaseLost is returned when a newer writer has taken the shard's lease. It
	// ends the Appender. What was acknowledged before is durable.
	ErrLeaseLost = errors.New("a newer writer has the shard's lease")
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
