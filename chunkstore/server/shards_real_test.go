package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// reaches waits until the node's one shard is in a state for a reason that has some
// words.
func reaches(t *testing.T, s *Server, want cause.State, words string) {
	t.Helper()
	last := ""
	eventually(t, want.String()+" "+words, func() bool {
		st := s.Stats()
		if len(st.Shards) != 1 {
			return false
		}
		sh := st.Shards[0]
		if now := sh.State.String() + ": " + sh.Why; now != last {
			last = now
			t.Log(now)
		}
		return sh.State == want && strings.Contains(sh.Why, words) && st.ShardStates[want] == 1
	})
}

// client writes a cache over the wire as a producer elsewhere does, with a lease.
type client struct {
	t *testing.T
	*wire.Client
	ballot wire.Ballot
	beat   uint64
}

func (c *client) call(op wire.Op, p []byte, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Call(ctx, op, p, nil); err != nil {
		c.t.Fatalf("%v: %v", op, err)
	}
}

func (c *client) lease(action wire.LeaseAction) {
	c.t.Helper()
	l := wire.Lease{Action: action, Ballot: c.ballot, TTL: time.Minute, Owner: []byte("host1"), Shard: []byte(shardA.String())}
	p, err := l.AppendTo(nil)
	c.call(wire.OpLease, p, err)
}

func (c *client) publish(length uint64) {
	c.t.Helper()
	c.beat++
	u := wire.Publish{Shard: []byte(shardA.String()), Incarnation: 7, Length: length, HeartbeatMS: c.beat, Ballot: c.ballot}
	p, err := u.AppendTo(nil)
	c.call(wire.OpPublish, p, err)
}

// TestRealStateOfProducers: a writer that beats, whose bytes are missing from the cache,
// that is late, that is silent, and that has closed its shard.
func TestRealStateOfProducers(t *testing.T) {
	s := serve(t, func(c *Config) { c.Heartbeat = time.Second })
	c := &client{t: t, Client: dial(t, s), ballot: wire.Ballot{Sequence: 1, Nonce: 2}}
	c.lease(wire.LeaseAcquire)
	c.publish(100) // and puts nothing
	reaches(t, s, cause.CacheMissing, "holds 0 % of the recent chunks")
	h, data := shardA.Hash(7), make([]byte, 100)
	put := wire.Put{ShardHash: h, CRC: layout.ExtendCRC(layout.SeedCRC(h, 0), data), Data: data}
	head, err := put.AppendTo(nil)
	c.call(wire.OpPut, append(head, data...), err)
	c.publish(100)
	reaches(t, s, cause.Fine, "heartbeat")
	reaches(t, s, cause.ProducerSlow, "the heartbeat is late")
	reaches(t, s, cause.ProducerStopped, "its lease is still held")
	c.publish(100)
	reaches(t, s, cause.Fine, "heartbeat")
	c.lease(wire.LeaseRelease)
	reaches(t, s, cause.Fine, "closed by its writer at 100 bytes")
}

// heldLog lets no append through while its gate is taken.
type heldLog struct {
	producer.Log
	gate chan struct{}
}

func (l *heldLog) Append(ctx context.Context, off uint64, p []byte) (uint64, error) {
	l.gate <- struct{}{}
	defer func() { <-l.gate }()
	return l.Log.Append(ctx, off, p)
}

// TestRealStateOfTheStore: a disk that hangs holds up what is appended, and the shard
// says so; the metrics do, too.
func TestRealStateOfTheStore(t *testing.T) {
	s := serve(t, nil)
	gate := make(chan struct{}, 1)
	s.appenders.open = func(ctx context.Context, shard layout.Shard) (*producer.Appender, error) {
		log, err := s.store.Log(shard.String())
		if err != nil {
			return nil, err
		}
		return producer.Open(ctx, producer.Config{Shard: shard, Log: &heldLog{log, gate}, Cache: s.replicas, Heartbeat: s.cfg.Heartbeat,
			ReadTail: func(ctx context.Context, pos uint64, p []byte) (int, error) {
				return s.store.ReadAt(ctx, shard.String(), pos, p)
			}})
	}
	r := durable.NewRemote(dial(t, s))
	appendPattern(t, r, shardA, 0, 5000)
	reaches(t, s, cause.Fine, "heartbeat")
	gate <- struct{}{}
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _, err := r.Append(ctx, shardA.String(), 5000, []byte("late"))
		ended <- err
	}()
	reaches(t, s, cause.DurableThrottled, "an append to the durable store takes")
	if got := gathered(t, s.cfg.Registerer.(*prometheus.Registry))[`rmatail_node_shard_state `+shardA.String()+` durable_throttled`]; got != 1 {
		t.Errorf("the metric of the state is %v", got)
	}
	<-gate
	if err := <-ended; err != nil {
		t.Error(err)
	}
	appendPattern(t, r, shardA, 5004, 6000) // a quick one: what the last one took counts
	reaches(t, s, cause.Fine, "heartbeat")
}

// gathered are samples by the name of the metric and its labels' values, but for node.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
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

// TestShardMetricsAreBounded: shards beyond the setting are summed.
func TestShardMetricsAreBounded(t *testing.T) {
	st := Stats{ShardStates: map[cause.State]int{cause.Fine: 7, cause.ProducerStopped: 3}}
	st.Shards = []ShardStats{{Shard: "a/0000"}, {Shard: "a/0001"}}
	st.Shards[0].State, st.Shards[1].State = cause.Fine, cause.ProducerStopped
	got := map[string]float64{}
	shardStates(st, func(v float64, labels ...string) { got[strings.Join(labels, " ")] = v })
	for name, want := range map[string]float64{"a/0000 fine": 1, "a/0000 producer_stopped": 0, "a/0001 producer_stopped": 1,
		"others fine": 6, "others producer_stopped": 2, "others unknown": 0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	if len(got) != 3*len(cause.States()) {
		t.Errorf("%d series", len(got))
	}
}

// TestRealLimitsAsMetrics: what is used of the limits is told.
func TestRealLimitsAsMetrics(t *testing.T) {
	s := serve(t, nil)
	r := durable.NewRemote(dial(t, s))
	appendPattern(t, r, shardA, 0, 5000)
	p := make([]byte, 100)
	if _, err := r.ReadAt(t.Context(), shardA.String(), 0, p); err != nil {
		t.Fatal(err)
	}
	m := gathered(t, s.cfg.Registerer.(*prometheus.Registry))
	for name, want := range map[string]float64{
		"rmatail_node_limit_used connections": 1, "rmatail_node_limit_max connections": 4096, "rmatail_node_limit_used appenders": 1,
		"rmatail_node_limit_used durable_reads": 0, "rmatail_node_limit_max durable_reads": 16, "rmatail_node_limit_waiting durable_reads": 0,
		"rmatail_node_connections_by_state open": 1, "rmatail_node_connections_by_state handshake": 0, "rmatail_node_durable_read_seconds": 1,
		"rmatail_node_rdma_devices": 0,
	} {
		if v, ok := m[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	nc := rawDial(t, s)
	defer nc.Close()
	eventually(t, "a connection in its handshake", func() bool {
		return gathered(t, s.cfg.Registerer.(*prometheus.Registry))["rmatail_node_connections_by_state handshake"] == 1
	})
}
