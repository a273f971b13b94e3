package rdma

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// The rxe ring: real verbs between two soft-RoCE devices of this host, which the
// environment names. No time is asserted tighter than a second.

// rxeSide is one of the two devices.
type rxeSide struct {
	device, netdev string
	addr           netip.Addr
}

// requireRxe returns the reading and the exporting side.
func requireRxe(t testing.TB) (reader, exporter rxeSide) {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("needs soft-RoCE devices: RMATAIL_RXE is not set")
	}
	side := func(n string) rxeSide {
		addr, err := netip.ParseAddr(os.Getenv("RMATAIL_RXE_ADDR" + n))
		s := rxeSide{device: os.Getenv("RMATAIL_RXE_DEV" + n), netdev: os.Getenv("RMATAIL_RXE_NET" + n), addr: addr}
		if err != nil || s.device == "" || s.netdev == "" {
			t.Fatalf("RMATAIL_RXE is set, but device %s is not described: %+v %v", n, s, err)
		}
		return s
	}
	return side("0"), side("1")
}

func (s rxeSide) config(t testing.TB) Config {
	cfg := DefaultConfig()
	cfg.Device = s.device
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return cfg
}

// pattern fills memory with bytes that tell their position.
func pattern(mem []byte) {
	r := rand.NewChaCha8([32]byte{1})
	r.Read(mem) // never fails
}

func newRxeExport(t testing.TB, cfg Config, size int) *Export {
	t.Helper()
	mem, err := mapMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	pattern(mem)
	e, err := NewExport(cfg, mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("export: %v", err)
		}
		if s := e.Stats(); s.QPs != 0 || s.MRs != 0 || s.Devices != 0 {
			t.Errorf("left after Close: %+v", s)
		}
		if err := unmapMemory(mem); err != nil {
			t.Error(err)
		}
	})
	return e
}

// tryConnect does both ends of a handshake. change may alter the answer.
func tryConnect(t testing.TB, cfg Config, e *Export, change func(*answer)) (*Conn, *Responder, error) {
	t.Helper()
	from, to := requireRxe(t)
	d, err := Prepare(cfg, to.addr)
	if err != nil {
		return nil, nil, err
	}
	reply, r, err := e.Accept(t.Context(), d.Offer(), to.addr, from.addr)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	if change != nil {
		a, err := parseAnswer(reply)
		if err != nil {
			t.Fatal(err)
		}
		change(&a)
		reply = appendAnswer(nil, a)
	}
	c, err := d.Finish(t.Context(), reply)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return c, r, nil
}

func connect(t testing.TB, cfg Config, e *Export) *Conn {
	t.Helper()
	c, r, err := tryConnect(t, cfg, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeConn(t, c)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func closeConn(t testing.TB, c *Conn) Stats {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return checkSettled(t, c.e)
}

func newBatch(t testing.TB, c *Conn, size int) *Batch {
	t.Helper()
	b, err := c.NewBatch(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

// readOK reads one range and compares it.
func readOK(t testing.TB, c *Conn, e *Export, off uint64, n int) {
	t.Helper()
	b := newBatch(t, c, n)
	defer b.Release()
	dst := plan(t, b, off, n)
	if err := b.Do(soon()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(dst, e.mem[off:off+uint64(n)]) {
		t.Errorf("wrong bytes at %d (+%d)", off, n)
	}
}

// failsWith waits until a read fails, and checks how.
func failsWith(t testing.TB, c *Conn, within time.Duration, want Decision, statuses ...ibverbs.Status) {
	t.Helper()
	b := newBatch(t, c, 4096)
	defer b.Release()
	start := time.Now()
	for time.Since(start) < within {
		b.Reset()
		plan(t, b, 0, 64)
		err := b.Do(start.Add(within))
		if err == nil {
			continue
		}
		if got := Decide(err); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
		var ce *CompletionError
		if len(statuses) > 0 && (!errors.As(err, &ce) || !slices.Contains(statuses, ce.Status)) {
			t.Errorf("%v is none of %v", err, statuses)
		}
		select {
		case <-c.Lost():
		default:
			t.Errorf("not lost after %v", err)
		}
		if c.Err() == nil {
			t.Error("lost without a cause")
		}
		t.Logf("after %v: %v", time.Since(start).Round(time.Millisecond), err)
		return
	}
	t.Fatalf("reads still work after %v", within)
}

// eventually tries until f returns nil.
func eventually(t testing.TB, within time.Duration, what string, f func() error) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v: %v", what, within, err)
		case <-tick.C:
		}
	}
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %v: %v: %s", args, err, out)
	}
}

func TestRxeReads(t *testing.T) {
	from, to := requireRxe(t)
	const size = 4 << 20
	e := newRxeExport(t, to.config(t), size)
	c := connect(t, from.config(t), e)
	if c.Path.MTU != 4096 || c.Path.Reads != defaultReadAtomic || c.Path.Length != size {
		t.Errorf("%+v", c.Path)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var checked int
	for _, n := range []int{1, 8, 64, 100, 512, 4096, 4100, 65536} {
		for _, reads := range []int{1, 16, 64, 256} {
			if (n+7)*reads > MaxBatchBytes {
				continue
			}
			b := newBatch(t, c, (n+7)&^7*reads)
			for range 3 {
				type planned struct {
					off uint64
					dst []byte
				}
				var all []planned
				for range reads {
					off := uint64(r.IntN(size - n))
					all = append(all, planned{off, plan(t, b, off, n)})
				}
				if err := b.Do(soon()); err != nil {
					t.Fatal(err)
				}
				for _, p := range all {
					if !slices.Equal(p.dst, e.mem[p.off:p.off+uint64(n)]) {
						t.Fatalf("wrong bytes: %d reads of %d, at %d", reads, n, p.off)
					}
					checked += n
				}
				b.Reset()
			}
			b.Release()
		}
	}
	t.Logf("%d MiB checked, %+v", checked>>20, c.Stats())
}
