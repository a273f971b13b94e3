package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/advise"
)

const measured = `{"appenders":2,"producer":{"records":5000,"bytes":1000000,"arrivals":5000,"arrivals_peak":20000,"arrivals_mean":1000,
"sink_p50":300000,"sink_p99":900000,"drain_max":20000000}}`

func TestRealAdviseFromJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stat.json")
	if err := os.WriteFile(file, []byte(measured), 0o600); err != nil {
		t.Fatal(err)
	}
	r := must(t, nil, "advise", "--from-json", file, "--loss-cost", "fatal", "--json")
	var a advise.Advice
	if err := json.Unmarshal([]byte(r.stdout), &a); err != nil || a.Mode != "queue" || a.Policy != "block" || a.Batch != 64 || a.QueueRecordsEach != 256 || len(a.Answers) != 4 {
		t.Errorf("%s %v", r.stdout, err)
	}
	r = must(t, strings.NewReader(measured), "advise", "--from-json", "-", "--loss-cost", "none")
	for _, part := range []string{"20.0", "threshold 3", "use a queue of 512 records (256 in each appender), batches of up to 64; when it is full: drop-newest"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in\n%s", part, r.stdout)
		}
	}
	for code, args := range map[int][]string{
		exitUsage: {"--from-json", file, "--for", "1s"},
		exitError: {"--from-json", filepath.Join(t.TempDir(), "none")},
	} {
		if r := rmatail(t, nil, append([]string{"advise"}, args...)...); r.code != code {
			t.Errorf("%v: exit code %d, want %d\n%s", args, r.code, code, r.stderr)
		}
	}
}

// A node is watched while records arrive.
func TestRealAdviseWatchesANode(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir(), "--policy", "never")
	feedAppend(t, noise(64<<20, 21), "--server", n.addr, "logs/0", "--batch", "4KiB", "--rate", "1MiB")
	var a advise.Advice
	eventually(t, "advice from what arrives", func() bool {
		r := rmatail(t, nil, "advise", "--server", n.addr, "--for", "1s", "--loss-cost", "fatal", "--json")
		return r.code == exitDone && json.Unmarshal([]byte(r.stdout), &a) == nil
	})
	if len(a.Answers) != 4 || a.Policy != "block" || a.Mode == "" || len(a.Reasons) == 0 || a.Answers[1].Value < 1 || a.Answers[3].Value <= 0 {
		t.Errorf("%+v", a)
	}
}

// A node that has measured nothing gets no advice, but an explanation.
func TestRealAdviseWithoutFacts(t *testing.T) {
	n := startNode(t, "--dir", t.TempDir())
	r := rmatail(t, nil, "advise", "--server", n.addr, "--for", "300ms")
	if r.code != exitError || !strings.Contains(r.stderr, "no record has arrived") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
