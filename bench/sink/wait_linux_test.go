package sink

import (
	"testing"
	"time"
)

// TestRealExactWaits takes no less than it says, and, unlike time.Sleep on an idle
// host, not five times as much; the least of many counts, as the host may be busy.
// Once closed the wait ends with an error.
func TestRealExactWaits(t *testing.T) {
	for _, w := range []Wait{Exact, Held} {
		all, err := simulate(w)
		if err != nil {
			t.Fatal(err)
		}
		c := all[0].(*simulated)
		least := time.Hour
		for range 200 {
			began := time.Now()
			if err := c.wait(usual); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(began))
		}
		if least < usual || least > 3*usual {
			t.Errorf("wait %s: %v for %v", w, least, usual)
		}
		for _, c := range all {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
		if err := c.wait(usual); w == Exact && err == nil {
			t.Error("a closed clock waits")
		}
	}
}
