package reader_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/reader"
)

// stateOf returns the state of the one shard that a Cluster follows.
func stateOf(t *testing.T, c *reader.Cluster) reader.ShardStats {
	t.Helper()
	all := c.Shards()
	if len(all) != 1 {
		t.Fatalf("%d shards are followed", len(all))
	}
	return all[0]
}

// reaches waits until the shard is in a state whose sentence has some words, and
// returns those that it went through.
func reaches(t *testing.T, c *reader.Cluster, want cause.State, words string) (way []cause.State) {
	t.Helper()
	eventually(t, 40*time.Second, fmt.Sprintf("%v, %q", want, words), func() bool {
		s := stateOf(t, c)
		if n := len(way); n == 0 || way[n-1] != s.State {
			t.Logf("%v: %s", s.State, s.Why)
			way = append(way, s.State)
		}
		return s.State == want && strings.Contains(s.Why, words)
	})
	return way
}

// consume takes bytes as they come until the test ends.
func consume(t *testing.T, r *reader.Reader) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := r.Next(ctx); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// TestRealStateOfTheConsumer: bytes that wait while the consumer sleeps.
func TestRealStateOfTheConsumer(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "states/0000"}
	w.append(n, 1000)
	registry := prometheus.NewRegistry()
	c, r := w.open(reader.Config{Server: n.Listen, Registerer: registry}, reader.Earliest())
	w.read(r, 10*time.Second)
	w.append(n, 5000)
	reaches(t, c, cause.ConsumerSlow, "5000 bytes have waited")
	want := `
		# HELP rmatail_reader_shard_lag_bytes Bytes that exist and are not delivered, of the Reader furthest behind. Of so many shards as Config.ShardMetrics says; others is the sum of the rest.
		# TYPE rmatail_reader_shard_lag_bytes gauge
		rmatail_reader_shard_lag_bytes{node="` + n.Listen + `",shard="states/0000"} 5000
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "rmatail_reader_shard_lag_bytes"); err != nil {
		t.Error(err)
	}
	if s := stateOf(t, c); s.Lag != 5000 || s.LagTime < time.Second || s.Readers != 1 || s.Position != 1000 || s.Length != 6000 {
		t.Errorf("%+v", s)
	}
	w.read(r, 10*time.Second)
	consume(t, r)
	reaches(t, c, cause.Fine, "0 bytes behind")
}

// TestRealStateOfTheProducer: a process that writes is stopped; its memory can be read
// all the same, so that it is the heartbeat that tells.
func TestRealStateOfTheProducer(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "states/0001"}
	w.append(n, 1000)
	c, r := w.open(reader.Config{Server: n.Listen, Transport: reader.SHM}, reader.Earliest())
	w.read(r, 10*time.Second)
	consume(t, r)
	reaches(t, c, cause.Fine, "")
	n.signal(syscall.SIGSTOP)
	n.stopped()
	way := reaches(t, c, cause.ProducerStopped, "no heartbeat for")
	if len(way) < 2 || way[len(way)-2] != cause.ProducerSlow {
		t.Errorf("the way to it was %v, without a late heartbeat", way)
	}
	n.signal(syscall.SIGCONT)
	reaches(t, c, cause.Fine, "")
}

// TestRealStateOfTheCache: nodes that are away, and one that came back empty, where
// the durable store is quick, and where it is throttled.
func TestRealStateOfTheCache(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "states/0002"}
	w.append(n, 1000)
	c, r := w.open(reader.Config{Server: n.Listen, Dir: n.Dir, DurableDelay: 100 * time.Millisecond}, reader.Earliest())
	slow, late := w.open(reader.Config{Server: n.Listen, Dir: n.Dir, DurableBytesPerSecond: 256 << 10}, reader.Earliest())
	w.read(r, 10*time.Second)
	w.read(late, 10*time.Second)
	for range 4 {
		w.append(n, 1<<20)
	}
	n.kill()
	reaches(t, c, cause.CacheMissing, "0 replicas")
	n.start()
	w.append(n, 100)
	consume(t, r)
	consume(t, late)
	reaches(t, c, cause.CacheMissing, "came from the durable store")
	reaches(t, slow, cause.DurableThrottled, "limits held reads")
	produceSteadily(t, w, n)
	reaches(t, c, cause.Fine, "")
}

// produceSteadily appends a little every moment until the test ends.
func produceSteadily(t *testing.T, w *writer, n *node) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.append(n, 100)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// TestRealStateOfTheTransport: a node that comes back without its socket is read over
// tcp, and was read over shared memory.
func TestRealStateOfTheTransport(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "states/0003"}
	w.append(n, 1000)
	c, r := w.open(reader.Config{Server: n.Listen, Dir: n.Dir}, reader.Earliest())
	w.read(r, 10*time.Second)
	consume(t, r)
	reaches(t, c, cause.Fine, "")
	n.kill()
	socket := n.Socket
	n.Socket = "none"
	n.start()
	w.append(n, 100)
	reaches(t, c, cause.TransportDegraded, "over tcp, shm is offered")
	n.kill()
	n.Socket = socket
	n.start()
	w.append(n, 100)
	reaches(t, c, cause.Fine, "")
}
