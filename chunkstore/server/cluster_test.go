package server

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// ask makes a lease request over the wire.
func ask(t *testing.T, c *wire.Client, l wire.Lease) wire.LeaseReply {
	t.Helper()
	l.Shard = []byte(shardA.String())
	head, err := l.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Call(t.Context(), wire.OpLease, head, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.ParseLeaseReply(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func publish(t *testing.T, c *wire.Client, length uint64, b wire.Ballot) error {
	t.Helper()
	head, err := (&wire.Publish{Shard: []byte(shardA.String()), Incarnation: 1, Length: length, Ballot: b}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), wire.OpPublish, head, nil)
	return err
}

func TestRealLeases(t *testing.T) {
	s := serve(t, func(c *Config) { c.Dir = "" })
	c := dial(t, s)
	if r := ask(t, c, wire.Lease{Action: wire.LeaseQuery}); r.Ballot != (wire.Ballot{}) || r.Left != 0 || len(r.Owner) != 0 {
		t.Errorf("nobody has it: %+v", r)
	}
	first, second := wire.Ballot{Sequence: 1, Nonce: 7}, wire.Ballot{Sequence: 2, Nonce: 3}
	acquire := func(b wire.Ballot, owner string) wire.LeaseReply {
		t.Helper()
		return ask(t, c, wire.Lease{Action: wire.LeaseAcquire, Ballot: b, TTL: time.Minute, Owner: []byte(owner)})
	}
	if r := acquire(first, "a"); r.Ballot != first || r.Left <= 0 || r.Left > time.Minute || string(r.Owner) != "a" {
		t.Errorf("the first: %+v", r)
	}
	if err := publish(t, c, 100, first); err != nil {
		t.Error(err)
	}
	if r := acquire(second, "b"); r.Ballot != second {
		t.Errorf("a newer one: %+v", r)
	}
	if r := acquire(first, "a"); r.Ballot != second || string(r.Owner) != "b" {
		t.Errorf("the older one again: %+v", r)
	}
	for _, b := range []wire.Ballot{first, {}} {
		err := publish(t, c, 200, b)
		var e *wire.Error
		if !errors.As(err, &e) || !errors.Is(err, wire.ErrLease) || e.Arg0 != 2 || e.Arg1 != 3 || e.Message != `owner "b"` {
			t.Errorf("publication under ballot %v: %v", b, err)
		}
	}
	if r := ask(t, c, wire.Lease{Action: wire.LeaseRelease, Ballot: second}); r.Ballot != second || r.Left != 0 {
		t.Errorf("given back: %+v", r)
	}
	if err := publish(t, c, 300, wire.Ballot{}); err != nil {
		t.Errorf("without a lease, when nobody has one: %v", err)
	}
	st := s.Stats()
	if st.Arena.Leases != 1 || st.Arena.Poisoned != 2 || st.Requests["Lease"] != 5 || st.Refusals[wire.ErrLease.Error()] != 2 || st.Replicas != nil {
		t.Errorf("%+v", st)
	}
}

// A writer elsewhere takes the shard: the node's own appender ends at its next
// publication. What it has acknowledged is durable; the append after that is
// refused, and the next one begins anew.
func TestRealAppenderLosesItsLease(t *testing.T) {
	s := serve(t, func(c *Config) { c.Heartbeat = time.Hour })
	c := dial(t, s)
	store := durable.NewRemote(c)
	add := func() error {
		_, _, err := store.Append(t.Context(), shardA.String(), wire.NoOffset, []byte("record"))
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	own := ask(t, c, wire.Lease{Action: wire.LeaseQuery})
	if string(own.Owner) != s.Addr().String() {
		t.Errorf("the lease is held by %q", own.Owner)
	}
	theirs := wire.Ballot{Sequence: own.Ballot.Sequence + 1}
	ask(t, c, wire.Lease{Action: wire.LeaseAcquire, Ballot: theirs, TTL: time.Minute, Owner: []byte("them")})
	if err := add(); err != nil {
		t.Errorf("an append that is durable: %v", err)
	}
	if err := add(); !errors.Is(err, wire.ErrLocked) {
		t.Errorf("an append after that: %v", err)
	}
	eventually(t, "the shard is opened anew", func() bool { return add() == nil })
	if now := ask(t, c, wire.Lease{Action: wire.LeaseQuery}); now.Ballot.Sequence <= theirs.Sequence {
		t.Errorf("it is written under %v, after %v", now.Ballot, theirs)
	}
}

func TestRealNodeOfACluster(t *testing.T) {
	d := cluster.Description{TTL: 17 * time.Second, Store: cluster.Store{Node: "b"}, Nodes: []cluster.Node{
		{Name: "a", Addr: "127.0.0.1:1", Roles: cluster.Data, Weight: 1, Partial: true},
		{Name: "b", Addr: "127.0.0.1:2", Roles: cluster.Data | cluster.Metadata, Weight: 1},
	}}
	source, err := cluster.NewFixed(d)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := New(Config{Listen: "127.0.0.1:0", Socket: SocketNone, RDMAMode: RDMAOff, Cluster: source, Node: "c"}); !errors.Is(err, ErrConfig) {
		t.Errorf("a node that is not in the description: %v, %v", s, err)
	}
	a := serve(t, func(c *Config) { c.Dir, c.Cluster, c.Node = "", source, "a" })
	if st := a.Stats(); st.Node != "a" || st.Role != "data, partial" || a.cfg.Arena.TTL != d.TTL {
		t.Errorf("node %q, role %q, time to live %v", st.Node, st.Role, a.cfg.Arena.TTL)
	}
	// b has the store; a is not at its address, and holds nothing up.
	b := serve(t, func(c *Config) { c.Cluster, c.Node = source, "b" })
	c := dial(t, b)
	if _, _, err := durable.NewRemote(c).Append(t.Context(), shardA.String(), 0, pattern(0, 10_000)); err != nil {
		t.Fatal(err)
	}
	p, err := c.Call(t.Context(), wire.OpNodeStat, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var st Stats
	if err := json.Unmarshal(p, &st); err != nil {
		t.Fatal(err)
	}
	if st.Role != "data and metadata" || st.Replicas == nil || len(st.Replicas.Nodes) != 2 {
		t.Fatalf("%+v", st)
	}
	if own := st.Replicas.Nodes[1]; own.Node != "b" || own.State != "local" || own.PutBytes != 10_000 {
		t.Errorf("%+v", own)
	}
	if away := st.Replicas.Nodes[0]; away.Node != "a" || away.Puts != 0 || !away.Partial || away.State == "live" {
		t.Errorf("%+v", away)
	}
	if names := metricNames(t, b); !names["rmatail_replica_puts_total"] || !names["rmatail_node_leases"] {
		t.Error("metrics of replicas or leases are missing")
	}
}

// metricNames are the families that a node's registry has.
func metricNames(t *testing.T, s *Server) map[string]bool {
	t.Helper()
	g, ok := s.cfg.Registerer.(prometheus.Gatherer)
	if !ok {
		t.Fatal("the registry cannot be read")
	}
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	return names
}
