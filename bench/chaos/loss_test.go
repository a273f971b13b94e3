package chaos

import (
	"slices"
	"testing"
	"time"
)

// settle is how long a site runs before something is broken, so that there is a
// before to compare with.
const settle = time.Second

// TestRealChaosOneReplicaLost: no read fails, none goes to the store, and delivery
// is about as fast as before.
func TestRealChaosOneReplicaLost(t *testing.T) {
	s := newSite(t, siteConfig{full: 4, partial: 1})
	s.pass(settle)
	began := time.Now()
	s.pass(2 * time.Second)
	before := s.delivery(began, time.Now())
	direct, tcp := s.durableBytes()
	lost := s.holders(s.feeds[0])[0]
	began = time.Now()
	s.nodes[lost].kill()
	s.fault("replica killed")
	s.pass(3 * time.Second)
	after := s.delivery(began, time.Now())
	if a, b := s.durableBytes(); a != direct || b != tcp {
		t.Errorf("%d bytes direct and %d over tcp came from the store, want none: %s", a-direct, b-tcp, s.state())
	}
	p99, p99After := quantile(before, 0.99), quantile(after, 0.99)
	t.Logf("report: one replica of a key lost: delivery p50 %v -> %v, p99 %v -> %v, %d and %d records",
		quantile(before, 0.5), quantile(after, 0.5), p99, p99After, len(before), len(after))
	// Below this the two processors' scheduler is measured.
	const floor = 50 * time.Millisecond
	if p99After > max(2*p99, floor) {
		t.Errorf("p99 of delivery went from %v to %v, want within twice", p99, p99After)
	}
	s.finish("one replica of a key lost")
}

// delivery is how long records took from append to every reader in a time.
func (s *site) delivery(from, to time.Time) (d []time.Duration) {
	for _, x := range s.tails {
		d = append(d, x.between(from, to)...)
	}
	return d
}

// TestRealChaosTwoReplicasLost: reads go on from the third replica and the store,
// which is read within its limits; when the two are back, nobody restarts anything.
func TestRealChaosTwoReplicasLost(t *testing.T) {
	s := newSite(t, siteConfig{full: 4})
	s.pass(settle)
	lost := s.holders(s.feeds[0])[:2]
	began := time.Now()
	direct, tcp := s.durableBytes()
	for _, i := range lost {
		s.nodes[i].kill()
		s.fault("replica killed")
	}
	s.pass(3 * time.Second)
	for _, i := range lost {
		s.nodes[i].start()
	}
	back := s.back(time.Now(), backLimit)
	s.capped(began, direct, tcp)
	t.Logf("report: two replicas of a key lost: the last byte of the store came %v after their return", back)
	s.finish("two replicas of a key lost")
}

// backLimit is how long after the cache's return readers may need to be back on it.
const backLimit = 10 * time.Second

// capped holds what came from the store since a moment against the limiter's cap.
// A reader of the site is alone with its shard, so that no block is handed out twice.
func (s *site) capped(from time.Time, direct, tcp uint64) {
	s.t.Helper()
	a, b := s.durableBytes()
	most := uint64(time.Since(from).Seconds()*float64(s.rate)) + uint64(s.rate)/2 + 2<<20
	s.t.Logf("report: from the store: %.1f MB direct and %.1f MB over tcp in %v; the cap allows %.1f MB each",
		float64(a-direct)/1e6, float64(b-tcp)/1e6, time.Since(from).Round(time.Millisecond), float64(most)/1e6)
	if a-direct > most || b-tcp > most {
		s.t.Errorf("%d and %d bytes came from the store, the cap allows %d", a-direct, b-tcp, most)
	}
}

// TestRealChaosAllNodesLost: every cache node is killed and comes back empty while
// producers append. Readers go on from the store, as fast as their limiter lets
// them, and then from the cache.
func TestRealChaosAllNodesLost(t *testing.T) {
	s := newSite(t, siteConfig{full: 3, rate: 3 << 20})
	s.grow(20 << 20)
	for _, f := range s.feeds { // within what the limiter lets through
		f.most.Store(4000)
	}
	for _, n := range s.nodes {
		n.kill()
		s.fault("node killed")
	}
	began := time.Now()
	s.follow() // late readers, with all of it to fetch
	s.pass(3 * time.Second)
	if a, b := s.durableBytes(); a < 3<<20 || b < 3<<20 {
		t.Errorf("without a cache only %d bytes direct and %d over tcp have come from the store: %s", a, b, s.state())
	}
	s.capped(began, 0, 0)
	for _, n := range s.nodes {
		n.start()
	}
	back := s.back(time.Now(), backLimit)
	t.Logf("report: all nodes lost: the last byte of the store came %v after their return", back)
	s.appendsSucceeded()
	s.finish("all nodes killed and restarted empty")
}

// appendsSucceeded: cache trouble never fails an append.
func (s *site) appendsSucceeded() {
	s.t.Helper()
	for _, f := range s.feeds {
		if n := f.errs.Load(); n > 0 {
			s.t.Errorf("%d appends to %v failed: %v", n, f.shard, f.lastErr())
		}
	}
}

// TestRealChaosSmallArena: arenas of 5 % of what is appended, and readers that begin
// at the start. The hit rate falls, the bytes stay right.
func TestRealChaosSmallArena(t *testing.T) {
	const arena = 2 << 20
	s := newSite(t, siteConfig{full: 3, arena: arena, rate: 8 * durableRate})
	s.grow(20 * arena)
	s.follow() // late readers; those of before were served as it came
	eventually(t, catchUp, "late readers to come to what the cache holds", func() bool {
		s.check()
		return !slices.ContainsFunc(s.tails, func(x *tailer) bool { return x.cacheAt.Load() == 0 })
	})
	s.wanderers()
	s.pass(time.Second)
	s.appendsSucceeded()
	s.finish("arenas of 5 % of what is appended")
	st := s.tcp.Stats()
	from := float64(st.DeliveredBy["durable"]) / float64(max(st.Delivered, 1))
	t.Logf("report: small arena: %.0f %% of the bytes over tcp came from the store", 100*from)
	if from == 0 || from == 1 {
		t.Errorf("%.3f of the bytes came from the store, want some and not all", from)
	}
}

// grow lets the producers append fast until the shards have so many bytes in all.
func (s *site) grow(bytes uint64) {
	s.t.Helper()
	pace := func(most int64) {
		for _, f := range s.feeds {
			f.most.Store(most)
		}
	}
	pace(200_000)
	defer pace(20_000)
	eventually(s.t, time.Minute, "the shards to grow", func() bool {
		s.check()
		all := uint64(0)
		for _, f := range s.feeds {
			all += f.acked.Load()
		}
		return all > bytes
	})
}
