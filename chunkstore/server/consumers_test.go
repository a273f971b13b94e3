package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/fallback/wire"
)

func report(t *testing.T, c *wire.Client, r wire.Report) error {
	t.Helper()
	p, err := r.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), wire.OpReport, p, nil)
	return err
}

// TestRealConsumersReport: the last report of each is told, those in trouble first, what
// was delivered is summed, and who has gone is forgotten. Nonsense is refused, and costs
// no connection.
func TestRealConsumersReport(t *testing.T) {
	s := serve(t, nil)
	slow, quick := dial(t, s), dial(t, s)
	told := func(n uint64) {
		t.Helper()
		for name, c := range map[string]*wire.Client{"quick": quick, "slow": slow} {
			r := wire.Report{Name: name, Transport: "tcp", Bytes: map[string]uint64{"tcp": n, "nonsense": n}, Shards: 1, Worst: []wire.ReportShard{{Shard: "a/0000", State: "fine", Why: "1"}}}
			if name == "slow" {
				r.Worst[0] = wire.ReportShard{Shard: "a/0000", State: "consumer_slow", Why: "9", Lag: 9, LagTime: 2}
			}
			if err := report(t, c, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	told(1000)
	if st := s.Stats().Consumers; st.Count != 2 || st.Bytes["tcp"] != 0 {
		t.Errorf("what was delivered before is counted: %+v", st)
	}
	told(1500)
	st := s.Stats().Consumers
	if st.Count != 2 || st.Bytes["tcp"] != 1000 || len(st.Bytes) != 4 || st.States[cause.ConsumerSlow] != 1 || st.States[cause.Fine] != 1 || st.Worst[0].Name != "slow" || st.Worst[0].State != cause.ConsumerSlow || st.Worst[1].Rates["tcp"] <= 0 || st.Rates["tcp"] < 1.5*st.Worst[1].Rates["tcp"] {
		t.Errorf("%+v", st)
	}
	told(10) // begun anew
	if n := s.Stats().Consumers.Bytes["tcp"]; n != 1000 {
		t.Errorf("%d bytes after a count that fell", n)
	}
	if _, err := slow.Call(t.Context(), wire.OpReport, []byte(`{"name":`), nil); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("nonsense: %v", err)
	}
	slow.Close()
	eventually(t, "the end of a report", func() bool { return s.Stats().Consumers.Count == 1 })
	if _, err := json.Marshal(s.Stats()); err != nil {
		t.Error(err)
	}
}

// TestConsumersAreBounded: more than there is room for are refused, and few are told.
func TestConsumersAreBounded(t *testing.T) {
	var k consumers
	now := time.Now()
	nc, other := net.Pipe()
	defer nc.Close()
	defer other.Close()
	for i := range consumersMost {
		if !k.take(&conn{nc: nc}, wire.Report{Name: fmt.Sprint(i)}, now) {
			t.Fatalf("refused after %d", i)
		}
	}
	if k.take(&conn{nc: nc}, wire.Report{Name: "x"}, now) {
		t.Error("one more than there is room for is kept")
	}
	if st := k.stats(now); st.Count != consumersMost || len(st.Worst) != consumersTold {
		t.Errorf("%d, %d told", st.Count, len(st.Worst))
	}
}

// TestRealReportsStayWithinRights: a consumer tells nothing of streams that it may not read.
func TestRealReportsStayWithinRights(t *testing.T) {
	grants := theGrants()
	grants["bob"] = auth.Grant{Read: auth.Patterns{"b-*"}, Tenant: "b"}
	a := serveAccess(t, theTenants, grants, nil)
	r := wire.Report{Name: "bob", Shards: 2, Worst: []wire.ReportShard{{Shard: "a-logs/0001", State: "cache_missing", Why: "a lie"}, {Shard: "b-logs/0001", State: "consumer_slow", Why: "9"}, {Shard: "b-logs/1", State: "fine", Why: "no name"}}}
	if err := report(t, a.as("bob"), r); err != nil {
		t.Fatal(err)
	}
	if st := a.Stats().Consumers; len(st.Worst) != 1 || len(st.Worst[0].Worst) != 1 || st.Worst[0].Worst[0].Shard != "b-logs/0001" || st.Worst[0].State != cause.ConsumerSlow {
		t.Errorf("%+v", st)
	}
}
