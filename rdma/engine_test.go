package rdma

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFabricReads has callers with batches of all sizes read at once, through a
// device that completes at random times.
func TestFabricReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 4<<20)
		e := nic.engine(0)
		stop := make(chan struct{})
		var device, callers sync.WaitGroup
		device.Go(func() {
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(100)) * time.Microsecond):
					nic.complete(1 + r.IntN(40))
				}
			}
		})
		const each = 200
		reads := make([]uint64, 8)
		for c := range reads {
			callers.Go(func() {
				r := rand.New(rand.NewPCG(3, uint64(c)))
				for range each {
					b := newTestBatch(t, e, 16<<10)
					for range 1 + r.IntN(3) {
						type planned struct {
							off uint64
							dst []byte
						}
						var all []planned
						for range 1 + r.IntN(MaxReads) {
							off, n := uint64(r.IntN(len(nic.remote)-600)), 1+r.IntN(600)
							dst := b.Add(off, n)
							if dst == nil {
								break
							}
							all = append(all, planned{off, dst})
						}
						do := b.Do
						if r.IntN(2) == 0 {
							do = func(d time.Time) error {
								if err := b.Post(d); err != nil {
									return err
								}
								return b.Wait()
							}
						}
						if err := do(time.Now().Add(time.Minute)); err != nil {
							t.Error(err)
							return
						}
						for _, p := range all {
							nic.check(t, p.off, p.dst)
						}
						reads[c] += uint64(len(all))
						b.Reset()
					}
					b.Release()
				}
			})
		}
		callers.Wait()
		close(stop)
		device.Wait()
		s := checkSettled(t, e)
		var want uint64
		for _, n := range reads {
			want += n
		}
		if s.Posted != want || s.Credits == 0 {
			t.Errorf("%d reads counted, %d posted; %d waits for the send queue", s.Posted, want, s.Credits)
		}
		closeEngine(t, e)
	})
}

// TestFabricLeaderHandsOver: the leader's batch is done first; the follower goes
// on without it.
func TestFabricLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		var results [3]chan error
		for i := range results {
			results[i] = make(chan error, 1)
			go func() {
				b := newTestBatch(t, e, 4096)
				defer b.Release()
				dst := plan(t, b, uint64(i)*100, 100)
				err := b.Do(time.Now().Add(time.Minute))
				if err == nil {
					nic.check(t, uint64(i)*100, dst)
				}
				results[i] <- err
			}()
			synctest.Wait()
		}
		for i := range results {
			nic.complete(1)
			synctest.Wait()
			select {
			case err := <-results[i]:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Fatalf("caller %d was not told", i)
			}
		}
		closeEngine(t, e)
	})
}

// TestFabricCompletionBeforeArming: a completion that comes between the last poll
// and the arming makes no event.
func TestFabricCompletionBeforeArming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		nic.armHook = func() { nic.complete(1) }
		b := newTestBatch(t, e, 4096)
		plan(t, b, 5, 5)
		start := time.Now()
		if err := b.Do(start.Add(time.Minute)); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.Release()
		closeEngine(t, e)
	})
}

// TestFabricFollowerDeadline: a follower leaves at its own deadline while the
// leader sleeps on.
func TestFabricFollowerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		leader := make(chan error, 1)
		go func() {
			b := newTestBatch(t, e, 4096)
			defer b.Release()
			plan(t, b, 0, 8)
			leader <- b.Do(time.Now().Add(time.Minute))
		}()
		synctest.Wait()
		b := newTestBatch(t, e, 4096)
		plan(t, b, 0, 8)
		start := time.Now()
		if err := b.Do(start.Add(20 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 20*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.Release()
		nic.complete(2)
		if err := <-leader; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		checkSettled(t, e)
		closeEngine(t, e)
	})
}

// TestFabricSendQueueIsFIFO: a large batch that waits for room is not overtaken
// by small ones for ever, and one that leaves at its deadline does not hold up
// those behind it.
func TestFabricSendQueueIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		post := func(reads int, d time.Duration) chan error {
			done := make(chan error, 1)
			go func() {
				b := newTestBatch(t, e, 4096)
				defer b.Release()
				for range reads {
					plan(t, b, 0, 8)
				}
				done <- b.Do(time.Now().Add(d))
			}()
			synctest.Wait()
			return done
		}
		first := post(200, time.Minute)
		late := post(256, time.Second)
		small := post(10, time.Minute)
		if n := nic.inFlight(); n != 200 {
			t.Fatalf("the small batch overtook: %d in flight", n)
		}
		if err := <-late; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if n := nic.inFlight(); n != 210 {
			t.Errorf("the small batch is held up: %d in flight", n)
		}
		nic.complete(210)
		for _, c := range []chan error{first, small} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		closeEngine(t, e)
	})
}

// TestFabricBatchRules: what may not be done is refused.
func TestFabricBatchRules(t *testing.T) {
	nic := newFakeNIC(t, 256, 1<<20)
	nic.mu.auto = true
	e := nic.engine(0)
	for _, size := range []int{0, -1, MaxBatchBytes + 1} {
		if _, err := e.newSlot(size); !errors.Is(err, ErrBatchSize) {
			t.Errorf("batch of %d bytes: %v", size, err)
		}
	}
	b := newTestBatch(t, e, 100)
	soon := time.Now().Add(time.Minute)
	if err := errors.Join(b.Post(soon), b.Wait(), b.Do(soon)); err != nil {
		t.Errorf("a batch without reads: %v", err)
	}
	length := uint64(len(nic.remote))
	for _, c := range []struct {
		off uint64
		n   int
	}{{0, 0}, {0, -1}, {length, 1}, {length - 1, 2}, {^uint64(0), 1}, {^uint64(0) - 3, 8}, {0, 101}} {
		if b.Add(c.off, c.n) != nil {
			t.Errorf("Add(%d, %d) was taken", c.off, c.n)
		}
	}
	a := plan(t, b, length-1, 1)
	c := plan(t, b, 0, 92) // from byte 8 on: the rest
	if b.Add(0, 1) != nil {
		t.Error("a full batch took another read")
	}
	if err := b.Post(time.Now().Add(-time.Second)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past deadline: %v", err)
	}
	if err := b.Post(soon); err != nil {
		t.Fatal(err)
	}
	if err := b.Post(soon); !errors.Is(err, ErrInFlight) {
		t.Errorf("second Post: %v", err)
	}
	if b.Add(0, 1) != nil {
		t.Error("a posted batch took another read")
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	nic.check(t, length-1, a)
	nic.check(t, 0, c)
	b.Reset()
	for range MaxReads {
		if b.s.used = 0; b.Add(0, 1) == nil {
			t.Fatal("no room for MaxReads reads")
		}
	}
	if b.s.used = 0; b.Add(0, 1) != nil {
		t.Error("more than MaxReads reads")
	}
	b.Release()
	if b.Add(0, 1) != nil || b.Post(soon) != ErrReleased || b.Wait() != ErrReleased {
		t.Error("a released batch can be used")
	}
	b.Reset()
	closeEngine(t, e)
}

// TestFabricSteadyStateAllocatesNothing: Add, Post, Wait, Reset on a batch that
// is used again.
func TestFabricSteadyStateAllocatesNothing(t *testing.T) {
	nic := newFakeNIC(t, 256, 1<<20)
	nic.mu.auto = true
	nic.mu.sq, nic.mu.cq = make([]fakeWR, 0, 4096), make([]fakeWC, 0, 4096)
	e := nic.engine(0)
	b := newTestBatch(t, e, 64<<10)
	deadline := time.Now().Add(time.Hour)
	allocs := testing.AllocsPerRun(100, func() {
		nic.mu.sq = nic.mu.sq[:0:cap(nic.mu.sq)]
		if cap(nic.mu.sq) < 64 {
			nic.mu.sq = make([]fakeWR, 0, 1<<16)
		}
		for i := range 64 {
			if b.Add(uint64(i), 8) == nil {
				t.Fatal("no room")
			}
		}
		if err := b.Post(deadline); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	})
	if allocs >= 1 { // the fake device's own queue grows now and then
		t.Errorf("%.1f allocations a batch", allocs)
	}
	b.Release()
	closeEngine(t, e)
}
