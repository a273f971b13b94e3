package rdma

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// postOne posts a batch of one READ.
func postOne(t *testing.T, e *engine, deadline time.Time) *Batch {
	t.Helper()
	b := newTestBatch(t, e, 64)
	plan(t, b, 0, 8)
	if err := b.Post(deadline); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFabricOneEventForMany: far more READs complete at once than one poll takes, and
// there is one event for all of them. All callers are told at once, and what nobody
// waits for settles too.
func TestFabricOneEventForMany(t *testing.T) {
	for _, waits := range []string{"by many", "by nobody"} {
		t.Run("waited for "+waits, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const batches = 4*maxPoll - 6
				nic := newFakeNIC(t, 4*maxPoll, 1<<20)
				e := nic.engine(0)
				start := time.Now()
				told := make(chan error, batches)
				for range batches {
					b := postOne(t, e, start.Add(time.Second))
					if waits == "by nobody" {
						b.Release()
						continue
					}
					go func() {
						defer b.Release()
						told <- b.Wait()
					}()
				}
				synctest.Wait() // one leads and sleeps, with the queue armed
				nic.complete(batches)
				synctest.Wait()
				if waits == "by many" {
					for range batches {
						if err := <-told; err != nil {
							t.Error(err)
						}
					}
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("told after %v, by a deadline", d)
				}
				checkSettled(t, e)
				closeEngine(t, e)
			})
		})
	}
}

// TestFabricEventOfATakenCompletion: a completion makes an event and is taken by
// another's post before anybody has taken the event. Whoever waits next is not misled
// by it, and gets an event of its own.
func TestFabricEventOfATakenCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		start := time.Now()
		first := postOne(t, e, start.Add(time.Minute))
		if settled, err := first.Await(start.Add(time.Millisecond)); settled || err != nil { // leaves the queue armed
			t.Fatal(settled, err)
		}
		nic.complete(1)
		second := newTestBatch(t, e, 64)
		plan(t, second, 0, 8)
		done := make(chan error, 1)
		go func() { done <- second.Do(start.Add(time.Minute)) }() // takes the first one's completion with its post
		synctest.Wait()
		if !first.s.over && !e.settledNow(first.s) {
			t.Error("the first completion was not taken")
		}
		nic.complete(1)
		if err := errors.Join(<-done, first.Wait()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Millisecond {
			t.Errorf("told after %v", d)
		}
		first.Release()
		second.Release()
		closeEngine(t, e)
	})
}

// TestFabricWaitingTakesNoProcessor: a connection that nobody reads over is never
// polled, and one whose callers wait for a minute only a few times.
func TestFabricWaitingTakesNoProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		e := nic.engine(0)
		time.Sleep(time.Hour) // the fake clock's
		if n := nic.polls(); n != 0 {
			t.Errorf("an idle connection was polled %d times", n)
		}
		const callers = 8
		for range callers {
			b := postOne(t, e, time.Now().Add(time.Minute))
			go func() {
				defer b.Release()
				if err := b.Wait(); err == nil {
					t.Error("nothing has completed")
				}
			}()
		}
		time.Sleep(30 * time.Second)
		if n := nic.polls(); n > 4*callers {
			t.Errorf("%d callers that waited for half a minute polled %d times", callers, n)
		}
		time.Sleep(time.Minute)
		closeEngine(t, e)
	})
}

// TestFabricLossIsToldOnce: of one READ that failed and of many that were flushed, the
// owner hears once, and of the one that failed; an end that was asked for is no news.
func TestFabricLossIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nic := newFakeNIC(t, 256, 1<<20)
		var log strings.Builder
		c := &Conn{log: slog.New(slog.NewTextHandler(&log, nil))}
		var told []error
		c.e = newEngine(engineConfig{queue: nic, depth: 256, stuck: time.Second, length: 1 << 20, mem: nic.local,
			onLost: func(err error) { told = append(told, err); c.logLoss(err) }})
		for range 100 {
			postOne(t, c.e, time.Now().Add(time.Minute)).Release()
		}
		nic.completeThenFail(10, ibverbs.RetryExcErr)
		<-c.e.ended
		var failed *CompletionError
		if len(told) != 1 || !errors.As(told[0], &failed) || failed.Status != ibverbs.RetryExcErr {
			t.Errorf("told %d times: %v", len(told), told)
		}
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "RETRY_EXC_ERR") || strings.Contains(s, "FLUSH") {
			t.Errorf("log:\n%s", s)
		}
		log.Reset()
		c.logLoss(ErrClosed)
		if log.Len() != 0 {
			t.Errorf("log of a Close:\n%s", log.String())
		}
		closeEngine(t, c.e)
	})
}

// TestFabricNothingIsPostedOnALostConnection: not by who begins after the loss, and not
// by who had its room in the send queue before.
func TestFabricNothingIsPostedOnALostConnection(t *testing.T) {
	nic := newFakeNIC(t, 256, 1<<20)
	nic.mu.noFlush = true
	e := nic.engine(0)
	before, after := newTestBatch(t, e, 64), newTestBatch(t, e, 64)
	plan(t, before, 0, 8)
	plan(t, after, 0, 8)
	cause := &CompletionError{Status: ibverbs.RetryExcErr}
	e.mu.Lock()
	granted, err := e.admitLocked(before.s, 1, time.Second)
	e.failLocked(cause)
	late := e.launchLocked(before.s, 1)
	e.mu.Unlock()
	if !granted || err != nil || !errors.Is(late, cause) {
		t.Errorf("room in the send queue: %v, %v; after the loss %v", granted, err, late)
	}
	if err := after.Do(time.Now().Add(time.Second)); !errors.Is(err, cause) {
		t.Errorf("a batch after the loss: %v", err)
	}
	if n := nic.inFlight(); n != 0 {
		t.Errorf("%d reads were posted", n)
	}
	before.Release()
	after.Release()
	closeEngine(t, e)
}
