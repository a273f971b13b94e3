package rdma

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// Decision is what to do after an error. Whatever it is, the current request
// goes to the next resort.
type Decision uint8

const (
	// Retryable: the path may come back. Connect again, with back-off.
	Retryable Decision = iota
	// StaleHandle: the peer is there, what we know of its memory is not. Repeat
	// the handshake once at once, then treat it as Retryable.
	StaleHandle
	// Fatal: trying again will not help before somebody changes something.
	Fatal
)

func (d Decision) String() string {
	switch d {
	case Retryable:
		return "retryable"
	case StaleHandle:
		return "stale handle"
	case Fatal:
		return "fatal"
	}
	return fmt.Sprintf("decision %d", uint8(d))
}

// Decide says what to do after an error of this package. An error that it does
// not know is Retryable: a path that is tried again too often costs a few
// packets, one that is given up costs it for ever.
func Decide(err error) Decision {
	var completion *CompletionError
	if errors.As(err, &completion) {
		return decideStatus(completion.Status)
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Retryable
	case errors.Is(err, ErrStaleAnswer):
		return StaleHandle
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrConfig), errors.Is(err, ErrMemlock), errors.Is(err, ErrVersion),
		errors.Is(err, ErrIncompatible), errors.Is(err, ErrClosed), errors.Is(err, ErrBatchSize), errors.Is(err, ErrReleased),
		errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSYS):
		return Fatal
	}
	return Retryable
}

// decideStatus: the statuses that speak of the peer's memory are stale handles;
// those that speak of a mistake in our own set-up would come again; all others
// are a peer, a link or a device that is gone for now.
func decideStatus(s ibverbs.Status) Decision {
	switch s {
	case ibverbs.RemAccessErr:
		return StaleHandle
	case ibverbs.LocLenErr, ibverbs.LocEECOpErr, ibverbs.LocProtErr, ibverbs.MWBindErr, ibverbs.LocAccessErr,
		ibverbs.RemInvReqErr, ibverbs.LocRDDViolErr, ibverbs.RemInvRDReqErr, ibverbs.InvEECNErr, ibverbs.InvEECStateErr,
		ibverbs.TMErr, ibverbs.TMRndvIncomplete:
		return Fatal
	}
	return Retryable
}
