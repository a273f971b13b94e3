package fanout

import (
	"strings"
	"testing"
)

// results are five rounds in which everything claimed holds.
func results() [][]Row {
	var rounds [][]Row
	for range claimedFrom {
		var round []Row
		for _, l := range chosen() {
			r := Row{Program: l.program, Workload: l.workload, Shards: l.shards, Consumers: l.consumers, Poll: float64(l.poll.Microseconds()) / 1e3}
			r.Figures = Figures{P50: 0.5, P99: 10, Server: 1, ServerPerMB: 0.3, Share: 1, Moved: 1.01, Delivered: 100, Traffic: traffic{Requests: 110, Pages: 10, News: 100}}
			if !l.program.ours() {
				r.P50, r.P99, r.ServerPerMB = 1, 20, 1
			}
			round = append(round, r)
		}
		beyond(round)
		rounds = append(rounds, round)
	}
	return rounds
}

func judged(rounds [][]Row) (holds, fails []string) {
	res := &Result{Rounds: rounds, Rows: summaries(rounds), Settings: Settings{Seconds: 1}}
	for _, c := range claims(res) {
		if c.Holds {
			holds = append(holds, c.Text+": "+c.Measured)
		} else {
			fails = append(fails, c.Text+": "+c.Measured)
		}
	}
	return holds, fails
}

func TestClaims(t *testing.T) {
	holds, fails := judged(results())
	if len(fails) > 0 || len(holds) != 22 {
		t.Fatalf("%d hold, fail: %q", len(holds), fails)
	}
	for _, c := range []struct {
		name  string
		of    key
		spoil func(*Row)
		want  string
	}{
		{"late", key{SHM, Beat, 1, 512, 10}, func(r *Row) { r.P99 = 12.5 }, "p99 at most 12 ms"},
		{"costly", key{SHM, Beat, 1, 512, 10}, func(r *Row) { r.Server = 50 }, "no server CPU beyond"},
		{"slow", key{SHM, Beat, 1, 8, 0}, func(r *Row) { r.P50 = 1.1 }, "p50 at most 1 ms"},
		{"behind redis", key{RedisStreams, Beat, 1, 512, 0}, func(r *Row) { r.P50 = 0.4 }, "at or below the best of the peers"},
		{"behind nginx", key{Nginx, Beat, 1, 512, 10}, func(r *Row) { r.ServerPerMB = 0.1 }, "at or below the best of the peers"},
		{"not the rate", key{TCP, Saturation, 1, 64, 0}, func(r *Row) { r.Share = 0.97 }, "the full rate"},
		{"bytes", key{SHM, Lines, 1, 4, 1}, func(r *Row) { r.Moved = 1.04 }, "at most 1.03"},
		{"data reads", key{SHM, Lines, 1, 4, 50}, func(r *Row) { r.Traffic.Requests = 250 }, "at most a data READ"},
		{"page reads", key{SHM, Lines, 1, 4, 10}, func(r *Row) { r.Traffic.Pages = 300; r.Traffic.Requests = 400 }, "a page READ by poll"},
		{"failed", key{TCP, Beat, 1, 512, 0}, func(r *Row) { r.Failed = "broken" }, "failed in 3 rounds"},
	} {
		rounds := results()
		for i := range 3 { // of five: the median
			c.spoil(find(rounds[i], c.of))
			beyond(rounds[i])
		}
		_, fails := judged(rounds)
		if len(fails) == 0 || !strings.Contains(strings.Join(fails, "\n"), c.want) {
			t.Errorf("%s: %q", c.name, fails)
		}
	}
	if holds, fails := judged(results()[:claimedFrom-1]); len(holds)+len(fails) > 0 {
		t.Error("claims of four rounds")
	}
}
