package producer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// held counts the metadata replicas that hold a lease which has not expired, and
// returns the ballot of the last one.
func (s *site) held() (n int, b layout.Ballot) {
	for _, node := range s.pages() {
		if l := node.arena().Leases().Query(testShard); l.Left > 0 {
			n++
			b = l.Ballot
		}
	}
	return n, b
}

// An Appender takes the lease when it is opened, keeps it by publishing, and gives
// it back.
func TestAppenderHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 5, nil)
		c := s.cache(nil)
		defer s.end(nil, c)
		a := s.open(c)
		synctest.Wait()
		n, b := s.held()
		if n != 3 || b.Sequence != 1 {
			t.Errorf("%d nodes hold ballot %v", n, b)
		}
		time.Sleep(time.Minute) // idle: heartbeats renew it
		if n, now := s.held(); n != 3 || now != b {
			t.Errorf("%d nodes hold ballot %v after a minute", n, now)
		}
		mustClose(t, a)
		synctest.Wait()
		if n, _ := s.held(); n != 0 {
			t.Errorf("%d nodes hold the lease after the close", n)
		}
		a = s.open(c)
		defer mustClose(t, a)
		synctest.Wait()
		if n, b := s.held(); n != 3 || b.Sequence != 2 {
			t.Errorf("%d nodes hold ballot %v when it is opened again", n, b)
		}
	})
}

// A newer writer poisons the older one: its next publication ends it with a typed
// error; what it has acknowledged is durable, and what the nodes hold is right.
func TestNewerWriterEndsTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		older, newer := s.cache(func(cfg *ReplicaConfig) { cfg.Owner = "older" }), s.cache(func(cfg *ReplicaConfig) { cfg.Owner = "newer" })
		defer s.end(nil, older)
		defer newer.Close()
		a := s.open(older)
		defer mustClose(t, a)
		s.add(a, 5000)
		b := s.open(newer)
		defer mustClose(t, b)
		time.Sleep(2 * time.Second) // a heartbeat
		_, err := appendOne(t.Context(), a, []byte("x"))
		if !errors.Is(err, ErrLeaseLost) || !errors.Is(err, wire.ErrLease) {
			t.Errorf("append of the older writer: %v", err)
		}
		s.add(b, 5000)
		synctest.Wait()
		if n := s.copies(0, 10000); n != 3 {
			t.Errorf("a chunk has %d copies", n)
		}
		if n := s.lengths(); n != 3 {
			t.Errorf("the length is on %d nodes", n)
		}
		// It publishes nothing any more.
		before := s.node(1).arena().Stats().Poisoned
		time.Sleep(5 * time.Second)
		if now := s.node(1).arena().Stats().Poisoned; now != before {
			t.Errorf("%d publications refused after its end", now-before)
		}
	})
}

// Both write at once: the log's offsets keep the order, whoever has the lease.
func TestTwoWritersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		one, two := s.cache(nil), s.cache(nil)
		defer s.end(nil, one)
		defer two.Close()
		var acked sync.Map
		for range 10 { // whoever is ended comes back, as a node's appenders do
			a, b := s.open(one), s.open(two)
			var wg sync.WaitGroup
			for _, w := range []*Appender{a, b} {
				wg.Go(func() {
					for range 20 {
						at := s.log.Info().Length
						pos, err := appendAt(t.Context(), w, at, pattern(at, 700))
						switch {
						case err == nil && pos == at:
							if _, twice := acked.LoadOrStore(pos, true); twice {
								t.Errorf("two records at %d", pos)
							}
						case errors.Is(err, wire.ErrOffset), errors.Is(err, ErrFenced), errors.Is(err, ErrLeaseLost):
						default:
							t.Errorf("append at %d: %d, %v", at, pos, err)
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			mustClose(t, a)
			mustClose(t, b)
		}
		a := s.open(one)
		defer mustClose(t, a)
		s.add(a, 10)
		time.Sleep(5 * time.Second)
		// copies fails on any wrong byte.
		if n := s.copies(0, s.log.Info().Length); n < 2 || s.lengths() != 3 {
			t.Errorf("a chunk has %d copies, the length is on %d nodes", n, s.lengths())
		}
		n := 0
		acked.Range(func(any, any) bool { n++; return true })
		if n < 20 {
			t.Errorf("%d records acknowledged", n)
		}
	})
}

// Without a quorum of the metadata replicas an Appender runs on, publishes where
// nobody holds the lease, and takes it at a heartbeat when it can.
func TestLeaseLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		for i := 2; i <= 3; i++ {
			s.node(i).kill()
		}
		c := s.cache(nil)
		defer s.end(nil, c)
		began := time.Now()
		a := s.open(c)
		defer mustClose(t, a)
		if d := time.Since(began); d > time.Second {
			t.Errorf("open took %v", d)
		}
		s.add(a, 100)
		synctest.Wait()
		if s.published(s.node(1)) != 100 {
			t.Error("nothing is published without a lease")
		}
		if n, _ := s.held(); n != 0 {
			t.Errorf("%d nodes hold the lease", n)
		}
		for i := 2; i <= 3; i++ {
			s.node(i).revive()
		}
		time.Sleep(10 * time.Second)
		if n, b := s.held(); n != 3 || b.Sequence != 1 {
			t.Errorf("%d nodes hold ballot %v", n, b)
		}
	})
}

// Who comes late to a lease that another writer holds does not take it away: the
// other one is newer. When it has expired, it is taken.
func TestLateLeaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		var cut atomic.Bool // the writer from the nodes
		cut.Store(true)
		c := s.cache(func(cfg *ReplicaConfig) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, n cluster.Node) (*wire.Client, error) {
				if cut.Load() {
					return nil, errors.New("no route to host")
				}
				return dial(ctx, n)
			}
		})
		defer s.end(nil, c)
		other := s.cache(nil)
		defer other.Close()
		a := s.open(c)
		defer mustClose(t, a)
		theirs, err := other.Acquire(testShard, Preempt)
		if err != nil {
			t.Fatal(err)
		}
		cut.Store(false)
		time.Sleep(8 * time.Second)
		if _, b := s.held(); b != theirs {
			t.Fatalf("ballot %v is held, want %v", b, theirs)
		}
		s.add(a, 10) // goes on, though nobody reads it from the cache yet
		time.Sleep(4 * time.Second)
		if n, b := s.held(); n != 3 || b.Sequence != theirs.Sequence+1 {
			t.Errorf("%d nodes hold ballot %v after the other has expired", n, b)
		}
		if n := s.lengths(); n != 3 {
			t.Errorf("the length is on %d nodes", n)
		}
	})
}

// A node that was restarted learns the lease from the next publication.
func TestRestartedNodeLearnsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		older, newer := s.cache(nil), s.cache(nil)
		defer s.end(nil, older)
		defer newer.Close()
		a, b := s.open(older), s.open(newer)
		defer mustClose(t, a)
		defer mustClose(t, b)
		synctest.Wait()
		_, want := s.held()
		s.node(1).restart()
		s.node(2).restart()
		time.Sleep(3 * time.Second)
		if n, got := s.held(); n != 3 || got != want {
			t.Errorf("%d nodes hold %v, want %v", n, got, want)
		}
		if _, err := appendOne(t.Context(), a, []byte("x")); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("append of the older writer: %v", err)
		}
	})
}

// One node's refusal ends a writer, also when a quorum has taken the publication
// before it came.
func TestOneRefusalEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		defer s.end(nil, c)
		a := s.open(c)
		defer mustClose(t, a)
		s.add(a, 100)
		synctest.Wait()
		s.node(3).arena().Leases().Acquire(testShard, layout.Ballot{Sequence: 9}, "newer", time.Minute)
		s.node(3).set(func() { s.node(3).mu.delay = 10 * time.Millisecond })
		s.add(a, 100) // taken by the two others
		time.Sleep(100 * time.Millisecond)
		s.add(a, 100) // durable, and not published any more
		if _, err := appendOne(t.Context(), a, []byte("x")); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("append: %v", err)
		}
		if got := s.published(s.node(1)); got != 200 {
			t.Errorf("published %d, want 200", got)
		}
	})
}

// Another writer that is faster between the question and the claim is displaced
// with the next ballot; one that always is ends the attempts.
func TestAcquireAgainstAFasterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, nil)
		c := s.cache(nil)
		defer s.end(nil, c)
		faster := func(times int) {
			for _, n := range s.nodes {
				left := times
				n.set(func() {
					n.mu.refuse = func(op wire.Op, p []byte) error {
						if l, err := wire.ParseLease(p); op == wire.OpLease && err == nil && l.Action == wire.LeaseAcquire && left > 0 {
							left--
							n.arena().Leases().Acquire(testShard, layout.Ballot{Sequence: l.Ballot.Sequence + 100}, "faster", time.Minute)
						}
						return nil
					}
				})
			}
		}
		faster(2)
		b, err := c.Acquire(testShard, Preempt)
		if err != nil || b.Sequence <= 200 {
			t.Errorf("after two faster ones: %v, %v", b, err)
		}
		faster(acquireTries)
		if b, err = c.Acquire(testShard, Preempt); !errors.Is(err, wire.ErrLease) || b != (layout.Ballot{}) {
			t.Errorf("against one that is always faster: %v, %v", b, err)
		}
		for _, n := range s.nodes {
			n.set(func() { n.mu.refuse = nil })
			n.arena().Leases().Acquire(testShard, layout.Ballot{Sequence: 1<<64 - 1}, "last", time.Minute)
		}
		if b, err = c.Acquire(testShard, Preempt); !errors.Is(err, wire.ErrLease) || b != (layout.Ballot{}) {
			t.Errorf("above the last sequence: %v, %v", b, err)
		}
	})
}

// An older writer that does not know of the newer one yet appends behind its back.
// The newer one is idle: its heartbeats must not hide what is durable for ever.
func TestIdleWriterIsOvertaken(t *testing.T) {
	for name, log := range map[string]func(*fakeLog) Log{
		"as the log knows": func(l *fakeLog) Log { return l },
		// As a file's log does, it knows only what it has written itself.
		"as only the store knows": func(l *fakeLog) Log { return &forgetfulLog{l, l.Info()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 3, nil)
				older, newer := s.cache(nil), s.cache(nil)
				defer s.end(nil, older)
				defer newer.Close()
				a := s.open(older)
				defer mustClose(t, a)
				s.add(a, 700)
				b, err := Open(t.Context(), Config{Shard: testShard, Log: log(s.log), ReadTail: s.log.ReadAt, Cache: newer})
				if err != nil {
					t.Fatal(err)
				}
				defer mustClose(t, b)
				time.Sleep(10 * time.Millisecond)
				s.add(a, 700) // durable and acknowledged, and nobody can publish it
				time.Sleep(2 * time.Second)
				beat := func() uint64 { return entryOf(t, s.node(1).arena().Bytes(), testShard).HeartbeatMS }
				last := beat()
				time.Sleep(5 * time.Second)
				if now := beat(); now != last {
					t.Error("the heartbeat of a writer that was overtaken goes on")
				}
				if _, err := appendOne(t.Context(), b, []byte("x")); !errors.Is(err, ErrFenced) {
					t.Errorf("append of the newer writer: %v", err)
				}
			})
		})
	}
}

// forgetfulLog knows its own appends only.
type forgetfulLog struct {
	*fakeLog
	info durable.Info
}

func (l *forgetfulLog) Info() durable.Info { return l.info }

func (l *forgetfulLog) Append(ctx context.Context, off uint64, p []byte) (end uint64, err error) {
	if end, err = l.fakeLog.Append(ctx, off, p); err == nil {
		l.info.Length = end
	}
	return end, err
}
