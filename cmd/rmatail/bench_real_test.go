package main

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/bench/service"
	benchsink "github.com/rmatail/rmatail/bench/sink"
)

func TestRealBenchSink(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "sink.png")
	r := must(t, nil, "bench", "sink", "--records", "300", "--wait", "exact", "--json", "--png", picture)
	var res benchsink.Result
	if err := json.Unmarshal([]byte(r.stdout), &res); err != nil {
		t.Fatal(err)
	}
	if len(res.Rows) != len(benchsink.Rows()) || res.Records != 300 || res.Environment.Go == "" || res.Command == "" {
		t.Errorf("result: %+v", res)
	}
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.DecodeConfig(f); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	r = must(t, nil, "bench", "sink", "--records", "50", "--real", dir, "--rounds", "2")
	if n := strings.Count(r.stdout, "store"); n != len(benchsink.Rows()) {
		t.Errorf("%d rows of the store:\n%s", n, r.stdout)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if r = rmatail(t, nil, "bench", "sink", "--records", "100", "--wait", "exact", "--check"); r.code != exitError || !strings.Contains(r.stderr, "nothing was measured") {
		t.Errorf("claims of 100 records: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"--wait", "never"}, {"--records", "0"}, {"--records", "99999999"}} {
		if r := rmatail(t, nil, append([]string{"bench", "sink"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
}

func TestRealBenchLogging(t *testing.T) {
	r := must(t, nil, "bench", "logging", "--lines", "50", "--for", "50ms", "--clients", "4", "--json")
	var res service.Result
	if err := json.Unmarshal([]byte(r.stdout), &res); err != nil {
		t.Fatal(err)
	}
	if len(res.Phases) != len(service.Phases(50)) || res.Environment.Go == "" || res.Command == "" {
		t.Errorf("result: %+v", res)
	}
	r = must(t, nil, "bench", "logging", "--node", "--for", "50ms")
	if n := strings.Count(r.stdout, "node, "); n != 2 {
		t.Errorf("%d phases of the node:\n%s", n, r.stdout)
	}
	if r := rmatail(t, nil, "bench", "logging", "--node", "--for", "50ms", "--check"); r.code != exitError || !strings.Contains(r.stderr, "nothing was measured") {
		t.Errorf("claims of one round: exit code %d\n%s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"--lines", "0"}, {"--for", "0s"}, {"--clients", "99999"}} {
		if r := rmatail(t, nil, append([]string{"bench", "logging"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
}
