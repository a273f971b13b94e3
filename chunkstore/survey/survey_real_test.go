package survey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/chunkstore/survey"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// startNodes returns the View of nodes that all hold everything; the last one is
// not there.
func startNodes(t *testing.T, names ...string) *cluster.View {
	t.Helper()
	d := cluster.Description{Name: "site", Store: cluster.Store{Dir: "/nowhere"}, Full: len(names), MetadataReplicas: len(names)}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all are open at once, so that the addresses differ
		d.Nodes = append(d.Nodes, cluster.Node{Name: name, Addr: l.Addr().String(), Roles: cluster.Data | cluster.Metadata, Weight: 1})
	}
	source, err := cluster.NewFixed(d)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := source.View()
	return v
}

// serve starts a node of the View.
func serve(t *testing.T, v *cluster.View, name string) *wire.Client {
	t.Helper()
	i, _ := v.Node(name)
	source, err := cluster.NewFixed(v.Description)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Listen: v.Nodes[i].Addr, Socket: server.SocketNone, RDMAMode: server.RDMAOff,
		Arena: chunkstore.Config{Bytes: 4 << 20}, Cluster: source, Node: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	c, err := wire.Dial(ctx, v.Nodes[i].Addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ended; !errors.Is(err, server.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func call(t *testing.T, c *wire.Client, op wire.Op, head, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Call(ctx, op, append(head, data...), nil); err != nil {
		t.Fatalf("%v: %v", op, err)
	}
}

// put fills a node with chunks [0, chunks) of a shard.
func put(t *testing.T, c *wire.Client, h layout.Hash, chunks uint64) {
	t.Helper()
	data := make([]byte, layout.ChunkSize)
	for n := range chunks {
		p := wire.Put{ShardHash: h, Chunk: n, CRC: layout.ExtendCRC(layout.SeedCRC(h, n), data), Data: data}
		head, err := p.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		call(t, c, wire.OpPut, head, data)
	}
}

func publish(t *testing.T, c *wire.Client, shard layout.Shard, incarnation, length uint64) {
	t.Helper()
	p := wire.Publish{Shard: []byte(shard.String()), Incarnation: incarnation, Length: length, HeartbeatMS: 1}
	head, err := p.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	call(t, c, wire.OpPublish, head, nil)
}

// TestRealSurveyTellsHowFarNodesAre: a replica that is up to date, one that is behind,
// an empty one, and one that is away.
func TestRealSurveyTellsHowFarNodesAre(t *testing.T) {
	v := startNodes(t, "full", "half", "empty", "away")
	full, half := serve(t, v, "full"), serve(t, v, "half")
	serve(t, v, "empty")
	shard := layout.Shard{Stream: "logs", Number: 5}
	const incarnation, chunks = 7, 24
	const length = chunks*layout.ChunkSize + 100
	h := shard.Hash(incarnation)
	put(t, full, h, chunks)
	publish(t, full, shard, incarnation, length)
	put(t, half, h, chunks/2)
	publish(t, half, shard, incarnation, length-5000)
	lease := wire.Lease{Action: wire.LeaseAcquire, Ballot: wire.Ballot{Sequence: 3, Nonce: 9}, TTL: time.Minute, Owner: []byte("somebody"), Shard: []byte(shard.String())}
	head, err := lease.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	call(t, full, wire.OpLease, head, nil)
	entries := []durable.Entry{
		{Shard: "logs/0005", Info: durable.Info{Incarnation: incarnation, Length: length}},
		{Shard: "logs/0006", Info: durable.Info{Incarnation: 1}}, // without a byte
		{Shard: "other/0000", Info: durable.Info{Incarnation: 2, Length: 1 << 40}},
	}
	o := options(entries)
	o.Shards = 2
	r := survey.Of(t.Context(), v, o)
	if len(r.Shards) != 2 || !r.More || r.StoreError != "" || r.Name != "site" {
		t.Fatalf("%d shards, more %v, %q", len(r.Shards), r.More, r.StoreError)
	}
	sh := r.Shards[0]
	if sh.Length != length || sh.Lag != 0 || len(sh.Replicas) != 4 {
		t.Errorf("shard %+v", sh)
	}
	lag := map[string]uint64{}
	for _, k := range sh.Replicas {
		lag[k.Node] = k.Lag
		if (k.Writer == "somebody") != (k.Node == "full") || (k.Error != "") != (k.Node == "away") {
			t.Errorf("replica %+v", k)
		}
	}
	if lag["full"] != 0 || lag["half"] != 5000 || lag["empty"] != length || lag["away"] != length {
		t.Errorf("lags %v", lag)
	}
	rates := map[string]float64{"full": 1, "half": 0.5, "empty": 0}
	for _, n := range r.Nodes {
		if n.Name == "away" {
			if n.Up || n.HitRate != nil || !strings.Contains(n.Error, "refused") {
				t.Errorf("the node that is away: %+v", n)
			}
			continue
		}
		if !n.Up || n.Error != "" || n.Epoch == 0 || n.Extents.Ways == 0 || n.HitRate == nil || math.Abs(*n.HitRate-rates[n.Name]) > 1e-9 {
			t.Errorf("node %+v, want a hit rate of %g", n, rates[n.Name])
		}
	}
	if full := r.Nodes[0]; full.Leases != 1 || full.Puts != chunks || full.Publishes != 1 || full.Extents.Used != 2 || full.Pages.Used != 1 {
		t.Errorf("node %+v", full)
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"hit_rate":0.5`) || !strings.Contains(string(text), `"hit_rate":null`) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestRealSurveyOfManyShards: more reads than a batch takes, and the shards that are
// wanted.
func TestRealSurveyOfManyShards(t *testing.T) {
	v := startNodes(t, "one")
	c := serve(t, v, "one")
	var entries []durable.Entry
	for i := range 600 {
		shard := layout.Shard{Stream: fmt.Sprintf("s%d", i%7), Number: uint32(i)}
		publish(t, c, shard, 1, 0)
		entries = append(entries, durable.Entry{Shard: shard.String(), Info: durable.Info{Incarnation: 1, Length: uint64(i) * 100_000}})
	}
	o := options(entries)
	r := survey.Of(t.Context(), v, o)
	if len(r.Shards) != 600 || r.More || r.Nodes[0].Error != "" {
		t.Fatalf("%d shards, %q", len(r.Shards), r.Nodes[0].Error)
	}
	for i, s := range r.Shards {
		if s.Lag != entries[i].Length || s.Replicas[0].Error != "" {
			t.Errorf("shard %+v", s)
		}
	}
	if rate := r.Nodes[0].HitRate; rate == nil || *rate != 0 {
		t.Errorf("an empty node has a hit rate of %v", rate)
	}
	o.Wanted = func(s string) bool { return s == "s3/0003" }
	if r := survey.Of(t.Context(), v, o); len(r.Shards) != 1 || r.Shards[0].Shard != "s3/0003" {
		t.Errorf("the one shard that is wanted: %+v", r.Shards)
	}
	o.List = func(context.Context, string, int) ([]durable.Entry, error) { return nil, os.ErrNotExist }
	if r := survey.Of(t.Context(), v, o); r.StoreError == "" || !r.Nodes[0].Up {
		t.Errorf("without a store: %q, node up %v", r.StoreError, r.Nodes[0].Up)
	}
}

// options list entries, in pages.
func options(entries []durable.Entry) survey.Options {
	return survey.Options{Shards: 1000, Timeout: patience,
		Dial: func(ctx context.Context, addr string) (*wire.Client, error) {
			return wire.Dial(ctx, addr, wire.Options{})
		},
		List: func(_ context.Context, after string, limit int) (page []durable.Entry, err error) {
			found := after == ""
			for _, e := range entries {
				if found && len(page) < min(limit, 100) {
					page = append(page, e)
				}
				found = found || e.Shard == after
			}
			return page, nil
		}}
}
