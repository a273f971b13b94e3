package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// TestWrongs: a burst of what is refused costs nothing, more than that is paced, and a rest
// makes good for it.
func TestWrongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wrongs
		ask := func(n int) time.Duration {
			begun := time.Now()
			for range n {
				w.add(time.Now())
				if d := w.due(); d > 0 {
					time.Sleep(d)
				}
			}
			return time.Since(begun)
		}
		if d := w.due(); d > 0 {
			t.Errorf("%v before anything was refused", d)
		}
		if d := ask(1000); d > 0 {
			t.Errorf("a burst took %v", d)
		}
		if d := ask(5000); d < 4900*time.Millisecond || d > 5100*time.Millisecond {
			t.Errorf("5,000 more took %v", d)
		}
		time.Sleep(time.Minute)
		if d := ask(1000); d > 0 {
			t.Errorf("a burst after a rest took %v", d)
		}
		w.until.Store(time.Now().Add(24 * time.Hour).UnixNano()) // the clock was set back since
		if d := w.due(); d > wrongBurst {
			t.Errorf("waits %v", d)
		}
	})
}

// TestRealWrongsArePaced: who asks for what is refused is held up, and nobody else.
func TestRealWrongsArePaced(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	var calls []*wire.Call
	for range 2 * int(wrongBurst/wrongCost) {
		call, err := c.Start(time.Now().Add(patience), wire.OpReadArena, []byte{1}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
		if len(calls) == 500 {
			refusedAll(t, calls)
			calls = nil
		}
	}
	refusedAll(t, calls)
	if n := s.counters.paced.Load(); n == 0 {
		t.Error("nothing was paced")
	}
}

func refusedAll(t *testing.T, calls []*wire.Call) {
	t.Helper()
	for _, call := range calls {
		if _, err := call.Wait(); !errors.Is(err, wire.ErrBadRequest) {
			t.Fatalf("a request of one byte: %v", err)
		}
	}
}
