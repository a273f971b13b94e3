package reader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/reader"
)

// TestRealWokenWithoutPolls follows a node of another process over shared memory, at an
// interval of minutes: what is appended comes because the node tells of it.
func TestRealWokenWithoutPolls(t *testing.T) {
	n := startNode(t, nodeConfig{})
	w := &writer{t: t, shard: "woken/0000"}
	w.append(n, 100)
	// From 1 ms on each interval is a quarter longer: it gets long while nobody watches.
	c, r := w.open(reader.Config{Server: n.Listen, Transport: reader.SHM, PollMin: time.Millisecond, PollMax: 10 * time.Minute}, reader.At(0))
	next := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for r.Position() < w.pos {
			b, err := r.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if b.Source != reader.FromSHM {
				t.Fatalf("bytes at %d came from %s", b.Position, b.Source)
			}
		}
	}
	next()
	const idle = time.Second
	before := c.Stats().PageReads
	<-time.After(idle)
	// A wait ends after a quarter of a second, and the page is read then. Polls at 1 ms
	// and longer and longer would be some 25.
	if pages := c.Stats().PageReads - before; pages > 20 {
		t.Errorf("%d reads of the length page in %s without news", pages, idle)
	}
	var took []time.Duration
	for range 40 {
		w.append(n, 300)
		began := time.Now()
		next()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("report: delivery over shm without polls, from the append's end: p50 %s, most %s", took[len(took)/2], took[len(took)-1])
	if median := took[len(took)/2]; median > 60*time.Millisecond { // waits alone would take 125 ms, and bounded ones of the wake word 50
		t.Errorf("half of the deliveries took %s and more", median)
	}
}

// TestRealProducerFallsSilent has bytes come into the store that nobody publishes,
// while a Reader waits to be told: it notices that the heartbeat has stopped.
func TestRealProducerFallsSilent(t *testing.T) {
	n := startNode(t, nodeConfig{})
	shard := layout.Shard{Stream: "silent", Number: 0}
	w := &writer{t: t, shard: shard.String()}
	store := t.TempDir()
	dir, err := durable.Open(store, durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	bytes := func(size int) []byte {
		p := make([]byte, size)
		reader.Fill(p, w.pos)
		w.pos += uint64(size)
		return p
	}
	mirrorOnce(t, n, dir, shard, bytes(100))
	_, r := w.open(reader.Config{Server: n.Listen, Dir: store, Transport: reader.SHM}, reader.At(0))
	if by := w.read(r, 20*time.Second); by[reader.FromSHM.String()] != 100 {
		t.Fatalf("the first bytes came from %v", by)
	}
	log, err := dir.Log(w.shard)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	at := w.pos
	more := bytes(50)
	if _, err := log.Append(t.Context(), at, more); err != nil {
		t.Fatal(err)
	}
	if by := w.read(r, 20*time.Second); by[reader.FromDurable.String()] != 50 {
		t.Fatalf("the last bytes came from %v", by)
	}
}

// mirrorOnce has a producer of its own append a record to a directory and mirror it into
// a node, and end.
func mirrorOnce(t *testing.T, n *node, dir *durable.Dir, shard layout.Shard, record []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cache, err := producer.NewReplicaCache(producer.ReplicaConfig{Source: cluster.Single(n.Listen), Store: dir, TTL: time.Minute, Owner: "test",
		Dial: func(ctx context.Context, n cluster.Node) (*wire.Client, error) {
			return wire.Dial(ctx, n.Addr, wire.Options{Name: "test"})
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	log, err := dir.Log(shard.String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := producer.Open(ctx, producer.Config{Shard: shard, Log: log, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	ack, err := a.Append(ctx, record)
	if err == nil {
		_, err = ack.Wait(ctx)
	}
	if err = errors.Join(err, a.Close(ctx)); err != nil {
		t.Fatal(err)
	}
}

// TestRealFixedPoll polls where it is told to, though the node would tell of news.
func TestRealFixedPoll(t *testing.T) {
	n := startNode(t, nodeConfig{})
	w := &writer{t: t, shard: "fixed/0000"}
	w.append(n, 100)
	c, r := w.open(reader.Config{Server: n.Listen, Transport: reader.SHM, PollMin: 5 * time.Millisecond, PollMax: 5 * time.Millisecond}, reader.At(0))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := r.Next(ctx); err != nil {
		t.Fatal(err)
	}
	before := c.Stats().PageReads
	eventually(t, 20*time.Second, "the page to be polled", func() bool { return c.Stats().PageReads > before+300 }) // waits would read it 80 times
}
