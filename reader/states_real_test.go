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
	defer produceSteadily(w, n)()
	reaches(t, c, cause.Fine, "")
}

// produceSteadily appends a little every moment until it is told to stop, before the
// test's context ends.
func produceSteadily(w *writer, n *node) (stop func()) {
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-enough:
				return
			case <-tick.C:
				w.append(n, 100)
			}
		}
	}()
	return func() { close(enough); <-ended }
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

// TestRealMetricsOfReads: what was read over each transport and from the store is in the
// metrics, with its bytes and times.
func TestRealMetricsOfReads(t *testing.T) {
	n := startNode(t, nodeConfig{Arena: largeArena})
	w := &writer{t: t, shard: "metrics/0000"}
	w.append(n, 1<<20)
	for _, c := range []struct {
		cfg    reader.Config
		source string
		up     float64 // connections
	}{
		{reader.Config{Server: n.Listen, Transport: reader.SHM}, "shm", 1},
		{reader.Config{Server: n.Listen, Transport: reader.TCP}, "tcp", 1},
		{reader.Config{Dir: n.Dir}, "durable", 0},
	} {
		registry := prometheus.NewRegistry()
		c.cfg.Registerer = registry
		_, r := w.open(c.cfg, reader.Earliest())
		w.read(r, 20*time.Second)
		m := samples(t, registry)
		if got := m["rmatail_reader_delivered_bytes_total "+c.source]; got != float64(w.pos) {
			t.Errorf("%s: %v bytes delivered of %d", c.source, got, w.pos)
		}
		for _, name := range []string{"reads_total ", "read_seconds "} {
			if c.source == "shm" && name == "read_seconds " && m["rmatail_reader_reads_total shm"] < 64 {
				continue // of copies one in 64 is timed
			}
			if m["rmatail_reader_"+name+c.source] == 0 {
				t.Errorf("%s: no %s: %v", c.source, name, m)
			}
		}
		if got := m["rmatail_reader_read_bytes_total "+c.source]; got < float64(w.pos) || got > 1.2*float64(w.pos) {
			t.Errorf("%s: %v bytes read for %d", c.source, got, w.pos)
		}
		if c.up == 0 {
			continue
		}
		if m["rmatail_reader_connections "+c.source+" up"] != c.up || m["rmatail_reader_page_reads_total"] == 0 || m["rmatail_reader_shard_readers "+w.shard] != 1 {
			t.Errorf("%s: %v", c.source, m)
		}
		if p := m["rmatail_reader_poll_interval_seconds"]; p <= 0 || p > 0.2 {
			t.Errorf("%s: polled every %v s", c.source, p)
		}
	}
}

// samples are the values of a registry by name and labels, but for node; of histograms
// the counts.
func samples(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			name := f.GetName()
			for _, l := range s.Label {
				if l.GetName() != "node" {
					name += " " + l.GetValue()
				}
			}
			m[name] = s.GetGauge().GetValue() + s.GetCounter().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	return m
}
