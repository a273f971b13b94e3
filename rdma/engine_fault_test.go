package rdma

import (
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// TestFabricErrorSettlesEverything fails one READ of many batches in flight:
// every caller gets the root cause, every READ settles once.
func TestFabricErrorSettlesEverything(t *testing.T) {
	for _, status := range []ibverbs.Status{ibverbs.RemAccessErr, ibverbs.RetryExcErr, ibverbs.WRFlushErr} {
		synctest.Test(t, func(t *testing.T) {
			nic := newFakeNIC(t, 64, 1<<20)
			e := nic.engine(0)
			var callers sync.WaitGroup
			var ok, bad int
			var mu sync.Mutex
			for range 6 {
				callers.Go(func() {
					b := newTestBatch(t, e, 4096)
					defer b.Release()
					for i := range 16 {
						plan(t, b, uint64(i)*8, 8)
					}
					err := b.Do(time.Now().Add(time.Minute))
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						ok++
						return
					}
					bad++
					var ce *CompletionError
					if !errors.As(err, &ce) || ce.Status != status || ce.QPN != 17 {
						t.Errorf("%v is not the root cause", err)
					}
				})
			}
			synctest.Wait() // four batches posted, two wait for credits
			nic.completeThenFail(20, status)
			callers.Wait()
			if ok != 1 || bad != 5 {
				t.Errorf("%d batches read and %d failed, want 1 and 5", ok, bad)
			}
			select {
			case <-e.lost:
			default:
				t.Error("the connection is not lost")
			}
			<-e.ended
			s := checkSettled(t, e)
			if s.Posted != 64 || s.Errors != 64-20 || s.Destroyed != 0 {
				t.Errorf("%+v", s)
			}
			b := Batch{e: e}
			if _, err := e.newSlot(1); !errors.Is(err, e.rootCause()) || b.Wait() != ErrReleased {
				t.Errorf("new batch on a lost connection: %v", err)
			}
			closeEngine(t, e)
		})
	}
}

// TestFabricAbandonedMemory abandons a batch: its memory is not dealt out again
// before the device is done with it, and then it is, without anybody waiting.
func TestFabricAbandonedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20) // room for one batch of 1 MiB
		e := nic.engine(0)
		b := newTestBatch(t, e, 1<<20)
		plan(t, b, 0, 4096)
		start := time.Now()
		if err := b.Do(start.Add(50 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 50*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		if err := b.Post(start.Add(time.Hour)); !errors.Is(err, ErrInFlight) {
			t.Errorf("posting an abandoned batch: %v", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an abandoned batch could be reset")
				}
			}()
			b.Reset()
		}()
		b.Release()
		if _, err := e.newSlot(1); !errors.Is(err, ErrNoBuffers) {
			t.Fatalf("memory that the device may write was dealt out: %v", err)
		}
		nic.complete(1)
		synctest.Wait()
		b = newTestBatch(t, e, 1<<20)
		nic.mu.auto = true
		dst := plan(t, b, 77, 4096)
		if err := b.Do(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		nic.check(t, 77, dst)
		b.Release()
		if s := checkSettled(t, e); s.Abandoned != 1 {
			t.Errorf("%+v", s)
		}
		closeEngine(t, e)
	})
}

// TestFabricStuckDevice never completes and never flushes: the connection is
// lost when all retries must have ended, and taken apart in bounded time.
func TestFabricStuckDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		nic.mu.noFlush = true
		e := nic.engine(0)
		b := newTestBatch(t, e, 4096)
		for i := range 5 {
			plan(t, b, uint64(i), 8)
		}
		start := time.Now()
		if err := b.Do(start.Add(time.Second)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		<-e.lost
		if d := time.Since(start); d != time.Second+e.stuck || !errors.Is(e.rootCause(), ErrStuck) {
			t.Errorf("lost after %v: %v", d, e.rootCause())
		}
		<-e.ended
		if d := time.Since(start); d != time.Second+e.stuck+drainTime {
			t.Errorf("taken apart after %v", d)
		}
		b.Release()
		if s := checkSettled(t, e); s.Destroyed != 5 {
			t.Errorf("%+v", s)
		}
		closeEngine(t, e)
	})
}

// TestFabricCloseInFlight closes while callers wait for completions and for the
// send queue.
func TestFabricCloseInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 300, 1<<20)
		e := nic.engine(0)
		results := make(chan error, 4)
		for range cap(results) {
			go func() {
				b := newTestBatch(t, e, 8192)
				defer b.Release()
				for range MaxReads {
					plan(t, b, 0, 8)
				}
				results <- b.Do(time.Now().Add(time.Minute))
			}()
		}
		synctest.Wait()
		if n := nic.inFlight(); n != MaxReads {
			t.Fatalf("%d in flight", n)
		}
		start := time.Now()
		closeEngine(t, e)
		if d := time.Since(start); d != 0 {
			t.Errorf("closing took %v: somebody slept on", d)
		}
		for range cap(results) {
			if err := <-results; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	})
}

// TestFabricCloseWakesLeader closes a device that does not flush, so that only
// the wake-up ends the leader's sleep, also when it is about to fall asleep.
func TestFabricCloseWakesLeader(t *testing.T) {
	for _, when := range []string{"asleep", "falling asleep"} {
		synctest.Test(t, func(t *testing.T) {
			nic := newFakeNIC(t, 256, 1<<20)
			nic.mu.noFlush = true
			e := nic.engine(0)
			if when == "falling asleep" {
				nic.waitHook = sync.OnceFunc(func() { e.fail(ErrClosed) })
			}
			done := make(chan error, 1)
			go func() {
				b := newTestBatch(t, e, 4096)
				defer b.Release()
				plan(t, b, 0, 8)
				done <- b.Do(time.Now().Add(time.Hour))
			}()
			synctest.Wait()
			start := time.Now()
			closeEngine(t, e)
			if d := time.Since(start); d != drainTime {
				t.Errorf("leader %s: closing took %v", when, d)
			}
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// TestFabricStrays: completions that match no READ in flight change nothing.
func TestFabricStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		nic.mu.auto = true
		e := nic.engine(0)
		b := newTestBatch(t, e, 4096)
		plan(t, b, 0, 8)
		if err := b.Do(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		old := b.s.reads[0].ID
		nic.mu.auto = false
		for range 3 {
			plan(t, b, 0, 8)
		}
		if err := b.Post(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, id := range []uint64{old, wrID(999, 0, 0), wrID(b.s.num, b.s.gen, 4), wrID(b.s.num, b.s.gen+1, 0)} {
			nic.mu.Lock()
			nic.completionLocked(fakeWR{Read: ibverbs.Read{ID: id}}, ibverbs.Success)
			nic.mu.Unlock()
		}
		if err := b.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("done by completions of others: %v", err)
		}
		if s := e.stats(); s.Strays != 4 || s.Outstanding != 4 {
			t.Errorf("%+v", s)
		}
		nic.complete(4)
		synctest.Wait()
		b.Release()
		if s := e.stats(); s.Posted != s.Settled || s.Strays != 4 {
			t.Errorf("%+v", s)
		}
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFabricRefusedPost: the device refuses in the middle of a list.
func TestFabricRefusedPost(t *testing.T) {
	for _, taken := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			nic := newFakeNIC(t, 256, 1<<20)
			nic.mu.refuse = taken
			e := nic.engine(0)
			b := newTestBatch(t, e, 4096)
			for range 8 {
				plan(t, b, 0, 8)
			}
			if err := b.Do(time.Now().Add(time.Second)); !errors.Is(err, ErrDevice) {
				t.Error(err)
			}
			b.Release()
			<-e.ended
			if s := checkSettled(t, e); s.Posted != uint64(taken) {
				t.Errorf("%+v", s)
			}
			closeEngine(t, e)
		})
	}
}

// TestFabricMemoryOutlivesClose: what was read stays readable until Release, and
// then the memory is freed once.
func TestFabricMemoryOutlivesClose(t *testing.T) {
	nic := newFakeNIC(t, 256, 1<<20)
	nic.mu.auto = true
	freed := 0
	e := newEngine(engineConfig{queue: nic, depth: 256, stuck: time.Second, length: 1 << 20, mem: nic.local, freed: func() { freed++ }})
	b := newTestBatch(t, e, 4096)
	dst := plan(t, b, 99, 500)
	if err := b.Do(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	nic.check(t, 99, dst)
	if freed != 0 {
		t.Fatal("freed while a batch has it")
	}
	b.Release()
	b.Release()
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}
