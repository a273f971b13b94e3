package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"slices"
	"testing"
	"time"
)

func TestSpikesAreOneInAHundred(t *testing.T) {
	var spikes []uint64
	for n := uint64(1); n <= 10_000; n++ {
		if lasting(n) == spike {
			spikes = append(spikes, n)
		}
	}
	if len(spikes) != 100 {
		t.Errorf("%d spikes in 10,000 writes, want 100", len(spikes))
	}
	places := map[uint64]bool{}
	for _, n := range spikes {
		places[(n-1)%spikeEvery] = true
	}
	if len(places) < 40 {
		t.Errorf("spikes come at %d places of a hundred: not as if by chance", len(places))
	}
}

func TestMedianRowIsOneWholeRound(t *testing.T) {
	row := func(rate, p99 float64) Row {
		return Row{Mode: Queue, Cap: 1, Batch: 1, RecordsPerSecond: rate, E2E: Quantiles{P99: p99}}
	}
	other := Row{Mode: Direct, RecordsPerSecond: 7}
	rows := medians([][]Row{{row(3, 30), other}, {row(1, 10), other}, {row(2, 99), other}})
	if len(rows) != 2 || rows[0] != row(2, 99) || rows[1] != other {
		t.Errorf("medians: %+v", rows)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{Records: -1}, {Records: maxRecords + 1}, {RecordBytes: -1}, {RecordBytes: 5000}, {Rounds: -1}} {
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRealSinkShowsTheCollapse is the experiment with fewer records. What it
// holds does not depend on how busy the host is: all rows share the host, and the
// sink is the bottleneck by a wide margin.
func TestRealSinkShowsTheCollapse(t *testing.T) {
	const records = 8000
	res, err := Run(t.Context(), Config{Records: records, Waits: []Wait{Held}})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]Row{}
	for _, r := range res.Rows {
		rows[r.Name()] = r
		if r.Produced+r.Dropped != records || r.Written != r.Produced || r.E2E.Max < r.E2E.P99 || r.E2E.P50 <= 0 {
			t.Errorf("%s does not add up: %+v", r.Name(), r)
		}
		if lossy := r.Mode == Queue && r.Cap < records; lossy != (r.Dropped > 0) {
			t.Errorf("%s dropped %d", r.Name(), r.Dropped)
		}
		if r.Mode != Direct && r.GoroutinesMax >= 20 {
			t.Errorf("%s had %d goroutines", r.Name(), r.GoroutinesMax)
		}
	}
	direct, semaphore := rows["direct"], rows["semaphore"]
	t.Logf("report: direct had %d goroutines for %d records, p99 %.0f ms; with a semaphore %.1f ms", direct.GoroutinesMax, records, direct.E2E.P99/1e3, semaphore.E2E.P99/1e3)
	if direct.GoroutinesMax < 1000 || direct.E2E.P99 < 5*semaphore.E2E.P99 { // the race detector slows the loop down, not the sink
		t.Errorf("direct had %d goroutines and a p99 of %.1f ms, with a semaphore %.1f ms", direct.GoroutinesMax, direct.E2E.P99/1e3, semaphore.E2E.P99/1e3)
	}
	var text, picture, js bytes.Buffer
	if err := errors.Join(res.Write(&text), res.WritePNG(&picture), json.NewEncoder(&js).Encode(res)); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&picture); err != nil || img.Bounds().Dx() < 500 {
		t.Errorf("no picture: %v", err)
	}
	var keys struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(js.Bytes(), &keys); err != nil || len(keys.Rows) != len(Rows()) {
		t.Fatalf("%d rows in JSON: %v", len(keys.Rows), err)
	}
	for _, k := range []string{"mode", "cap", "batch", "wait", "produced", "dropped", "written", "records_per_s", "e2e_us", "enqueue_us", "goroutines_max", "heap_max_bytes", "stacks_max_bytes"} {
		if _, ok := keys.Rows[0][k]; !ok {
			t.Errorf("no key %s", k)
		}
	}
}

// TestRealBatchesPay holds the first result of the experiment, with 10,000 of its
// 50,000 records: the ratio does not depend on them, a row of batches of 1 takes
// seconds. Rounds alternate between the two rows, and the median is taken, as other
// work may come between.
func TestRealBatchesPay(t *testing.T) {
	rows := []Row{{Mode: Queue, Cap: 65536, Batch: 1}, {Mode: Queue, Cap: 65536, Batch: 64}}
	res, err := Run(t.Context(), Config{Records: 10_000, Waits: []Wait{Sleep}, Rows: rows, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	one, many := res.Rows[0], res.Rows[1]
	ratio := many.RecordsPerSecond / one.RecordsPerSecond
	t.Logf("report: batch 64 wrote %.0f records/s, batch 1 %.0f: %.0f times as many", many.RecordsPerSecond, one.RecordsPerSecond, ratio)
	if ratio < 30 || one.Dropped+many.Dropped > 0 {
		t.Errorf("batch 64 is %.1f times as fast as batch 1, want over 30; dropped %d and %d", ratio, one.Dropped, many.Dropped)
	}
}

func TestRealStoreRows(t *testing.T) {
	rows := []Row{{Mode: Semaphore, Batch: 1}, {Mode: Blocking, Cap: 256, Batch: 64}, {Mode: Appender}}
	res, err := Run(t.Context(), Config{Records: 400, Waits: []Wait{Store}, Rows: rows, Dir: t.TempDir(), Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		if r.Written != 400 || r.Sink.P50 <= 0 || r.GoroutinesBefore < 8 || r.GoroutinesMax >= 20 {
			t.Errorf("%+v", r)
		}
	}
	if len(res.Rounds) != 2 {
		t.Errorf("%d rounds", len(res.Rounds))
	}
}

// An interrupted experiment must not go on for minutes.
func TestRealSinkEndsWithItsContext(t *testing.T) {
	for _, row := range Rows() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		began := time.Now()
		_, err := Run(ctx, Config{Records: 50_000, Waits: []Wait{Sleep}, Rows: []Row{row}})
		cancel()
		if took := time.Since(began); took > 10*time.Second || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s ended after %s with %v", row.Name(), took, err)
		}
		if err == nil && !slices.Contains([]Mode{Queue, Blocking, Appender}, row.Mode) {
			t.Errorf("%s did not notice", row.Name())
		}
	}
}
