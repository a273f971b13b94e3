package producer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse: what is under way and what waits grow old, what the sink refuses counts,
// and what was quick at last is quick.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		a, log := slowRig(t, func(context.Context) { <-hold }, nil)
		if p := a.Pulse(); p != (Pulse{}) {
			t.Errorf("before anything: %+v", p)
		}
		first := mustAppend(t, a, "one")
		synctest.Wait()
		second := mustAppend(t, a, "three")
		time.Sleep(3 * time.Second) // of the bubble's clock
		if p := a.Pulse(); p != (Pulse{QueueBytes: 5, Queued: 3 * time.Second, Append: 3 * time.Second}) {
			t.Errorf("while the sink hangs: %+v", p)
		}
		close(hold)
		for _, k := range []Ack{first, second} {
			if _, err := k.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if p := a.Pulse(); p.QueueBytes != 0 || p.Queued != 0 || p.Append > time.Millisecond || p.Refused != 0 {
			t.Errorf("after it: %+v", p)
		}
		refusal := errors.New("full")
		log.mu.Lock()
		log.mu.fail = func(uint64, []byte) error { return refusal }
		log.mu.Unlock()
		if _, err := mustAppend(t, a, "x").Wait(t.Context()); !errors.Is(err, refusal) {
			t.Errorf("refused with %v", err)
		}
		synctest.Wait()
		if p := a.Pulse(); p.Refused != 1 {
			t.Errorf("after a refusal: %+v", p)
		}
		log.mu.Lock()
		log.mu.fail = nil
		log.mu.Unlock()
		mustClose(t, a)
	})
}
