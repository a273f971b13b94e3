package main

import (
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	benchread "github.com/rmatail/rmatail/bench/read"
)

// benchRead runs 'rmatail bench read' for a moment.
func benchRead(t *testing.T, args ...string) (benchread.Result, string) {
	t.Helper()
	args = append([]string{"bench", "read", "--rounds", "2", "--for", "20ms", "--shard-bytes", "1MiB", "--shards", "2", "--one-sided", "1000", "--one-sided-for", "20ms", "--json", "--log-level", "warn"}, args...)
	r := must(t, nil, args...)
	var res benchread.Result
	if err := json.Unmarshal([]byte(r.stdout), &res); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	return res, r.stderr
}

func TestRealBenchRead(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "read.png")
	res, _ := benchRead(t, "--transport", "shm,tcp", "--batches", "1,8", "--verbs-floor", "none", "--dir", shortDir(t), "--png", picture)
	if len(res.Rows) != 2*(5*3+1) || res.Command == "" || res.Environment.Revision == "" || len(res.OneSided) != 1 || res.Claims != nil {
		t.Errorf("%d rows, %q, %+v, %d one-sided, claims %v", len(res.Rows), res.Command, res.Environment, len(res.OneSided), res.Claims)
	}
	for _, row := range res.Rows {
		if row.Ours.MsgRate <= 0 || row.Floor == nil || row.Floor.MsgRate <= 0 || row.Ratio == nil {
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
	r := must(t, nil, "bench", "read", "--transport", "shm", "--reads", "raw", "--rounds", "1", "--for", "10ms", "--shard-bytes", "1MiB", "--one-sided=-1")
	for _, want := range []string{"t_typical[usec]", "MsgRate[Mpps]", "shm raw", "1 readers x 1 shards"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r := rmatail(t, nil, "bench", "read", "--transport", "shm", "--reads", "raw", "--rounds", "1", "--for", "10ms", "--shard-bytes", "1MiB", "--one-sided=-1", "--check"); r.code != exitError || !strings.Contains(r.stderr, "nothing was measured") {
		t.Errorf("claims of one round: exit code %d\n%s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"--transport", "pigeon"}, {"--reads", "chonk"}, {"--batches", "0"}, {"--rounds", "0"}, {"--for", "1ns"}, {"--shard-bytes", "1000"}} {
		if r := rmatail(t, nil, append([]string{"bench", "read"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
}

// TestRxeBenchRead measures soft-RoCE next to the C program, which it builds.
func TestRxeBenchRead(t *testing.T) {
	d := pairOfDevices(t)
	floor := filepath.Join(t.TempDir(), "verbs_floor")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", floor, "../../bench/verbs_floor/verbs_floor.c", "-libverbs", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("build of the floor: %v\n%s", err, out)
	}
	res, _ := benchRead(t, "--transport", "rdma", "--reads", "word,raw,chunk", "--batches", "8", "--in-flight", "2", "--listen", d.listen, "--device", d.device, "--verbs-floor", floor)
	if len(res.Rows) != 6 || res.Device == nil || res.Device.Device != d.device || res.Device.MTU < 1024 || len(res.OneSided) != 1 {
		t.Fatalf("%d rows, device %+v, %d one-sided", len(res.Rows), res.Device, len(res.OneSided))
	}
	for _, row := range res.Rows {
		if proves := row.Kind == benchread.Chunk; proves != (row.Floor == nil) || row.Ours.MsgRate <= 0 || row.Ours.TTypical <= 0 {
			t.Errorf("%+v", row)
		}
		if f := row.Floor; f != nil && (f.MsgRate <= 0 || f.TTypical <= 0 || f.TMin > f.TTypical || f.TMax < f.TTypical || f.ServerCPU == nil || row.Ratio == nil) {
			t.Errorf("%s: floor %+v", row.Kind, f)
		}
		if row.Ratio != nil {
			t.Logf("report: rdma %s, %s, batch %d: %.3f of the floor (%.3f to %.3f)", row.Kind, row.Mode, row.Batch, row.Ratio.Median, row.Ratio.Least, row.Ratio.Most)
		}
	}
}
