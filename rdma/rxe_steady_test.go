package rdma

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
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
