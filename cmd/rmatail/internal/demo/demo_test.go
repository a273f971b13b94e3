package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/reader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuantilesAreNeverTooLowAndAtMostOneThirtySecondTooHigh(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var h Histogram
		all := make([]time.Duration, 1+r.IntN(500))
		for i := range all {
			all[i] = time.Duration(r.Int64N(1 << (1 + r.IntN(50))))
			h.Add(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			rank := min(max(int(q*float64(len(all))+0.5), 1), len(all))
			exact, got := all[rank-1], h.Quantile(q)
			if got < exact || float64(got) > float64(exact)*(1+1.0/32) {
				t.Fatalf("quantile %g of %d is %d, exactly %d", q, len(all), got, exact)
			}
		}
	}
}

func TestHistogramTravelsAndMerges(t *testing.T) {
	var a, b, both Histogram
	for i := range time.Duration(5000) {
		d := i * i * 977
		if both.Add(d); i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	text, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	var again Histogram
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	again.Merge(&b)
	if again != both {
		t.Error("two halves, one of them sent as JSON, are not the whole")
	}
	var empty Histogram
	if empty.Quantile(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
}

func TestSamplesAreFoundWithTheBytesTheyBelongTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	w, err := newSampler(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	r, err := openSamples(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	end, sent := uint64(0), 0
	var got []time.Duration
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		for range rng.IntN(200) {
			end += uint64(1 + rng.IntN(9000))
			sent++
			if err := w.add(end, time.Duration(sent)); err != nil {
				t.Fatal(err)
			}
		}
		// One byte less than the last append: it is not there yet.
		if err := r.until(end-1, func(at time.Duration) { got = append(got, at) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != max(sent-1, 0) {
			t.Fatalf("%d samples before the last byte, want %d", len(got), sent-1)
		}
		if err := r.until(end, func(at time.Duration) { got = append(got, at) }); err != nil {
			t.Fatal(err)
		}
		for i, at := range got {
			if at != time.Duration(i+1) {
				t.Fatalf("sample %d has time %d", i, at)
			}
		}
		if len(got) != sent {
			t.Fatalf("%d samples, want %d", len(got), sent)
		}
	}
}

func TestInputIsTheFileOverAndOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, content := range []string{"one\ntwo\n", "one\ntwo", "\n", "x", strings.Repeat("long", 40_000) + "\nshort\n"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := openInput(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := content
		if !strings.HasSuffix(lines, "\n") {
			lines += "\n"
		}
		want := strings.Repeat(lines, 3)
		var got []byte
		for len(got) < len(want) {
			line, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line...)
		}
		if string(got) != want {
			t.Errorf("%.20q three times is %.60q", content, got)
		}
		in.close()
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir(), os.DevNull} {
		if in, err := openInput(bad); err == nil {
			in.close()
			t.Errorf("input %s was taken", bad)
		}
	}
	if in, err := openInput(""); err != nil {
		t.Errorf("no input of its own: %v", err)
	} else {
		in.close()
	}
	a, b := newAccessLog(), newAccessLog()
	for range 1000 {
		if l := a.line(); !bytes.Equal(l, b.line()) || l[len(l)-1] != '\n' || bytes.Count(l, []byte("\n")) != 1 {
			t.Fatalf("generated line %q", l)
		}
	}
}

// TestConsumerSeesWrongBytes gives a consumer bytes that are not in the files.
func TestConsumerSeesWrongBytes(t *testing.T) {
	dir := t.TempDir()
	d, err := durable.Open(dir, durable.Options{Policy: durable.Never})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	log, err := d.Log("demo/0000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(context.Background(), 0, []byte("what is in the files\n")); err != nil {
		t.Fatal(err)
	}
	c := &consumer{cfg: ConsumerConfig{Shard: "demo/0000"}, store: d}
	for data, want := range map[string]uint64{"what is": 0, "what iS": 1, "WHAT is in the files\n": 4, "what is in the files\nand beyond": 10} {
		if wrong, err := c.compare(context.Background(), reader.Batch{Data: []byte(data)}); err != nil || wrong != want {
			t.Errorf("%q: %d wrong bytes, %v; want %d", data, wrong, err, want)
		}
	}
}

func TestReportIsWrongWhenItShouldBe(t *testing.T) {
	good := Report{Consumers: 2, AppendedBytes: 10, DeliveredBytes: 20}
	if w := good.Wrong(); w != "" {
		t.Errorf("a good report is wrong: %s", w)
	}
	for _, change := range []func(*Report){
		func(r *Report) { r.WrongBytes = 1 }, func(r *Report) { r.Gaps = 1 }, func(r *Report) { r.DeliveredBytes = 19 },
	} {
		bad := good
		change(&bad)
		if bad.Wrong() == "" {
			t.Errorf("%+v is not wrong", bad)
		}
	}
}

func TestReportKeys(t *testing.T) {
	text, err := json.Marshal(Report{Reads: map[string]uint64{"shm": 1, "rdma": 2, "tcp": 3, "durable": 4}})
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"transport", "consumers", "appended_bytes", "delivered_bytes", "wrong_bytes", "gaps", "delivery_ms", "reads", "read_requests", "read_bytes", "server_cpu_ms"} {
		if _, ok := keys[k]; !ok {
			t.Errorf("the report lacks %q", k)
		}
	}
	if string(keys["delivery_ms"]) != `{"p50":0,"p99":0,"max":0}` {
		t.Errorf("delivery_ms is %s", keys["delivery_ms"])
	}
}

func TestViewFitsTheTerminal(t *testing.T) {
	var out bytes.Buffer
	v := View{Out: &out, For: time.Second, Size: func() (int, int) { return 40, 6 }}
	p := Progress{Consumers: make([]Snapshot, 20), PIDs: make([]int, 20)}
	v.Show(p)
	v.Show(p)
	frames := strings.Split(out.String(), "\x1b[J")
	lines := strings.Split(strings.TrimSuffix(frames[1], "\n"), "\n")
	if len(lines) > 5 {
		t.Errorf("%d lines in 6 rows", len(lines))
	}
	for _, l := range lines {
		for _, code := range []string{"\x1b[5A", "\x1b[2K"} {
			l = strings.TrimPrefix(l, code)
		}
		if len(l) > 40 {
			t.Errorf("%d columns of 40: %q", len(l), l)
		}
	}
	if !strings.HasPrefix(frames[1], "\x1b[5A") || !strings.Contains(frames[1], "and 18 more") {
		t.Errorf("second frame %q", frames[1])
	}
}
