package chaos

import (
	"testing"
	"time"
)

func TestRealChaosSmoke(t *testing.T) {
	s := newSite(t, siteConfig{full: 1})
	s.pass(2 * time.Second)
	began := time.Now()
	s.nodes[0].kill()
	s.fault("kill")
	s.pass(2 * time.Second)
	s.nodes[0].start()
	t.Logf("back after %v", s.back(time.Now(), backLimit))
	t.Logf("delivery p99 %v", quantile(s.delivery(began, time.Now()), 0.99))
	s.appendsSucceeded()
	s.finish("smoke")
}
