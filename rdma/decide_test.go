package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

func TestDecideOnStatus(t *testing.T) {
	want := map[ibverbs.Status]Decision{
		ibverbs.LocLenErr:        Fatal,
		ibverbs.LocQPOpErr:       Retryable,
		ibverbs.LocEECOpErr:      Fatal,
		ibverbs.LocProtErr:       Fatal,
		ibverbs.WRFlushErr:       Retryable,
		ibverbs.MWBindErr:        Fatal,
		ibverbs.BadRespErr:       Retryable,
		ibverbs.LocAccessErr:     Fatal,
		ibverbs.RemInvReqErr:     Fatal,
		ibverbs.RemAccessErr:     StaleHandle,
		ibverbs.RemOpErr:         Retryable,
		ibverbs.RetryExcErr:      Retryable,
		ibverbs.RNRRetryExcErr:   Retryable,
		ibverbs.LocRDDViolErr:    Fatal,
		ibverbs.RemInvRDReqErr:   Fatal,
		ibverbs.RemAbortErr:      Retryable,
		ibverbs.InvEECNErr:       Fatal,
		ibverbs.InvEECStateErr:   Fatal,
		ibverbs.FatalErr:         Retryable,
		ibverbs.RespTimeoutErr:   Retryable,
		ibverbs.GeneralErr:       Retryable,
		ibverbs.TMErr:            Fatal,
		ibverbs.TMRndvIncomplete: Fatal,
		ibverbs.Status(99):       Retryable,
	}
	for s := ibverbs.Status(1); s <= ibverbs.TMRndvIncomplete; s++ {
		if _, ok := want[s]; !ok {
			t.Errorf("%v is not in the table", s)
		}
	}
	for s, d := range want {
		err := fmt.Errorf("batch: %w", &CompletionError{Status: s, QPN: 5})
		if got := Decide(err); got != d {
			t.Errorf("%v: %v, want %v", s, got, d)
		}
	}
}

func TestDecideOnErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Decision
	}{
		{errors.New("unknown"), Retryable},
		{lateError("read", 3), Retryable},
		{os.ErrDeadlineExceeded, Retryable},
		{context.Canceled, Retryable},
		{ErrNoBuffers, Retryable},
		{ErrNoDevice, Retryable},
		{ErrNoGID, Retryable},
		{ErrPortDown, Retryable},
		{ErrStuck, Retryable},
		{ErrGIDChanged, Retryable},
		{ErrDevice, Retryable},
		{ErrHandshake, Retryable},
		{&ibverbs.ModifyError{Errno: syscall.ETIMEDOUT}, Retryable},
		{ErrStaleAnswer, StaleHandle},
		{ErrVersion, Fatal},
		{ErrIncompatible, Fatal},
		{ErrUnsupported, Fatal},
		{ErrNoLibrary, Fatal},
		{ErrConfig, Fatal},
		{ErrClosed, Fatal},
		{&MemlockError{Err: syscall.ENOMEM}, Fatal},
		{&NoDeviceError{Reasons: []DeviceReason{{Device: "rxe0", Err: &MemlockError{Err: syscall.ENOMEM}}}}, Fatal},
		{&ibverbs.Error{Errno: syscall.EACCES}, Fatal},
	} {
		if got := Decide(fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err   error
		parts []string
	}{
		{&MemlockError{Device: "mlx5_0", Need: 64 << 20, Limit: 8 << 20, Err: syscall.ENOMEM}, []string{"65536 KiB", "8192 KiB", "mlx5_0", "ulimit -l", "CAP_IPC_LOCK"}},
		{&MemlockError{Device: "mlx5_0", Need: 64 << 20, Limit: ^uint64(0), Err: syscall.ENOMEM}, []string{"no limit"}},
		{&CompletionError{Status: ibverbs.RemAccessErr, VendorErr: 0x88, QPN: 12, Peer: netip.MustParseAddr("10.0.0.1")}, []string{"QP 12", "10.0.0.1", "REM_ACCESS_ERR", "0x88", "handshake"}},
		{&CompletionError{Status: 77}, []string{"status 77"}},
	} {
		for _, p := range c.parts {
			if !strings.Contains(c.err.Error(), p) {
				t.Errorf("%q lacks %q", c.err, p)
			}
		}
	}
	if !errors.Is(&MemlockError{Err: syscall.ENOMEM}, syscall.ENOMEM) || !errors.Is(&MemlockError{}, ErrMemlock) {
		t.Error("MemlockError hides what it is")
	}
}

func TestConfig(t *testing.T) {
	c, err := DefaultConfig().withDefaults()
	if err != nil || c.BufferBytes != 4<<20 || c.Depth != 512 || c.Retries != 6 || c.Logger == nil {
		t.Errorf("%+v %v", c, err)
	}
	if total := c.stuckAfter(); total.Seconds() < 1.8 || total.Seconds() > 4 {
		t.Errorf("a device counts as stuck after %v", total)
	}
	c.BufferBytes = 1
	if c, err = c.withDefaults(); err != nil || c.BufferBytes != 1<<20 {
		t.Errorf("%+v %v", c, err)
	}
	for name, bad := range map[string]Config{
		"Port":        {Port: 256},
		"GIDIndex":    {GIDIndex: -2},
		"BufferBytes": {BufferBytes: -1},
		"Depth":       {Depth: 255},
		"ReadAtomic":  {ReadAtomic: 256},
		"AckTimeout":  {AckTimeout: -1},
		"Retries":     {Retries: 7},
		"Spin":        {Spin: 1e9},
	} {
		if _, err := bad.withDefaults(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s out of range: %v", name, err)
		}
	}
}
