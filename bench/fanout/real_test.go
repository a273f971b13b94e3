package fanout

import (
	"bytes"
	"errors"
	"image/png"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// held asserts of measured rows what does not depend on how busy the host is.
func held(t *testing.T, rows []Row) {
	t.Helper()
	for _, r := range rows {
		switch {
		case r.Failed != "":
			t.Errorf("%s: %s", r.Name(), r.Failed)
		case r.Produced <= 0:
			t.Errorf("%s: nothing was produced: %+v", r.Name(), r.Figures)
		case r.Consumers == 0:
		case r.Delivered <= 0 || r.Missing != 0 || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Max*1.001:
			t.Errorf("%s: %+v", r.Name(), r.Figures)
		case r.Traffic.Moved == 0 || r.Program != JetStream && r.Traffic.Requests == 0:
			t.Errorf("%s: traffic %+v", r.Name(), r.Traffic)
		case runtime.GOOS == "linux" && r.ClientPerMB <= 0:
			t.Errorf("%s: processor time %+v", r.Name(), r.Figures)
		}
	}
}

// all asserts that something was measured of every program.
func all(t *testing.T, c Config, res *Result) {
	t.Helper()
	for _, p := range c.Programs {
		measured := slices.ContainsFunc(res.Rows, func(r Row) bool { return r.Program == p && r.Consumers > 0 })
		if absent := slices.ContainsFunc(res.Absent, func(a Absent) bool { return a.Program == p }); measured == absent {
			t.Errorf("%s: measured %v, absent %v", p, measured, absent)
		}
	}
}

// TestRealFanout runs ours for a moment.
func TestRealFanout(t *testing.T) {
	c := testConfig(t)
	c.Programs, c.Workloads, c.Shards, c.Consumers = []Program{SHM, TCP, Naive}, []Workload{Lines}, []int{1}, []int{4}
	told := 0
	c.Progress = func(int, Row) { told++ }
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Rows) == 0 || told != len(res.Rows) || len(res.Absent) != 0 || res.Claims != nil || len(res.Floors) != 2 {
		t.Fatalf("%d rows, told of %d, absent %v, %d claims of one round, floors %v", len(res.Rows), told, res.Absent, len(res.Claims), res.Floors)
	}
	held(t, res.Rows)
	all(t, c, res)
	for _, r := range res.Rows {
		if r.Program.ours() && r.Program != Naive && r.Durable != 0 {
			t.Errorf("%s: %.3f of it from the store", r.Name(), r.Durable)
		}
	}
	naive, ours := find(res.Rows, key{Naive, Lines, 1, 4, 1}), find(res.Rows, key{SHM, Lines, 1, 4, 1})
	if naive == nil || ours == nil || naive.Moved <= ours.Moved {
		t.Errorf("naive moves %+v, ours %+v", naive, ours)
	}
	var table, picture bytes.Buffer
	if err := errors.Join(res.Write(&table), res.WritePNG(&picture)); err != nil {
		t.Fatal(err)
	}
	if _, err := png.DecodeConfig(&picture); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"p99[ms]", "lines", "pread of 4 KiB", "medians of 1 rounds"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

// TestRealFloorsOfPeers follows what is no product.
func TestRealFloorsOfPeers(t *testing.T) {
	c := testConfig(t)
	c.Programs, c.Workloads, c.Shards, c.Consumers = []Program{Plain, Pread}, []Workload{Beat}, []int{1}, []int{8}
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	held(t, res.Rows)
	all(t, c, res)
}

// TestRealManyShards has consumers of shards that get their records in turn.
func TestRealManyShards(t *testing.T) {
	c := testConfig(t)
	c.Programs, c.Workloads, c.Shards, c.Consumers = []Program{SHM, TCP}, []Workload{Beat}, []int{many}, []int{8}
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	held(t, res.Rows)
}

// TestRealPeers runs the peers that are on this machine.
func TestRealPeers(t *testing.T) {
	c := testConfig(t)
	c.Programs, c.Workloads, c.Consumers = []Program{RedisStreams, RedisGet, JetStream, Nginx, Memcached}, []Workload{Beat}, []int{8}
	c.Shards = []int{1}
	c.JetStream = "../../.build/bin/peer_jetstream"
	if _, err := os.Stat(c.JetStream); err != nil {
		c.JetStream = ""
	}
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	held(t, res.Rows)
	all(t, c, res)
	for _, a := range res.Absent {
		t.Logf("report: skipped: %s: %s", a.Program, a.Why)
	}
	if len(res.Absent) == len(c.Programs) {
		t.Skip("no peer is on this machine: scripts/bench-peers installs them")
	}
}

// TestRealFailure has a consumer's process fail: the row says why, and the others go
// on.
func TestRealFailure(t *testing.T) {
	c := testConfig(t)
	c.Programs, c.Workloads, c.Shards, c.Consumers = []Program{TCP, Pread}, []Workload{Beat}, []int{1}, []int{1}
	c.Node = []string{"/bin/sh", "-c", `echo '{"listen":"127.0.0.1:1"}'; cat >/dev/null`} // nobody is there
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		if failed := r.Failed != ""; failed != (r.Program == TCP) {
			t.Errorf("%s: failed %q", r.Name(), r.Failed)
		}
	}
}
