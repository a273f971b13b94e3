package rdma

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRxeManyConns connects many at once over one pool, reads over all of them,
// and loses them all by one registration.
func TestRxeManyConns(t *testing.T) {
	from, to := requireRxe(t)
	pool := NewPool(nil)
	out, in := from.config(t), to.config(t)
	out.Pool, in.Pool, out.Logger, in.Logger = pool, pool, nil, nil
	e := newRxeExport(t, in, 1<<20)
	const n = 24
	conns := make([]*Conn, n)
	var all sync.WaitGroup
	gate := make(chan struct{}, 8) // connecting
	for i := range conns {
		all.Go(func() {
			gate <- struct{}{}
			c, _, err := tryConnect(t, out, e, nil) // the export closes the responders
			<-gate
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
			for k := range 5 {
				readOK(t, c, e, uint64(i*1000+k*64), 4096)
			}
		})
	}
	all.Wait()
	if s := e.Stats(); s.QPs != n || s.MRs != 1 || s.Devices != 1 {
		t.Errorf("%+v", s)
	}
	if t.Failed() {
		return
	}
	if err := e.Reregister(); err != nil {
		t.Fatal(err)
	}
	for _, c := range conns {
		all.Go(func() {
			failsWith(t, c, 5*time.Second, StaleHandle)
			closeConn(t, c)
		})
	}
	all.Wait()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if d := pool.mu.devices[to.device]; len(pool.mu.devices) != 1 || d == nil || d.refs != 1 {
		t.Errorf("devices open with all connections closed: %v", pool.mu.devices)
	}
}

// TestRxeDeadlines reads with deadlines that are often too short: late READs land
// in memory that nobody else has yet.
func TestRxeDeadlines(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	cfg := from.config(t)
	cfg.BufferBytes = 1 << 20 // six callers with 64 KiB, and what they abandoned
	cfg.Depth = MaxReads
	c := connect(t, cfg, e)
	var inTime, late, noMemory atomic.Uint64
	var callers sync.WaitGroup
	for g := range 6 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				b, err := c.NewBatch(64 << 10)
				if errors.Is(err, ErrNoBuffers) {
					noMemory.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				offs, dsts := make([]uint64, 16), make([][]byte, 16)
				for k := range dsts {
					offs[k] = uint64(r.IntN(1<<20 - 4096))
					dsts[k] = plan(t, b, offs[k], 4096)
				}
				deadline := time.Now().Add(time.Duration(r.IntN(4000)) * time.Microsecond)
				if r.IntN(4) == 0 {
					deadline = soon()
				}
				switch err := b.Do(deadline); {
				case err == nil:
					inTime.Add(1)
					for k := range dsts {
						if !slices.Equal(dsts[k], e.mem[offs[k]:offs[k]+4096]) {
							t.Error("wrong bytes")
						}
					}
				case errors.Is(err, os.ErrDeadlineExceeded):
					late.Add(1)
				default:
					t.Error(err)
				}
				b.Release()
			}
		})
	}
	callers.Wait()
	eventually(t, 10*time.Second, "abandoned reads settle", func() error {
		if s := c.Stats(); s.Outstanding != 0 {
			return errors.New("outstanding")
		}
		return nil
	})
	s := checkSettled(t, c.e)
	if inTime.Load() == 0 || c.Err() != nil {
		t.Errorf("none in time, or lost: %v", c.Err())
	}
	b := newBatch(t, c, MaxBatchBytes) // all memory is back
	b.Release()
	t.Logf("%d in time, %d late, %d without memory, %+v", inTime.Load(), late.Load(), noMemory.Load(), s)
}
