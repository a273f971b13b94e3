package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// TestRealChaosLockedShard: a second producer of a shard on a store whose locks work
// does not get it, and is told why.
func TestRealChaosLockedShard(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteConfig{full: 3, shards: 1, elsewhere: true})
	first := s.runProducer(s.feeds[0], never, 5, 1)
	defer first.kill()
	store, err := durable.Open(s.dir, durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if log, err := store.Log(s.feeds[0].shard.String()); !errors.Is(err, wire.ErrLocked) {
		if err == nil {
			log.Close()
		}
		t.Fatalf("a second writer got the shard: %v", err)
	}
	s.finish("two producers and a lock")
}

// sharedLog is a durable log on a store without working locks: any number of
// writers have it open, and the offset of each append is checked.
type sharedLog struct {
	mu  *sync.Mutex
	log *durable.Log
	// slow holds up some appends, so that others come between.
	slow func()
}

func (l sharedLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.slow()
	l.mu.Lock()
	defer l.mu.Unlock()
	if length := l.log.Info().Length; off != length {
		return 0, &wire.Error{Status: wire.StatusOffset, Arg0: length, Arg1: off}
	}
	return l.log.Append(ctx, off, p)
}

func (l sharedLog) Info() durable.Info              { return l.log.Info() }
func (l sharedLog) Flush(ctx context.Context) error { return l.log.Flush(ctx) }
func (l sharedLog) Seal() error                     { return errors.New("not sealed here") }
func (l sharedLog) Close() error                    { return nil }

// duel is a shard on a store without working locks, and a writer of each process
// that has it open.
type duel struct {
	*site
	f    *feed
	turn sync.Mutex
	log  *durable.Log
}

func newDuel(t *testing.T) *duel {
	d := &duel{site: newSite(t, siteConfig{full: 4, shards: 1, elsewhere: true})}
	d.f = d.feeds[0]
	d.runProducer(d.f, never, 1, 1).kill()
	store, err := durable.Open(d.dir, durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	d.store = store
	t.Cleanup(func() { store.Close() })
	if d.log, err = store.Log(d.f.shard.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.log.Close() })
	return d
}

// rival is a writer with connections of its own. slow holds up its appends, so that
// others come between.
func (d *duel) rival(name string, slow func()) *appenderSink {
	replicas, err := producer.NewReplicaCache(producer.ReplicaConfig{Source: d.source(d.nodes[0].Cluster), Store: d.store, Owner: name, Logger: logger()})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { replicas.Close() })
	shard := d.f.shard
	k := &appenderSink{open: func(ctx context.Context) (*producer.Appender, error) {
		return producer.Open(ctx, producer.Config{Shard: shard, Cache: replicas, Logger: logger(), Log: sharedLog{&d.turn, d.log, slow},
			ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
				return d.store.ReadAt(ctx, shard.String(), pos, p)
			}})
	}}
	d.t.Cleanup(func() { k.close() })
	return k
}

// append appends a record at the end of the shard as the writer finds it.
func (d *duel) append(k *appenderSink, n int) error {
	pos := d.log.Info().Length
	p := make([]byte, n)
	fill(p, d.f.shard, pos)
	_, err := k.append(context.Background(), pos, p)
	return err
}

// TestRealChaosHiddenAppend: a producer appends once more before it learns that an
// idle one has its lease. The idle one's heartbeats do not hide those bytes.
func TestRealChaosHiddenAppend(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	older, newer := d.rival("older", func() {}), d.rival("newer", func() {})
	if err := d.append(older, 1000); err != nil {
		t.Fatal(err)
	}
	var err error
	if newer.a, err = newer.open(t.Context()); err != nil { // it takes the lease, and appends nothing
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "what was appended", func() bool { return d.atLeast(d.f, d.log.Info().Length) })
	late := d.append(older, 1000)
	if late != nil && !errors.Is(late, producer.ErrLeaseLost) {
		t.Fatalf("the older producer's last append: %v", late)
	}
	d.fault("append behind the back of a newer producer")
	began := time.Now()
	const limit = 15 * time.Second
	if !within(limit, func() bool { return d.atLeast(d.f, d.log.Info().Length) }) {
		t.Fatalf("the older producer has appended to %d (it was told %v), %v later: %s", d.log.Info().Length, late, limit, d.state())
	}
	t.Logf("report: an append behind an idle newer producer (its own: %v) is delivered after %v", late, time.Since(began).Round(time.Millisecond))
	d.f.acked.Store(d.log.Info().Length)
	d.finish("an idle producer, and an older one that appends once more")
}

// TestRealChaosTwoProducers: two producers fight for a shard on a store without
// locks. Each one that loses the lease ends with a typed error and comes back; no
// append is acknowledged twice for the same bytes, and readers see right ones only.
func TestRealChaosTwoProducers(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	var acks sync.Mutex
	var acked uint64
	fights := map[string]int{}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	var both sync.WaitGroup
	first := d.log.Info().Length
	for i := range 2 {
		rng := rand.New(rand.NewPCG(uint64(i), 21))
		held := rand.New(rand.NewPCG(uint64(i), 22)) // of the writer's goroutine
		k := d.rival(fmt.Sprint("rival-", i), func() { <-time.After(time.Duration(held.IntN(3000)) * time.Microsecond) })
		both.Go(func() {
			for ctx.Err() == nil {
				n := 1 + rng.IntN(9000)
				err := d.append(k, n) // where it may go, unless the other one is faster
				acks.Lock()
				switch {
				case err == nil:
					acked += uint64(n)
				case errors.Is(err, producer.ErrLeaseLost):
					fights["lease lost"]++
				case errors.Is(err, producer.ErrFenced):
					fights["fenced by the offset"]++
				case errors.Is(err, wire.ErrOffset):
					fights["late for its offset"]++
				default:
					t.Errorf("a writer ended without a typed error: %v", err)
				}
				acks.Unlock()
				<-time.After(time.Duration(rng.IntN(40)) * time.Millisecond)
			}
		})
	}
	both.Wait()
	for kind, n := range fights {
		d.faults[kind] += n
	}
	if fights["lease lost"] == 0 {
		t.Errorf("nobody has lost the lease: %v", fights)
	}
	length := d.log.Info().Length
	if grown := length - first; acked > grown {
		t.Errorf("%d bytes were acknowledged, the shard grew by %d", acked, grown)
	}
	d.f.acked.Store(length)
	d.finish("two producers fight for a shard")
}
