package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"image/png"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/bench"
	"github.com/rmatail/rmatail/bench/panels"
)

// sample is a result with one row of each shape.
func sample() *Result {
	row := func(c cell, floor float64) Row {
		r := round(c, 2, floor)
		r.Ours.Allocs, r.Ours.ServerCPU, r.Ours.ServerCPUByMB = new(0.0), new(1.0), new(2.0)
		r.Ours.TMin, r.Ours.TMax, r.Ours.TAvg, r.Ours.TStdev, r.Ours.P10, r.Ours.P90, r.Ours.P99, r.Ours.P999 = 1, 2, 3, 4, 5, 6, 7, 8
		return r
	}
	rows := []Row{row(cell{RDMA, Raw, Latency, 1}, 1), row(cell{RDMA, Raw, Rate, 64}, 1), row(cell{SHM, Backlog, Rate, 0}, 0)}
	rounds := [][]Row{rows, rows, rows, rows, rows}
	r := &Result{Command: "rmatail bench read", Environment: bench.ThisEnvironment(), Device: &Device{Device: "rxe0", GIDType: "RoCE v2", MTU: 4096, ReadsInFlight: 16},
		Rounds: rounds, Rows: summaries(rounds), OneSided: []OneSided{{Transport: SHM, Reads: 300_000, Ratio: Spread{1, 1, 1}, BusyWakes: &Spread{}, IdleWakes: &Spread{}}}}
	r.Claims = claims(r)
	return r
}

func TestTableHasPerftestsColumns(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]", // ib_read_lat
		"BW peak[MB/sec]", "BW average[MB/sec]", "MsgRate[Mpps]", // ib_read_bw
		"allocations/read", "server CPU[usec/MB]", "rdma raw", "shm backlog", "own", "device rxe0", "MTU 4096", "holds: ", "DOES NOT HOLD: ", "revision",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if lines := strings.Count(b.String(), "rdma raw  "); lines < 2 {
		t.Errorf("a row for each mode is missing:\n%s", b.String())
	}
}

// TestKeysAreDocumented: every key of the JSON is in the package comment.
func TestKeysAreDocumented(t *testing.T) {
	b, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, k := range regexp.MustCompile(`"([a-z0-9_]+)":`).FindAllStringSubmatch(string(b), -1) {
		keys[k[1]] = true
	}
	environment, err := json.Marshal(bench.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		if !regexp.MustCompile(`\b`+k+`\b`).Match(doc) && !bytes.Contains(environment, []byte(`"`+k+`"`)) {
			t.Errorf("key %q is not in the package comment", k)
		}
	}
	for _, k := range []string{"rows", "rounds", "ours", "floor", "ratio", "t_typical_usec", "msg_rate_mpps", "allocs_per_read", "one_sided", "claims", "mtu_bytes"} {
		if !keys[k] {
			t.Errorf("no key %q", k)
		}
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil || len(back.Rows) != 3 || back.Rows[1].Kind != Raw || back.Rows[1].Ratio.Median != 2 {
		t.Errorf("not read as written: %v, %+v", err, back.Rows)
	}
}

// TestVerbsFloorSpeaksTheSameKeys: what the C program prints is read into Figures.
func TestVerbsFloorSpeaksTheSameKeys(t *testing.T) {
	source, err := os.ReadFile("../verbs_floor/verbs_floor.c")
	if err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	line.WriteByte('{')
	found := regexp.MustCompile(`\\"([a-z0-9_]+)\\":%`).FindAllStringSubmatch(string(source), -1)
	for i, k := range found {
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteString(`"` + k[1] + `":1`)
	}
	line.WriteByte('}')
	d := json.NewDecoder(strings.NewReader(line.String()))
	d.DisallowUnknownFields()
	var f Figures
	if err := d.Decode(&f); err != nil || len(found) < 10 || f.Reads != 1 || f.TTypical != 1 || f.MsgRate != 1 || f.ClientCPU != 1 {
		t.Errorf("%v: %s gives %+v", err, line.String(), f)
	}
}

func TestPicture(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&b); err != nil || img.Bounds().Dx() < 500 {
		t.Errorf("no picture: %v", err)
	}
	if err := new(Result).WritePNG(&b); !errors.Is(err, panels.ErrEmpty) {
		t.Errorf("of nothing: %v", err)
	}
}
