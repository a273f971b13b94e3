package rdma

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

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
