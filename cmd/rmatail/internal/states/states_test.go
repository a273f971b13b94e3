package states

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

var now = time.UnixMilli(1_000_000)

// replica has published, with a heartbeat of so long ago by the producer's clock.
func replica(lag uint64, beat time.Duration) survey.Replica {
	return survey.Replica{Node: "n1", Lag: lag, Published: 1000 - lag, Heartbeat: uint64(now.Add(-beat).UnixMilli())}
}

func shard(length uint64, r ...survey.Replica) survey.Shard {
	s := survey.Shard{Shard: "logs/0000", Length: length, Replicas: r, Lag: length}
	for _, k := range r {
		s.Lag = min(s.Lag, k.Lag)
	}
	return s
}

// node tells something of the shard.
func node(name, text string) survey.Node {
	return survey.Node{Name: name, Up: true, Stat: json.RawMessage(`{"shards":[{"shard":"logs/0000",` + text + `}]}`)}
}

const (
	fresh  = `"state":"fine","why":"1","heartbeat_age_seconds":0.5,"publish_age_seconds":9`
	stale  = `"state":"producer_stopped","why":"2","heartbeat_age_seconds":60,"publish_age_seconds":90`
	empty  = `"state":"cache_missing","why":"holds 0 %","heartbeat_age_seconds":0.5,"publish_age_seconds":1`
	hangs  = `"state":"durable_throttled","why":"takes 3s","heartbeat_age_seconds":0.5,"publish_age_seconds":1`
	closed = `"state":"fine","why":"closed by its writer at 1000 bytes","heartbeat_age_seconds":60,"publish_age_seconds":90`
	queue  = `"state":"producer_slow","why":"queued for 2s","heartbeat_age_seconds":0.5,"publish_age_seconds":1`
)

func TestSettle(t *testing.T) {
	lost := survey.Replica{Node: "n1", Lag: 1000, Error: "refused"}
	absent := survey.Replica{Node: "n1", Lag: 1000}
	for _, c := range []struct {
		name      string
		s         survey.Shard
		before    *survey.Shard
		nodes     []survey.Node
		consumer  string // its state
		want      cause.State
		words     string
		unsettled bool
	}{
		{name: "beats by its clock", s: shard(1000, replica(0, time.Second)), want: cause.Fine, words: "heartbeat 1s old", unsettled: true},
		{name: "silent by its clock", s: shard(1000, replica(0, time.Minute)), want: cause.ProducerStopped, words: "nobody holds its lease", unsettled: true},
		{name: "its clock is wrong, and it beats", s: shard(1000, replica(0, time.Hour)), before: ptr(shard(1000, replica(0, 2*time.Hour))), want: cause.Fine, unsettled: true},
		{name: "nodes have seen it beat", s: shard(1000, replica(0, time.Hour)), nodes: []survey.Node{node("n1", stale), node("n2", fresh)}, want: cause.Fine, words: "500ms"},
		{name: "no node has", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", stale)}, want: cause.ProducerStopped, words: "1m0s"},
		{name: "closed by its writer, as a node knows", s: shard(1000, replica(0, time.Hour)), nodes: []survey.Node{node("n1", closed), node("n2", closed)}, want: cause.Fine, words: "closed by its writer"},
		{name: "closed by its writer, and killed, as another says", s: shard(1000, replica(0, time.Hour)), nodes: []survey.Node{node("n1", closed), node("n2", stale)}, want: cause.ProducerStopped},
		{name: "of trouble beyond the first shards", s: shard(1000, replica(0, 0)), nodes: []survey.Node{{Name: "n1", Up: true, Stat: json.RawMessage(`{"others":[{"shard":"logs/0000",` + hangs + `}]}`)}}, want: cause.DurableThrottled, words: "n1: takes 3s"},
		{name: "no replica answers", s: shard(1000, lost), want: cause.CacheMissing, words: "0 replicas", unsettled: true},
		{name: "nobody knows it, and it grows", s: shard(1000, absent), before: ptr(shard(900, absent)), want: cause.CacheMissing, words: "1000 bytes are durable", unsettled: true},
		{name: "nobody knows it, and it rests", s: shard(1000, absent), before: ptr(shard(1000, absent)), want: cause.ProducerStopped, words: "do not grow", unsettled: true},
		{name: "behind and stuck", s: shard(1000, replica(100, time.Second)), before: ptr(shard(1000, replica(100, 2*time.Second))),
			nodes: []survey.Node{node("n1", fresh)}, want: cause.CacheMissing, words: "100 bytes behind", unsettled: true},
		{name: "behind and moving", s: shard(1000, replica(100, time.Second)), before: ptr(shard(1000, replica(200, 2*time.Second))), want: cause.ProducerSlow, words: "moves", unsettled: true},
		{name: "one node lacks it", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", empty), node("n2", fresh)}, want: cause.Fine},
		{name: "all nodes lack it", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", empty), node("n2", empty)}, want: cause.CacheMissing, words: "n1: holds 0 %"},
		{name: "a store hangs", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", hangs), node("n2", fresh)}, want: cause.DurableThrottled, words: "n1: takes 3s"},
		{name: "records queue", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", queue), node("n2", fresh)}, want: cause.ProducerSlow, words: "queued"},
		{name: "a consumer is slow", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", fresh)}, consumer: "consumer_slow", want: cause.ConsumerSlow, words: "consumer at c:1: 77 bytes behind, the oldest for 3.5 s"},
		{name: "a consumer is fine, the producer is not", s: shard(1000, replica(0, 0)), nodes: []survey.Node{node("n1", stale)}, consumer: "fine", want: cause.ProducerStopped},
		{name: "sealed", s: survey.Shard{Shard: "logs/0000", Length: 1000, Sealed: true, Replicas: []survey.Replica{replica(0, time.Hour)}}, want: cause.Fine, words: "sealed"},
	} {
		r := &survey.Report{Nodes: c.nodes, Shards: []survey.Shard{c.s}}
		if Unsettled(r) != c.unsettled {
			t.Errorf("%s: unsettled %v", c.name, Unsettled(r))
		}
		var before *survey.Report
		if c.before != nil {
			before = &survey.Report{Shards: []survey.Shard{*c.before}}
		}
		var consumers []Consumer
		if c.consumer != "" {
			one, err := parse("c:1", strings.NewReader(page(c.consumer)))
			if err != nil {
				t.Fatal(err)
			}
			consumers = append(consumers, one)
		}
		Settle(r, before, 1200*time.Millisecond, consumers, now)
		if got := r.Shards[0]; got.State != c.want || !strings.Contains(got.Why, c.words) {
			t.Errorf("%s: %v, %q; want %v, %q", c.name, got.State, got.Why, c.want, c.words)
		}
	}
}

func ptr(s survey.Shard) *survey.Shard { return &s }

// page is a consumer's metrics.
func page(state string) string {
	return `# HELP rmatail_reader_shard_state text
rmatail_reader_shard_state{node="x",shard="logs/0000",state="fine"} 0
rmatail_reader_shard_state{node="x",shard="logs/0000",state="` + state + `"} 1
rmatail_reader_shard_lag_bytes{node="x",shard="logs/0000"} 77
rmatail_reader_shard_lag_seconds{node="x",shard="logs/0000"} 3.5
other_metric 1
`
}

func TestAsk(t *testing.T) {
	answer := page("consumer_slow")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(answer))
	}))
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer http.DefaultClient.CloseIdleConnections()
	addr := strings.TrimPrefix(s.URL, "http://")
	for _, a := range []string{addr, s.URL + "/metrics"} {
		c, err := Ask(ctx, a)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := c.verdict("logs/0000"); !ok || v.State != cause.ConsumerSlow {
			t.Errorf("%+v, %v", v, ok)
		}
		if v, ok := c.verdict("logs/0001"); ok {
			t.Errorf("of a shard that it does not follow: %+v", v)
		}
	}
	if _, err := Ask(ctx, s.URL+"/nothing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a page that is not there: %v", err)
	}
	answer = "up 1\n"
	if _, err := Ask(ctx, addr); !errors.Is(err, ErrNoConsumer) {
		t.Errorf("a page without a reader: %v", err)
	}
	answer = page("nonsense")
	if _, err := Ask(ctx, addr); !errors.Is(err, cause.ErrState) {
		t.Errorf("a state that is none: %v", err)
	}
}

func TestOfNode(t *testing.T) {
	n := node("n1", hangs)
	if v := OfNode(n.Stat, "logs/0000", nil); v.State != cause.DurableThrottled {
		t.Errorf("%+v", v)
	}
	if v := OfNode(n.Stat, "logs/0001", nil); v.State != cause.Unknown {
		t.Errorf("of another shard: %+v", v)
	}
	c, err := parse("c:1", strings.NewReader(page("transport_degraded")))
	if err != nil {
		t.Fatal(err)
	}
	if v := OfNode(nil, "logs/0000", []Consumer{c}); v.State != cause.TransportDegraded {
		t.Errorf("without a node: %+v", v)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(page("fine"))
	f.Add(`rmatail_reader_shard_state{shard="} 1`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parse("x", strings.NewReader(text)); err == nil && !strings.Contains(text, "rmatail_reader_shard_") {
			t.Error("a consumer out of nothing")
		}
	})
}
