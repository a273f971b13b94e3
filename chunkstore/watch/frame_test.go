package watch

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

func TestTimesBetweenSnapshots(t *testing.T) {
	var before, now times
	if err := before.UnmarshalText([]byte("100:5 1000:1")); err != nil {
		t.Fatal(err)
	}
	if err := now.UnmarshalText([]byte("100:5 200:98 1000:2 5e5:1 nonsense 7 x:y NaN:9 +Inf:9 -5:9 1e300:9")); err != nil {
		t.Fatal(err)
	}
	q := now.since(before)
	if q == nil || q.Count != 100 || q.P50 != 200e-6 || q.P99 != 0.5 {
		t.Errorf("%+v", q)
	}
	if q := now.since(now); q != nil {
		t.Errorf("nothing since: %+v", q)
	}
	if q := before.since(now); q != nil { // an appender was closed: counts went back
		t.Errorf("less than before: %+v", q)
	}
}

// node is a survey's answer of a node whose counters stand at n.
func node(n uint64, epoch uint64) survey.Node {
	stat := fmt.Sprintf(`{"arena_read_bytes":%d,"appends":%d,"requests":{"a":%d,"b":%d},"ack_times":"100:%d","arena":{"Puts":%d},
		"replicas":{"nodes":[{"node":"a","state":"local","put_bytes":%d},{"node":"gone","put_bytes":1}]},"shards":[{"shard":"x/0000","state":"producer_slow","why":"y"}],"others":[{"shard":"z/0000","state":"producer_stopped","why":"y"}],"map":{"cells":"AAH/","ttl_seconds":60}}`, n, n, n, n, n, n, n)
	return survey.Node{Name: "a", Addr: "a:1", Store: true, Up: true, Epoch: epoch, RoundTrip: 0.001, Stat: json.RawMessage(stat)}
}

// TestRatesAreDifferences by the watcher's clock; a node that was restarted has none.
func TestRatesAreDifferences(t *testing.T) {
	w := New(Options{})
	now := time.Unix(100, 0)
	take := func(n survey.Node) Node {
		f := &Frame{}
		w.addNodes(f, []survey.Node{n}, now)
		now = now.Add(2 * time.Second)
		return f.Nodes[0]
	}
	if n := take(node(100, 1)); n.Rates != (Rates{}) || n.Ack != nil || len(n.Memory.Cells) != 3 || n.Memory.TTL != 60 || n.Writes != "local" {
		t.Errorf("the first: %+v", n)
	}
	if v := w.told["x/0000"]; len(v) != 1 || v[0].State != cause.ProducerSlow || v[0].Why != "y" || v[0].Node != "a" {
		t.Errorf("of a shard the node says %+v", v)
	}
	if v := w.told["z/0000"]; len(v) != 1 || v[0].State != cause.ProducerStopped {
		t.Errorf("of a shard in trouble, beyond the first, the node says %+v", v)
	}
	n := take(node(300, 1))
	if r := n.Rates; r.TCPBytes != 100 || r.Appends != 100 || r.Requests != 200 || r.Puts != 100 || r.PutBytes != 100 {
		t.Errorf("200 in 2 s: %+v", r)
	}
	if n.Ack == nil || n.Ack.Count != 200 || math.Abs(n.Ack.P99-100e-6) > 1e-9 {
		t.Errorf("200 acks of 100 us: %+v", n.Ack)
	}
	away := survey.Node{Name: "a", Error: "refused"}
	if n := take(away); n.Up || n.Away != 0 || n.Error != "refused" {
		t.Errorf("away: %+v", n)
	}
	if n := take(away); n.Away != 2 {
		t.Errorf("away for 2 s: %+v", n)
	}
	if n := take(node(10, 2)); !n.Up || n.Away != 0 || n.Rates.Appends != 0 {
		t.Errorf("restarted: %+v", n)
	}
	if n := take(node(30, 2)); n.Rates.Appends != 10 {
		t.Errorf("again: %+v", n.Rates)
	}
	if n := take(node(20, 3)); n.Rates.Appends != 0 {
		t.Errorf("restarted between two frames: %+v", n.Rates)
	}
}

// TestStatesOfAShard follows one shard through what can happen to it.
func TestStatesOfAShard(t *testing.T) {
	w := New(Options{})
	now := time.Unix(1000, 0)
	s := survey.Shard{Shard: "logs/0000", Length: 1000, Replicas: []survey.Replica{{Node: "a", Published: 1000, Heartbeat: 5, Writer: "me"}, {Node: "b", Published: 900, Lag: 100, Heartbeat: 4}}}
	take := func() Shard {
		f := &Frame{}
		w.addShards(f, []survey.Shard{s}, now, time.Second, true)
		now = now.Add(time.Second)
		return f.Shards[0]
	}
	want := func(what string, state cause.State) Shard {
		t.Helper()
		sh := take()
		if sh.State != state {
			t.Errorf("%s: %v (%s), want %v", what, sh.State, sh.Why, state)
		}
		return sh
	}
	beat := func() { s.Replicas[0].Heartbeat++ }
	if sh := want("seen once", cause.Unknown); sh.Heartbeat != nil || sh.Rate != 0 || sh.Writer != "me" || len(sh.Replicas) != 2 {
		t.Errorf("seen once: %+v", sh)
	}
	beat()
	s.Length, s.Replicas[0].Published = 1500, 1500
	if sh := want("beats", cause.Fine); sh.Heartbeat == nil || *sh.Heartbeat != 0 || sh.Rate != 500 {
		t.Errorf("beats: %+v", sh)
	}
	for range 2 {
		want("no beat yet", cause.Fine)
	}
	if sh := want("late", cause.ProducerSlow); *sh.Heartbeat != 3 {
		t.Errorf("late: %+v", sh)
	}
	want("late", cause.ProducerSlow)
	want("stopped", cause.ProducerStopped)
	beat()
	want("back", cause.Fine)
	beat()
	tell := func(states ...cause.State) {
		w.told["logs/0000"] = nil
		for _, st := range states {
			w.told["logs/0000"] = append(w.told["logs/0000"], survey.Told{Verdict: cause.Verdict{State: st, Why: "its queue"}, Node: "a"})
		}
	}
	tell(cause.DurableThrottled, cause.Fine)
	if sh := want("the owner of the store knows better", cause.DurableThrottled); sh.Why != "a: its queue" {
		t.Errorf("why: %q", sh.Why)
	}
	beat()
	tell(cause.CacheMissing, cause.Fine)
	want("one node lacks what the other has", cause.Fine)
	beat()
	tell(cause.ProducerStopped, cause.Fine)
	want("one node is cut off from a producer that beats", cause.Fine)
	tell()
	beat()
	s.Length, s.Lag = 5000, 3500
	if sh := want("a lag that is new", cause.Fine); sh.LagTime != 0 || sh.Lag != 3500 {
		t.Errorf("lag: %+v", sh)
	}
	beat()
	if sh := take(); sh.LagTime != 1 {
		t.Errorf("a lag of 1 s: %+v", sh)
	}
	beat()
	want("the cache is behind, the producer lives", cause.CacheMissing)
	s.Replicas[0].Error, s.Replicas[1].Error = "refused", "refused"
	if sh := want("no replica answers", cause.CacheMissing); sh.Heartbeat != nil || sh.LagTime != 0 {
		t.Errorf("no replica answers: %+v", sh)
	}
}

// TestStoppedOnPurposeOrNot: a producer whose process was killed is trouble, also when its
// lease has run out; one that gave its lease back is none, and neither is one of which
// nobody knows any more.
func TestStoppedOnPurposeOrNot(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  []cause.State
		writer string
		want   cause.State
		ended  bool
	}{
		{"killed, its lease is held", []cause.State{cause.ProducerStopped}, "me", cause.ProducerStopped, false},
		{"killed, its lease has run out", []cause.State{cause.ProducerStopped}, "", cause.ProducerStopped, false},
		{"killed, and a node that came back does not know", []cause.State{cause.ProducerStopped, cause.Fine}, "", cause.ProducerStopped, false},
		{"closed", []cause.State{cause.Fine, cause.Fine}, "", cause.Fine, false},
		{"nobody knows", nil, "", cause.ProducerStopped, true},
	} {
		w := New(Options{})
		now := time.Unix(1000, 0)
		for _, st := range c.nodes {
			w.told["logs/0000"] = append(w.told["logs/0000"], survey.Told{Verdict: cause.Verdict{State: st, Why: "1"}, HeartbeatAge: 60})
		}
		s := survey.Shard{Shard: "logs/0000", Length: 10, Replicas: []survey.Replica{{Node: "a", Published: 10, Heartbeat: 5, Writer: c.writer}}}
		var f *Frame
		for range 8 {
			f = &Frame{}
			w.addShards(f, []survey.Shard{s}, now, time.Second, true)
			now = now.Add(time.Second)
		}
		if sh := f.Shards[0]; sh.State != c.want || sh.Ended != c.ended {
			t.Errorf("%s: %v (%s), ended %v; want %v, %v", c.name, sh.State, sh.Why, sh.Ended, c.want, c.ended)
		}
	}
}

// TestNoRateOfWhatWasNotSeen: bytes that came while the store did not answer are not
// counted as those of the second in which it does again.
func TestNoRateOfWhatWasNotSeen(t *testing.T) {
	w := New(Options{})
	now := time.Unix(1000, 0)
	take := func(length uint64, listed bool) float64 {
		f := &Frame{}
		w.addShards(f, []survey.Shard{{Shard: "logs/0000", Length: length}}, now, time.Second, listed)
		now = now.Add(time.Second)
		return f.Shards[0].Rate
	}
	take(1000, true)
	if r := take(1100, true); r != 100 {
		t.Errorf("%v B/s, want 100", r)
	}
	take(1100, false)
	if r := take(9000, true); r != 0 {
		t.Errorf("%v B/s when the store is back", r)
	}
	if r := take(9100, true); r != 100 {
		t.Errorf("%v B/s after, want 100", r)
	}
}

// TestConsumersAreHeard: what consumers tell nodes is of the shards that they speak of, the
// worst first; stale reports decide nothing, and of the producer nodes know more.
func TestConsumersAreHeard(t *testing.T) {
	w := New(Options{})
	stat := `{"consumers":{"count":40,"states":{"fine":37,"consumer_slow":3},"rates":{"shm":100,"tcp":5},"worst":[
		{"name":"old","age_seconds":60,"state":"consumer_slow","worst":[{"shard":"b/0000","state":"consumer_slow","why":"9"}]},
		{"name":"blames","age_seconds":1,"state":"producer_stopped","worst":[{"shard":"b/0000","state":"producer_stopped","why":"9"},{"shard":"b/0000","state":"of tomorrow"}]},
		{"name":"slow","age_seconds":1,"p99":0.5,"state":"consumer_slow","worst":[{"shard":"a/0000","state":"consumer_slow","why":"9 bytes","lag":9,"lag_seconds":3}]}]}}`
	f := &Frame{}
	now := time.Unix(1000, 0)
	w.addNodes(f, []survey.Node{{Name: "n", Up: true, Epoch: 1, Stat: json.RawMessage(stat)}}, now)
	for range 2 {
		f.Shards = nil
		var shards []survey.Shard
		for _, name := range []string{"a/0000", "b/0000"} {
			shards = append(shards, survey.Shard{Shard: name, Length: 9, Replicas: []survey.Replica{{Node: "n", Published: 9, Heartbeat: uint64(now.Unix())}}})
		}
		w.addShards(f, shards, now, time.Second, true)
		now = now.Add(time.Second)
	}
	f.Totals = f.sum()
	f.fewest()
	if a, b := f.Shards[0], f.Shards[1]; a.State != cause.ConsumerSlow || a.Why != "consumer slow: 9 bytes" || b.State != cause.Fine {
		t.Errorf("%+v, %+v", a, b)
	}
	if f.Reporting != 40 || f.Behind != 3 || len(f.Consumers) != 3 || f.Consumers[0].Name != "slow" || f.Consumers[0].Lag != 9 || f.Consumers[0].Node != "n" {
		t.Errorf("%d report, %d in trouble: %+v", f.Reporting, f.Behind, f.Consumers)
	}
	if f.Totals.Delivered["shm"] != 100 || f.Totals.ReadP99 != 0.5 {
		t.Errorf("%+v", f.Totals)
	}
}
