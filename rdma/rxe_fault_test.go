package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// TestRxeConcurrentCallers shares one connection among many goroutines.
func TestRxeConcurrentCallers(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	cfg := from.config(t)
	cfg.Depth = MaxReads // so that callers wait for each other
	c := connect(t, cfg, e)
	var callers sync.WaitGroup
	for g := range 8 {
		callers.Go(func() {
			b := newBatch(t, c, 64<<10)
			defer b.Release()
			for i := range 12 {
				dsts := make([][]byte, 64)
				off := func(k int) uint64 { return uint64((g*31 + i*17 + k*4099) % (1<<20 - 1024)) }
				for k := range dsts {
					dsts[k] = plan(t, b, off(k), 1000)
				}
				if err := b.Post(soon()); err != nil {
					t.Error(err)
					return
				}
				if err := b.Wait(); err != nil {
					t.Error(err)
					return
				}
				for k, dst := range dsts {
					if !slices.Equal(dst, e.mem[off(k):off(k)+1000]) {
						t.Error("wrong bytes")
					}
				}
				b.Reset()
			}
		})
	}
	callers.Wait()
	if s := checkSettled(t, c.e); s.Posted != 8*12*64 {
		t.Errorf("%+v", s)
	} else {
		t.Logf("%+v", s)
	}
}

// TestRxeStaleHandle: a wrong key, and one that was right before the memory was
// registered anew. A new handshake works each time.
func TestRxeStaleHandle(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	c, r, err := tryConnect(t, from.config(t), e, func(a *answer) { a.rkey ^= 1 })
	if err != nil {
		t.Fatal(err)
	}
	failsWith(t, c, 2*time.Second, StaleHandle, ibverbs.RemAccessErr)
	if s := closeConn(t, c); s.Errors == 0 {
		t.Errorf("%+v", s)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}

	old := connect(t, from.config(t), e)
	readOK(t, old, e, 1000, 5000)
	if err := e.Reregister(); err != nil {
		t.Fatal(err)
	}
	failsWith(t, old, 2*time.Second, StaleHandle, ibverbs.RemAccessErr)
	c = connect(t, from.config(t), e)
	readOK(t, c, e, 1000, 5000)
	if c.Path.Generation != old.Path.Generation+1 {
		t.Errorf("generation %d after %d", c.Path.Generation, old.Path.Generation)
	}
	if s := e.Stats(); s.MRs != 1 || s.QPs != 2 || s.Accepted != 3 {
		t.Errorf("%+v", s)
	}
}

// TestRxeResponderClosed: the peer's queue pair is gone, its process is not.
func TestRxeResponderClosed(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	c, r, err := tryConnect(t, from.config(t), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	readOK(t, c, e, 0, 64)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	failsWith(t, c, 2500*time.Millisecond, Retryable, ibverbs.RetryExcErr)
	closeConn(t, c)
}

// TestRxeErrorInTheMiddle: of many batches in flight one has a bad read; each
// READ settles once, all callers get the same root cause.
func TestRxeErrorInTheMiddle(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	c := connect(t, from.config(t), e)
	c.e.length += 1 << 20 // so that Add takes a read past the end
	var callers sync.WaitGroup
	var failed atomic.Int32
	for g := range 6 {
		callers.Go(func() {
			b := newBatch(t, c, 64<<10)
			defer b.Release()
			for round := 0; ; round++ {
				for i := range 64 {
					off := uint64(i) * 1000
					if g == 3 && i == 20 && round == 3 {
						off = 1<<20 - 8
					}
					plan(t, b, off, 1000)
				}
				if err := b.Do(soon()); err != nil {
					var ce *CompletionError
					if !errors.As(err, &ce) || ce.Status != ibverbs.RemAccessErr || !errors.Is(err, c.Err()) {
						t.Errorf("%v is not the root cause %v", err, c.Err())
					}
					failed.Add(1)
					return
				}
				b.Reset()
			}
		})
	}
	callers.Wait()
	if failed.Load() != 6 {
		t.Errorf("%d of 6 callers were told", failed.Load())
	}
	<-c.e.ended
	if s := checkSettled(t, c.e); s.Errors == 0 {
		t.Errorf("%+v", s)
	} else {
		t.Logf("%+v", s)
	}
}

// TestRxeCloseInFlight closes under callers that read.
func TestRxeCloseInFlight(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	c := connect(t, from.config(t), e)
	var callers sync.WaitGroup
	reading := make(chan struct{}, 8)
	for range cap(reading) {
		callers.Go(func() {
			b := newBatch(t, c, 64<<10)
			defer b.Release()
			for i := 0; ; i++ {
				for k := range 16 {
					plan(t, b, uint64(k)*4096, 4096)
				}
				if err := b.Do(soon()); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				if i == 0 {
					reading <- struct{}{}
				}
				b.Reset()
			}
		})
	}
	for range cap(reading) {
		<-reading
	}
	t.Logf("%+v", closeConn(t, c))
	callers.Wait()
}

// TestRxeMTU: the smaller active MTU of both ends is used.
func TestRxeMTU(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for _, s := range []rxeSide{from, to} {
		before := readFile(t, "/sys/class/net/"+s.netdev+"/mtu")
		ip(t, "link", "set", s.netdev, "mtu", "1500")
		c, r, err := tryConnect(t, from.config(t), e, nil)
		if err != nil {
			t.Error(err)
		} else {
			if c.Path.MTU != 1024 {
				t.Errorf("%s has MTU 1500: path MTU %d", s.netdev, c.Path.MTU)
			}
			readOK(t, c, e, 77, 65536)
			closeConn(t, c)
			r.Close()
		}
		ip(t, "link", "set", s.netdev, "mtu", before)
	}
	c := connect(t, from.config(t), e)
	if c.Path.MTU != 4096 {
		t.Errorf("path MTU %d", c.Path.MTU)
	}
	readOK(t, c, e, 77, 65536)
}

// TestRxeReadAtomic: READs in flight are what both ends can do.
func TestRxeReadAtomic(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for _, c := range []struct{ asked, got int }{{1, 1}, {4, 4}, {0, defaultReadAtomic}, {255, 128}} {
		cfg := from.config(t)
		cfg.ReadAtomic = c.asked
		conn, r, err := tryConnect(t, cfg, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		own, err := conn.e.q.(*verbsQueue).qp.Query()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := r.qp.Query()
		if err != nil {
			t.Fatal(err)
		}
		if conn.Path.Reads != c.got || own.MaxRdAtomic != c.got || peer.MaxDestRdAtomic != c.got || peer.State != ibverbs.RTR || own.State != ibverbs.RTS {
			t.Errorf("asked for %d: path %d, requester %+v, responder %+v", c.asked, conn.Path.Reads, own, peer)
		}
		readOK(t, conn, e, 0, 65536)
		closeConn(t, conn)
		r.Close()
	}
}

// TestRxeLink takes either end's link down: reads fail within 2 s, and a new
// connection works soon after it is up again.
func TestRxeLink(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for _, s := range []rxeSide{from, to} {
		c := connect(t, from.config(t), e)
		readOK(t, c, e, 0, 4096)
		ip(t, "link", "set", s.netdev, "down")
		failsWith(t, c, 2500*time.Millisecond, Retryable)
		if _, r, err := tryConnect(t, from.config(t), e, nil); err == nil {
			t.Errorf("%s is down, but a connection works", s.netdev)
			r.Close()
		} else if Decide(err) != Retryable {
			t.Errorf("%v is %v", err, Decide(err))
		} else {
			t.Logf("%s down: %v", s.netdev, err)
		}
		ip(t, "link", "set", s.netdev, "up")
		start := time.Now()
		eventually(t, 15*time.Second, "reconnect", func() error {
			c, r, err := tryConnect(t, from.config(t), e, nil)
			if err != nil {
				return err
			}
			readOK(t, c, e, 0, 4096)
			closeConn(t, c)
			return r.Close()
		})
		t.Logf("%s: back after %v", s.netdev, time.Since(start).Round(time.Millisecond))
	}
}

// TestRxeFlapHeals: a short flap costs no connection when the retries outlast it;
// a batch that was abandoned meanwhile gets its memory back only when the device
// is done with it.
func TestRxeFlapHeals(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 2<<20)
	cfg := from.config(t)
	cfg.BufferBytes = MaxBatchBytes // one batch takes all
	cfg.AckTimeout = 260 * time.Millisecond
	c := connect(t, cfg, e)
	readOK(t, c, e, 0, 4096)
	ip(t, "link", "set", to.netdev, "down")
	b := newBatch(t, c, MaxBatchBytes)
	plan(t, b, 0, 4096)
	err := b.Do(time.Now().Add(30 * time.Millisecond))
	if !errors.Is(err, os.ErrDeadlineExceeded) || Decide(err) != Retryable {
		t.Errorf("link down, deadline 30 ms: %v", err)
	}
	b.Release()
	if _, err := c.NewBatch(1); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("memory of a batch in flight was dealt out: %v", err)
	}
	ip(t, "link", "set", to.netdev, "up")
	eventually(t, 20*time.Second, "memory of the abandoned batch", func() error {
		b, err := c.NewBatch(MaxBatchBytes)
		if err == nil {
			b.Release()
		}
		return err
	})
	if c.Err() != nil {
		t.Fatalf("lost by a flap: %v", c.Err())
	}
	readOK(t, c, e, 4096, 65536)
	if s := checkSettled(t, c.e); s.Abandoned != 1 || s.Errors != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRxeGID removes the address of a connection: it is lost although idle, and
// comes back with the address. Other addresses change nothing.
func TestRxeGID(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	c := connect(t, from.config(t), e)
	other := "10.9.88.1/24"
	addr := from.addr.String() + "/24"
	ip(t, "addr", "add", other, "dev", from.netdev)
	readOK(t, c, e, 0, 4096)
	ip(t, "addr", "del", other, "dev", from.netdev)
	eventually(t, 10*time.Second, "GID of "+other+" gone", func() error {
		for _, g := range gids(t, c) {
			if GID(g.GID).String() == "::ffff:10.9.88.1" {
				return errors.New("still there")
			}
		}
		return nil
	})
	readOK(t, c, e, 0, 4096)

	ip(t, "addr", "del", addr, "dev", from.netdev)
	start := time.Now()
	select {
	case <-c.Lost():
		t.Logf("lost after %v: %v", time.Since(start).Round(time.Millisecond), c.Err())
		if !errors.Is(c.Err(), ErrGIDChanged) || Decide(c.Err()) != Retryable {
			t.Errorf("lost with %v", c.Err())
		}
	case <-time.After(5 * time.Second):
		t.Error("an idle connection whose GID is gone is not lost")
	}
	// Another GID of the port may do meanwhile, or none.
	if c, r, err := tryConnect(t, from.config(t), e, nil); err == nil {
		t.Logf("meanwhile by %v", c.Path.GID)
		readOK(t, c, e, 0, 4096)
		closeConn(t, c)
		r.Close()
	} else if Decide(err) != Retryable {
		t.Errorf("%v is %v", err, Decide(err))
	} else {
		t.Log(err)
	}
	ip(t, "addr", "add", addr, "dev", from.netdev)
	eventually(t, 15*time.Second, "reconnect", func() error {
		c, r, err := tryConnect(t, from.config(t), e, nil)
		if err != nil {
			return err
		}
		readOK(t, c, e, 0, 4096)
		closeConn(t, c)
		if err := r.Close(); err != nil {
			return err
		}
		if c.Path.GID != GIDFrom(from.addr) {
			return fmt.Errorf("by %v", c.Path.GID)
		}
		return nil
	})
}

func gids(t *testing.T, c *Conn) []ibverbs.GIDEntry {
	t.Helper()
	table, err := c.dev.ctx.GIDTable()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestRxeUnreachablePeer: the kernel looks for a host that is not there for about
// a second; callers are back at their deadline.
func TestRxeUnreachablePeer(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	nobody := netip.MustParseAddr("10.9.0.200")
	d, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	offer, err := parseOffer(d.Offer())
	if err != nil {
		t.Fatal(err)
	}
	offer.gid = GIDFrom(nobody)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, _, err = e.Accept(ctx, appendEndpoint(nil, kindOffer, offer), to.addr, from.addr)
	if !errors.Is(err, context.DeadlineExceeded) || Decide(err) != Retryable {
		t.Errorf("responder: %v", err)
	}
	t.Logf("responder after %v: %v", time.Since(start).Round(time.Millisecond), err)

	reply, r, err := e.Accept(t.Context(), d.Offer(), to.addr, from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, err := parseAnswer(reply)
	if err != nil {
		t.Fatal(err)
	}
	a.gid = GIDFrom(nobody)
	start = time.Now()
	_, err = d.Finish(t.Context(), appendAnswer(nil, a)) // no deadline: the kernel's answer
	var m *ibverbs.ModifyError
	if !errors.As(err, &m) || m.To != ibverbs.RTR || m.Hint == "" || Decide(err) != Retryable {
		t.Errorf("requester: %v", err)
	}
	t.Logf("requester after %v: %v", time.Since(start).Round(time.Millisecond), err)
	eventually(t, 10*time.Second, "late queue pair freed", func() error {
		if s := e.Stats(); s.QPs != 1 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// TestRxeStaleAnswer: an answer to another offer is refused before it does harm.
func TestRxeStaleAnswer(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	first, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	reply, r, err := e.Accept(t.Context(), first.Offer(), to.addr, from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := first.Finish(t.Context(), reply); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish after Close: %v", err)
	}
	second, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Finish(t.Context(), reply); !errors.Is(err, ErrStaleAnswer) || Decide(err) != StaleHandle {
		t.Errorf("late answer: %v", err)
	}
}

// TestRxeLeaks connects, reads and closes 50 times, with all endings.
func TestRxeLeaks(t *testing.T) {
	from, to := requireRxe(t)
	pool := NewPool(nil)
	to2, from2 := to.config(t), from.config(t)
	to2.Logger, from2.Logger = nil, nil
	to2.Pool, from2.Pool = pool, pool
	e := newRxeExport(t, to2, 1<<20)
	cycle := func(i int) {
		c, r, err := tryConnect(t, from2, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		readOK(t, c, e, uint64(i)*64, 4096)
		b := newBatch(t, c, 4096)
		plan(t, b, 0, 4096)
		switch i % 3 {
		case 0: // with a batch posted and never waited for
			if err := b.Post(soon()); err != nil {
				t.Error(err)
			}
		case 1: // the peer goes first
			r.Close()
		}
		b.Release()
		closeConn(t, c)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if i%5 == 0 { // an offer that nobody finishes
			d, err := Prepare(from2, to.addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	cycle(0)
	fds, goroutines, resources := openFiles(t), runtime.NumGoroutine(), kernelResources(t)
	for i := range 50 {
		cycle(i)
	}
	if n := openFiles(t); n > fds {
		t.Errorf("%d open files, %d before", n, fds)
	}
	if n := kernelResources(t); n != resources {
		t.Errorf("the kernel has %s, %s before", n, resources)
	}
	eventually(t, 5*time.Second, "goroutines", func() error {
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Errorf("%d goroutines, %d before", n, goroutines)
		}
		return nil
	})
	if s := e.Stats(); s.QPs != 0 || s.MRs != 1 || s.Accepted != 51 {
		t.Errorf("%+v", s)
	}
	t.Logf("%d files, %s", fds, resources)
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestRxeSteadyStateAllocatesNothing: the whole way of a batch, spinning and
// sleeping.
func TestRxeSteadyStateAllocatesNothing(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for name, spin := range map[string]time.Duration{"spinning": 10 * time.Millisecond, "sleeping": -1} {
		cfg := from.config(t)
		cfg.Spin = spin
		c := connect(t, cfg, e)
		b := newBatch(t, c, 256<<10)
		deadline := time.Now().Add(time.Minute)
		for what, do := range map[string]func() error{
			"Do": func() error { return b.Do(deadline) },
			"Post, Wait": func() error {
				if err := b.Post(deadline); err != nil {
					return err
				}
				return b.Wait()
			},
		} {
			n := testing.AllocsPerRun(20, func() {
				for i := range 64 {
					if b.Add(uint64(i)*4096, 4096) == nil {
						t.Fatal("no room")
					}
				}
				if err := do(); err != nil {
					t.Fatal(err)
				}
				b.Reset()
			})
			if n != 0 {
				t.Errorf("%s, %s: %v allocations a batch of 64", name, what, n)
			}
		}
		b.Release()
		s := checkSettled(t, c.e)
		t.Logf("%s: %+v", name, s)
	}

	// The way of a caller that sleeps, which a batch that is done early does not
	// go: an armed queue, an event through the netpoller.
	c := connect(t, from.config(t), e)
	b := newBatch(t, c, 4096)
	defer b.Release()
	plan(t, b, 0, 4096)
	b.s.reads[0].Signaled = 1
	if !c.e.tryLead() {
		t.Fatal("somebody leads")
	}
	defer c.e.endLead()
	deadline := time.Now().Add(time.Minute)
	n := testing.AllocsPerRun(20, func() {
		if n, err := c.e.q.armPoll(c.e.wcs); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if counts, err := c.e.q.post(b.s.reads, nil, -1); counts.Posted != 1 || err != nil {
			t.Fatal(counts, err)
		}
		if event, err := c.e.q.wait(deadline, &c.e.dead); !event || err != nil {
			t.Fatal("no event", err)
		}
		if n, err := c.e.q.poll(c.e.wcs, 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a wait with an event", n)
	}
	n = testing.AllocsPerRun(5, func() {
		if event, err := c.e.q.wait(time.Now().Add(time.Millisecond), &c.e.dead); event || err != nil {
			t.Fatal(event, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a wait until the deadline", n)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
