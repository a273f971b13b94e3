package rdma

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
)

// underDeadline runs f, which may sleep in the kernel where nothing can wake it.
// When ctx ends first, it returns ctx's error, and what f works on is no longer
// the caller's (mine is false) but late's, which is called when f is done.
func underDeadline(ctx context.Context, f func() error, late func(error)) (mine bool, err error) {
	done := make(chan error)
	go func() {
		err := f()
		select {
		case done <- err:
		case <-ctx.Done():
			// The caller may be about to take the result after all.
			select {
			case done <- err:
			default:
				late(err)
			}
		}
	}()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
		return false, fmt.Errorf("queue pair not ready in time: %w", context.Cause(ctx))
	}
}

// randomPSN is 24 bits: a late packet of an earlier connection with the same
// queue pair numbers must not fit in.
func randomPSN() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint32(b[:]) & 0xffffff
}

// randomNonce is not 0.
func randomNonce() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

func freeMemory(log *slog.Logger, mem []byte) {
	if err := unmapMemory(mem); err != nil {
		log.Error("receive buffers stay mapped", "error", err)
	}
}
