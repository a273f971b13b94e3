package rdma

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
)

// underDeadline runs f, which may sleep in the kernel where nothing can wake it.
// When ctx ends first, underDeadline returns ctx's error and false, and late is
// called when f is done; what f works on then belongs to late. f is always run.
func underDeadline(ctx context.Context, f func() error, late func(error)) (err error, mine bool) {
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
		return err, true
	case <-ctx.Done():
		return fmt.Errorf("queue pair not ready in time: %w", context.Cause(ctx)), false
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
