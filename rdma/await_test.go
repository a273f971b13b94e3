package rdma

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// TestFabricAwait: who leaves before the deadline gives nothing up, whether or not
// somebody else polls meanwhile.
func TestFabricAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		start := time.Now()
		b := newTestBatch(t, e, 4096)
		dst := plan(t, b, 7, 100)
		if err := b.Post(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		left := func(until time.Duration) {
			t.Helper()
			at := max(time.Since(start), until)
			if settled, err := b.Await(start.Add(until)); settled || err != nil || time.Since(start) != at {
				t.Fatalf("%v, %v after %v, want to leave after %v", settled, err, time.Since(start), at)
			}
		}
		left(-time.Hour) // only to look
		left(30 * time.Millisecond)
		left(10 * time.Millisecond)
		other := make(chan error, 1) // leads from here on
		go func() {
			o := newTestBatch(t, e, 4096)
			defer o.Release()
			plan(t, o, 0, 8)
			other <- o.Do(start.Add(time.Minute))
		}()
		synctest.Wait()
		left(50 * time.Millisecond)
		nic.complete(2)
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		if settled, err := b.Await(start.Add(60 * time.Millisecond)); !settled || err != nil || time.Since(start) != 50*time.Millisecond {
			t.Fatalf("%v, %v after %v", settled, err, time.Since(start))
		}
		nic.check(t, 7, dst)
		b.Reset() // as after a Wait
		if settled, err := b.Await(start.Add(time.Hour)); !settled || err != nil {
			t.Fatalf("with nothing posted: %v, %v", settled, err)
		}

		plan(t, b, 0, 8)
		if err := b.Post(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if settled, err := b.Await(time.Now().Add(time.Hour)); !settled || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("past the deadline: %v, %v", settled, err)
		}
		b.Release()
		if s := e.stats(); s.Abandoned != 1 {
			t.Fatalf("%+v", s)
		}
		nic.complete(1)
		synctest.Wait()
		checkSettled(t, e)

		b = newTestBatch(t, e, 4096)
		plan(t, b, 0, 8)
		if err := b.Post(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		nic.failNext(ibverbs.RemAccessErr)
		nic.complete(1)
		var failed *CompletionError
		if settled, err := b.Await(time.Now().Add(time.Millisecond)); !settled || !errors.As(err, &failed) {
			t.Fatalf("a failed read: %v, %v", settled, err)
		}
		b.Release()
		if settled, err := b.Await(time.Now()); !settled || err != ErrReleased {
			t.Fatalf("a released batch: %v, %v", settled, err)
		}
		closeEngine(t, e)
	})
}
