package advise

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func loss(t *testing.T, text string) (l Loss) {
	t.Helper()
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDecide(t *testing.T) {
	us, ms := time.Microsecond, time.Millisecond
	facts := func(peak, mean float64, p50, p99, drain time.Duration) Facts {
		return Facts{Arrivals: 1000, ArrivalsPeak: peak, ArrivalsMean: mean, SinkP50: p50, SinkP99: p99, DrainMax: drain, Records: 1000, Bytes: 200_000, Shards: 1}
	}
	for _, c := range []struct {
		name   string
		f      Facts
		w      Wishes
		mode   string
		queue  int // in each appender
		batch  int
		policy string
		say    string // a part of a reason or a warning
	}{
		{"even and slow arrivals", facts(300, 200, 300*us, 900*us, 0), Wishes{Loss: loss(t, "fatal")}, "direct", 0, 0, "block", "a queue would only add waiting"},
		{"both at their thresholds", facts(300, 100, 300*us, 1500*us, 0), Wishes{Loss: loss(t, "annoying")}, "direct", 0, 0, "block", "semaphore"},
		{"bursty arrivals", facts(310, 100, 300*us, 900*us, 0), Wishes{Loss: loss(t, "annoying")}, "queue", 128, 64, "block", "3.1, above 3"},
		{"uneven sink", facts(200, 100, 300*us, 1600*us, 0), Wishes{Loss: loss(t, "annoying")}, "queue", 128, 64, "block", "5.3, above 5"},
		// Experiment A: 50,000 records offered at once to 4 connections.
		{"the experiment", facts(500_000, 500_000, 200*us, 5*ms, 0), Wishes{Loss: loss(t, "fatal"), Connections: 4}, "queue", 4096, 64, "block", "only batches help"},
		{"the experiment, after a run", facts(500_000, 500_000, 200*us, 5*ms, 100*ms), Wishes{Loss: loss(t, "fatal"), Connections: 4}, "queue", 65536, 64, "block", "Ack says so"},
		{"the same, 10 ms at most", facts(500_000, 500_000, 200*us, 5*ms, 100*ms), Wishes{Loss: loss(t, "fatal"), Connections: 4, Latency: 10 * ms}, "queue", 8192, 64, "block", "longer than the 10ms allowed"},
		{"more than the disk can take", facts(40e6, 30e6, 300*us, 900*us, time.Second), Wishes{Loss: loss(t, "annoying")}, "queue", 1 << 20, 4096, "block", "no queue is long enough"},
		{"nobody misses a record", facts(310, 100, 300*us, 900*us, 0), Wishes{Loss: loss(t, "none")}, "queue", 128, 64, "drop-newest", "dropped and counted"},
		{"a record is worth 1 ms", facts(310, 100, 300*us, 900*us, 0), Wishes{Loss: loss(t, "0.001")}, "queue", 128, 64, "drop-newest", "0.001 s of waiting"},
		{"and at a higher peak that is more than a second", facts(3100, 1000, 300*us, 900*us, 0), Wishes{Loss: loss(t, "0.001")}, "queue", 128, 64, "block", "wait for room"},
	} {
		a := Decide(c.f, c.w)
		said := strings.Join(append(a.Reasons, a.Warnings...), "\n")
		if a.Mode != c.mode || a.QueueRecordsEach != c.queue || a.Batch != c.batch || a.Policy != c.policy || !strings.Contains(said, c.say) {
			t.Errorf("%s: %s, queue %d, batch %d, %s; want %s, %d, %d, %s and %q in\n%s", c.name, a.Mode, a.QueueRecordsEach, a.Batch, a.Policy, c.mode, c.queue, c.batch, c.policy, c.say, said)
		}
		if len(a.Answers) != 4 || (a.Mode == "direct") != (a.Semaphore > 0) {
			t.Errorf("%s: %+v", c.name, a)
		}
		var text bytes.Buffer
		if err := a.Write(&text); err != nil || !strings.Contains(text.String(), a.Policy) {
			t.Errorf("%s: %v\n%s", c.name, err, text.String())
		}
	}
}

func TestFewWritesAreSaid(t *testing.T) {
	f := Facts{Arrivals: 9, ArrivalsPeak: 2, ArrivalsMean: 1, SinkP50: 1000, SinkP99: 2000, Batches: 9}
	if a := Decide(f, Wishes{}); len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "only 9 writes") {
		t.Errorf("warnings: %q", a.Warnings)
	}
}

// Whatever was measured, the advice is one that can be followed.
func TestAdviceIsWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(0.1, 1e8).Draw(t, "mean")
		f := Facts{
			Arrivals: 1, Records: rapid.Uint64Range(0, 1e9).Draw(t, "records"), Bytes: rapid.Uint64Range(0, 1e15).Draw(t, "bytes"),
			ArrivalsMean: mean, ArrivalsPeak: mean * rapid.Float64Range(1, 1e4).Draw(t, "burst"),
			SinkP50:  time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "p50")),
			DrainMax: time.Duration(rapid.Int64Range(0, 1e13).Draw(t, "drain")), Shards: rapid.IntRange(0, 1000).Draw(t, "shards"),
		}
		f.SinkP99 = f.SinkP50 * time.Duration(rapid.Int64Range(1, 100).Draw(t, "tail"))
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		a := Decide(f, Wishes{Connections: rapid.IntRange(0, 64).Draw(t, "connections")})
		switch {
		case a.Mode == "direct" && a.Semaphore >= 1:
		case a.Mode == "queue" && a.Batch >= 1 && a.Batch <= mostBatch && a.QueueRecordsEach >= 1 && a.QueueRecords >= a.QueueRecordsEach:
		default:
			t.Fatalf("%+v", a)
		}
		if len(a.Reasons) == 0 {
			t.Fatal("no reason")
		}
	})
}

func TestParse(t *testing.T) {
	producer := `{"seconds":3,"records":10,"bytes":2000,"arrivals":12,"arrivals_peak":50,"arrivals_mean":4.5,"sink_p50":300000,"sink_p99":900000,"drain_max":7,"queue_records_max":3,"blocked":1}`
	want := Facts{Records: 10, Bytes: 2000, Arrivals: 12, ArrivalsPeak: 50, ArrivalsMean: 4.5, SinkP50: 300 * time.Microsecond, SinkP99: 900 * time.Microsecond, DrainMax: 7, QueueMax: 3, Blocked: 1, Shards: 1}
	if f, err := Parse([]byte(producer)); err != nil || f != want {
		t.Errorf("%+v, %v", f, err)
	}
	want.Shards = 3
	f, err := Parse([]byte(`{"epoch":1,"appenders":3,"producer":` + producer + `}`))
	if err != nil || f != want {
		t.Errorf("%+v, %v", f, err)
	}
	for _, text := range []string{"", "[]", `{"producer":1}`, `{"arrivals":"x"}`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is parsed", text)
		}
	}
	for _, text := range []string{`{}`, `{"arrivals":1}`, `{"arrivals":9,"arrivals_peak":1,"arrivals_mean":1}`} {
		f, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(); !errors.Is(err, ErrFacts) {
			t.Errorf("%s suffices: %v", text, err)
		}
	}
}

func TestWindow(t *testing.T) {
	f := Facts{Arrivals: 1_000_000, ArrivalsPeak: 1e6, ArrivalsMean: 1}.Window([]uint64{100, 100, 150, 160, 160}, 100*time.Millisecond)
	if f.Arrivals != 60 || f.ArrivalsPeak != 500 || f.ArrivalsMean != 150 {
		t.Errorf("%+v", f)
	}
	if f := (Facts{ArrivalsPeak: 5}).Window([]uint64{1}, time.Second); f.ArrivalsPeak != 5 {
		t.Errorf("one sample makes a window: %+v", f)
	}
}

func TestLoss(t *testing.T) {
	for _, text := range []string{"none", "annoying", "fatal"} {
		if got := loss(t, text).String(); got != text {
			t.Errorf("%s is printed as %s", text, got)
		}
	}
	for _, text := range []string{"", "-1", "NaN", "Inf", "much"} {
		var l Loss
		if err := l.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a cost: %v", text, l)
		}
	}
}
