package chaos

import (
	"testing"
	"time"
)

// unharmed runs a site with some trouble of one node, and without it again: no
// append fails, every byte is right, the others do the work and not the store, and
// the cache serves everybody in the end.
func unharmed(t *testing.T, what string, c siteConfig, trouble, end func(s *site, node int)) {
	t.Parallel()
	s := newSite(t, c)
	s.pass(settle)
	node := s.holders(s.feeds[0])[0]
	trouble(s, node)
	began := time.Now()
	s.pass(2500 * time.Millisecond)
	appends, delivery := s.feeds[0].between(began, time.Now()), s.delivery(began, time.Now())
	if len(appends) == 0 {
		t.Errorf("no append has ended: %s", s.state())
	}
	end(s, node)
	back := s.back(time.Now(), backLimit)
	direct, tcp := s.durableBytes()
	all := s.direct.Stats().Delivered + s.tcp.Stats().Delivered
	if direct+tcp > all/200 { // a scheduler that is busy for a second may cause some
		t.Errorf("%d of %d bytes came from the store, want none: %s", direct+tcp, all, s.state())
	}
	t.Logf("report: %s: append p99 %v, delivery p99 %v meanwhile; the last byte of the store came %v after its end",
		what, quantile(appends, 0.99), quantile(delivery, 0.99), back)
	s.appendsSucceeded()
	s.finish(what)
}

// TestRealChaosFrozenNode: a node is stopped and goes on.
func TestRealChaosFrozenNode(t *testing.T) {
	unharmed(t, "a node frozen", siteConfig{full: 4}, func(s *site, i int) {
		s.nodes[i].freeze()
		s.fault("freeze")
	}, func(s *site, i int) { s.nodes[i].thaw() })
}

// TestRealChaosSlowNode: everything that goes to a node and comes from it is late,
// lost now and then, and squeezed.
func TestRealChaosSlowNode(t *testing.T) {
	slow := link{delay: 80 * time.Millisecond, bytesPerSecond: 1 << 20, loss: 0.02}
	unharmed(t, "a node slow", siteConfig{full: 4}, func(s *site, i int) {
		s.write[i].set(slow)
		s.read[i].set(slow)
		s.fault("slow link")
	}, func(s *site, i int) {
		s.write[i].set(link{})
		s.read[i].set(link{})
	})
}

// TestRealChaosCutFromWriters: a node is partitioned from the writers only, and so
// serves old lengths and holes to readers who trust it.
func TestRealChaosCutFromWriters(t *testing.T) {
	unharmed(t, "a node cut off from writers", siteConfig{full: 4}, func(s *site, i int) {
		s.write[i].set(link{cut: true})
		s.fault("cut from writers")
	}, func(s *site, i int) { s.write[i].set(link{}) })
}

// TestRealChaosCutFromReaders: a node is partitioned from the readers over tcp only.
func TestRealChaosCutFromReaders(t *testing.T) {
	unharmed(t, "a node cut off from readers", siteConfig{full: 4}, func(s *site, i int) {
		s.read[i].set(link{cut: true})
		s.fault("cut from readers")
	}, func(s *site, i int) { s.read[i].set(link{}) })
}

// TestRealChaosOtherArena: a node comes back with another arena size: every place
// that a reader remembers is another extent's, or beyond the end.
func TestRealChaosOtherArena(t *testing.T) {
	unharmed(t, "a node restarted with another arena", siteConfig{full: 4}, func(s *site, i int) {
		s.nodes[i].kill()
		s.nodes[i].Arena = 4 << 20
		s.nodes[i].start()
		s.fault("restart with a smaller arena")
	}, func(s *site, i int) {
		s.nodes[i].kill()
		s.nodes[i].Arena = 32 << 20
		s.nodes[i].start()
		s.fault("restart with a larger arena")
	})
}

// TestRealChaosClockSetBack: the clock of a node goes back by an hour, then those of
// the producers.
func TestRealChaosClockSetBack(t *testing.T) {
	unharmed(t, "clocks set back", siteConfig{full: 3}, func(s *site, i int) {
		s.nodes[i].setBack()
		s.fault("node's clock set back")
	}, func(s *site, i int) {
		s.clockBack.Add(int64(time.Hour))
		s.fault("producers' clock set back")
	})
}

// TestRealChaosStoringNode: a node owns the store, takes the appends and mirrors
// them to the others. One of those is lost and comes back; then the node itself is
// killed and comes back, and what it had acknowledged is all there.
func TestRealChaosStoringNode(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteConfig{full: 4, ownsStore: true})
	s.pass(settle)
	for _, i := range s.holders(s.feeds[0]) {
		if i == 0 {
			continue
		}
		s.nodes[i].kill()
		s.fault("replica killed")
		s.pass(2 * time.Second)
		s.nodes[i].start()
		break
	}
	t.Logf("report: appends through a node: the last byte of the store came %v after the replica's return", s.back(time.Now(), backLimit))
	s.appendsSucceeded()
	s.nodes[0].kill() // appends fail now, and are tried again at the same position
	s.fault("storing node killed")
	s.pass(time.Second)
	s.nodes[0].start()
	acked := s.feeds[0].acked.Load()
	eventually(t, 15*time.Second, "appends through the node that is back", func() bool { return s.feeds[0].acked.Load() > acked })
	t.Logf("report: appends through a node: the last byte of the store came %v after its own return", s.back(time.Now(), backLimit))
	s.finish("appends through a node; a replica lost and back, then the node itself")
}
