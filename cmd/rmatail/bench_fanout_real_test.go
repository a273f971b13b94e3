package main

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	benchfanout "github.com/rmatail/rmatail/bench/fanout"
)

func TestRealBenchFanout(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "fanout.png")
	args := []string{"bench", "fanout", "--only", "shm", "--workload", "beat", "--shards", "1", "--consumers", "8", "--rounds", "1", "--for", "100ms", "--warm-up", "50ms", "--dir", shortDir(t)}
	r := must(t, nil, append(args, "--json", "--png", picture)...)
	var res benchfanout.Result
	if err := json.Unmarshal([]byte(r.stdout), &res); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	if len(res.Rows) != 4 || res.Command == "" || len(res.Floors) != 2 || res.Claims != nil {
		t.Errorf("%d rows, %q, floors %v, claims %v", len(res.Rows), res.Command, res.Floors, res.Claims)
	}
	for _, row := range res.Rows {
		if row.Failed != "" || row.Produced <= 0 || row.Consumers > 0 && row.Delivered <= 0 {
			t.Errorf("%+v", row)
		}
	}
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.DecodeConfig(f); err != nil {
		t.Error(err)
	}
	if r := rmatail(t, nil, append(args, "--check")...); r.code != exitError || !strings.Contains(r.stderr, "nothing was measured") {
		t.Errorf("claims of one round: exit code %d\n%s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"--only", "pigeon"}, {"--workload", "chonk"}, {"--consumers", "9999999"}, {"--rounds", "0"}, {"--for", "1ns"}, {"--consumers", "7", "--workload", "lines"}} {
		if r := rmatail(t, nil, append([]string{"bench", "fanout"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
}
