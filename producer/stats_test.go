package producer

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.99) != 0 {
		t.Error("a quantile of nothing")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(1+rng.Int64N(1<<rng.Int64N(36))) * time.Microsecond
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999} {
		want, got := all[int(q*float64(len(all)))], h.quantile(q)
		if d := got.Seconds()/want.Seconds() - 1; d < -0.07 && want-got > time.Microsecond || d > 0.07 && got-want > time.Microsecond {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if h.quantile(1) != h.max || h.max != all[len(all)-1] {
		t.Errorf("maximum %v, %v", h.quantile(1), h.max)
	}
	for _, d := range []time.Duration{-1, 0, 7 * time.Microsecond, 8 * time.Microsecond, 1 << 62} {
		if i := bucketOf(d); i < 0 || i >= histogramSize {
			t.Errorf("bucket %d of %v", i, d)
		}
	}
	for i := 1; i < histogramSize; i++ {
		if middle(i) <= middle(i-1) || bucketOf(middle(i)) != i {
			t.Errorf("bucket %d: middle %v is in %d", i, middle(i), bucketOf(middle(i)))
		}
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		a, _ := slowRig(t, takes(10*time.Millisecond), func(c *Config) { c.Registerer = reg })
		var last Ack
		for range 10 { // 10 records at once, ten times, half a second apart
			for range 10 {
				last = mustAppend(t, a, "12345")
				synctest.Wait()
			}
			if s := a.Stats(); s.QueueRecords != 9 || s.QueueBytes != 45 {
				t.Errorf("%d records, %d bytes wait behind the first", s.QueueRecords, s.QueueBytes)
			}
			time.Sleep(500 * time.Millisecond)
		}
		<-last.Done()
		s := a.Stats()
		if s.Records != 100 || s.Bytes != 500 || s.Batches != 20 || s.BatchRecordsMax != 9 || s.BatchBytesMax != 45 || s.Arrivals != 100 {
			t.Errorf("%+v", s)
		}
		if s.ArrivalsPeak != 100 || s.ArrivalsMean < 22 || s.ArrivalsMean > 23 { // 100 in 4.5 s
			t.Errorf("arrivals: peak %v, mean %v", s.ArrivalsPeak, s.ArrivalsMean)
		}
		if s.SinkMax != 10*time.Millisecond || s.SinkP99 < 9*time.Millisecond || s.AckMax != 20*time.Millisecond || s.DrainMax != 10*time.Millisecond || s.QueueRecordsMax != 9 {
			t.Errorf("sink %v, ack %v, drain %v, queue %d", s.SinkMax, s.AckMax, s.DrainMax, s.QueueRecordsMax)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal(b, &back); err != nil || back["sink_max"] != float64(10*time.Millisecond) {
			t.Errorf("%s, %v", b, err)
		}
		sum := s
		sum.Merge(&s)
		if sum.Records != 200 || sum.SinkP50 != s.SinkP50 || sum.ArrivalsPeak != 200 || sum.DrainMax != s.DrainMax {
			t.Errorf("merged: %+v", sum)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		mustClose(t, a)
	})
}

// The metrics speak for the open Appenders together.
func TestQueueGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		value := func(name string) float64 {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == name {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			t.Fatal("no metric ", name)
			return 0
		}
		var all []*Appender
		g := newGate()
		slow := func(ctx context.Context) {
			g.delay(ctx)
			time.Sleep(10 * time.Millisecond)
		}
		for range 3 {
			a, _ := slowRig(t, slow, func(c *Config) { c.Registerer = reg })
			all = append(all, a)
			for range 5 {
				mustAppend(t, a, "x")
				synctest.Wait()
			}
		}
		if got := value("rmatail_producer_queue_records"); got != 12 {
			t.Errorf("%v records wait", got)
		}
		g.open()
		for _, a := range all {
			if err := a.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
		p50, p99, drain := value("rmatail_producer_sink_p50_seconds"), value("rmatail_producer_sink_p99_seconds"), value("rmatail_producer_drain_seconds_max")
		if ratio := value("rmatail_producer_sink_p99_by_p50_ratio"); p50 < 0.009 || p50 > 0.011 || ratio != p99/p50 || drain < 0.01 {
			t.Errorf("sink: p50 %v, p99 %v, their ratio %v; drained in %v", p50, p99, ratio, drain)
		}
		if got := (&Stats{SinkP50: 2 * time.Millisecond, SinkP99: 10 * time.Millisecond}).sinkSpread(); got != 5 {
			t.Errorf("10 ms by 2 ms are %v", got)
		}
		if got := value("rmatail_producer_open"); got != 3 {
			t.Errorf("%v are open", got)
		}
		for _, a := range all {
			mustClose(t, a)
		}
		if got := value("rmatail_producer_open"); got != 0 {
			t.Errorf("%v are open after close", got)
		}
	})
}

// TestTimesAreText: what was counted between two snapshots can be told by a reader of
// the text.
func TestTimesAreText(t *testing.T) {
	var s Stats
	if s.SinkTimes() != "" || s.AckTimes() != "" {
		t.Errorf("nothing is %q, %q", s.SinkTimes(), s.AckTimes())
	}
	for range 3 {
		s.sink.add(0)
	}
	s.sink.add(120 * time.Microsecond)
	s.ack.add(2 * time.Hour)
	if got := s.SinkTimes(); got != "0.5:3 124:1" {
		t.Errorf("3 at once and one of 120 us are %q", got)
	}
	if got := s.AckTimes(); !strings.HasSuffix(got, ":1") || strings.Contains(got, " ") {
		t.Errorf("one of two hours is %q", got)
	}
}
