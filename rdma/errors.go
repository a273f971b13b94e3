package rdma

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Setting up.
var (
	// ErrConfig is returned when a setting is out of range.
	ErrConfig = errors.New("rdma settings")
	// ErrMemlock is returned when memory could not be registered. The error is
	// a *MemlockError.
	ErrMemlock = errors.New("memory cannot be registered")
	// ErrPortDown is returned when the port is not active.
	ErrPortDown = errors.New("port is not active")
	// ErrHandshake is returned when an offer or an answer is malformed, or says
	// what cannot be (an empty GID, no memory, no reads).
	ErrHandshake = errors.New("rdma handshake")
	// ErrVersion is returned when the peer speaks another handshake version.
	// It matches ErrHandshake too.
	ErrVersion = fmt.Errorf("%w: unknown version", ErrHandshake)
	// ErrStaleAnswer is returned when an answer belongs to another offer. It
	// matches ErrHandshake too.
	ErrStaleAnswer = fmt.Errorf("%w: answer to another offer", ErrHandshake)
	// ErrIncompatible is returned when the two devices cannot talk: another
	// link layer, GID type or address family. It matches ErrHandshake too.
	ErrIncompatible = fmt.Errorf("%w: the devices of both ends cannot talk", ErrHandshake)
	// ErrUnsupported is returned when this build or host has no verbs.
	ErrUnsupported = ibverbs.ErrUnsupported
	// ErrNoLibrary is returned when libibverbs.so.1 is missing.
	ErrNoLibrary = ibverbs.ErrNoLibrary
)

// Reading.
var (
	// ErrNoBuffers is returned when batches that were not released, or whose
	// READs have not settled, use up Config.BufferBytes.
	ErrNoBuffers = errors.New("out of receive buffers")
	// ErrBatchSize is returned when a batch of no or over MaxBatchBytes bytes is
	// asked for.
	ErrBatchSize = errors.New("batch size out of range")
	// ErrReleased is returned when a batch is used after Release.
	ErrReleased = errors.New("batch was released")
	// ErrInFlight is returned when a batch is posted that is posted already, or
	// that was abandoned.
	ErrInFlight = errors.New("batch is in flight")
)

// Losing the connection: what Conn.Err returns, besides a *CompletionError.
var (
	// ErrClosed is returned when the connection was closed by its owner.
	ErrClosed = errors.New("rdma connection closed")
	// ErrStuck is returned when the device did not complete a READ in the time
	// that all its retries can take.
	ErrStuck = errors.New("device does not complete its reads")
	// ErrGIDChanged is returned when the GID of the connection was removed or
	// replaced.
	ErrGIDChanged = errors.New("GID of the connection is gone")
	// ErrDevice is returned when the device reported an error of its own:
	// device, queue pair or completion queue.
	ErrDevice = errors.New("device reported an error")
)

// CompletionError is a READ that failed. The queue pair is in ERR then, and the
// connection is lost.
type CompletionError struct {
	Status    ibverbs.Status
	VendorErr uint32
	QPN       uint32 // of this end
	Peer      netip.Addr
}

func (e *CompletionError) Error() string {
	s := fmt.Sprintf("rdma read on QP %d", e.QPN)
	if e.Peer.IsValid() {
		s += fmt.Sprintf(" from %v", e.Peer)
	}
	s += fmt.Sprintf(": %v (vendor error %#x)", e.Status, e.VendorErr)
	if hint := statusHint(e.Status); hint != "" {
		s += ": " + hint
	}
	return s
}

// statusHint says what a status usually means for a READ on an RC connection,
// and what happens next.
func statusHint(s ibverbs.Status) string {
	switch s {
	case ibverbs.RemAccessErr:
		return "the memory handle is stale or the range outside it; a new handshake gets a new one"
	case ibverbs.RemInvReqErr:
		return "the peer's queue pair does not allow this READ, or gets more at once than it was set up for"
	case ibverbs.RetryExcErr:
		return "no answer: the peer's process or host is gone, its queue pair was closed, or packets are lost (UDP port 4791 blocked?)"
	case ibverbs.LocQPOpErr:
		return "this end cannot send: link down or GID removed"
	case ibverbs.WRFlushErr:
		return "the queue pair was in ERR already"
	case ibverbs.LocProtErr, ibverbs.LocAccessErr:
		return "receive buffer not registered for this queue pair"
	}
	return ""
}

// MemlockError says how much memory could not be registered, and what to do.
type MemlockError struct {
	Device string
	Need   uint64 // bytes
	Limit  uint64 // RLIMIT_MEMLOCK of the process in bytes, ^0 unlimited or not known
	Err    error  // of ibv_reg_mr
}

func (e *MemlockError) Error() string {
	if e.Limit == ^uint64(0) {
		return fmt.Sprintf("%v: %d KiB on %s: %v (RLIMIT_MEMLOCK is no limit; the device or the host is out of resources)",
			ErrMemlock, e.Need>>10, e.Device, e.Err)
	}
	return fmt.Sprintf("%v: %d KiB on %s, RLIMIT_MEMLOCK is %d KiB: raise it (`ulimit -l`, LimitMEMLOCK= of the systemd unit, "+
		"the container runtime's ulimits) or give the process CAP_IPC_LOCK: %v", ErrMemlock, e.Need>>10, e.Device, e.Limit>>10, e.Err)
}

// Is matches ErrMemlock.
func (e *MemlockError) Is(target error) bool { return target == ErrMemlock }

// Unwrap returns the error of ibv_reg_mr.
func (e *MemlockError) Unwrap() error { return e.Err }
