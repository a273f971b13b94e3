package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestReportComesBack(t *testing.T) {
	r := Report{Name: "host:42", Transport: "shm", Bytes: map[string]uint64{"shm": 1 << 40, "durable": 7}, P50: 1e-6, P99: 0.5, Shards: 240,
		Worst: []ReportShard{{"logs/0000", "consumer_slow", "5 bytes have waited", 5, 1.5}}}
	p, err := r.AppendTo([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseReport(p[1:]); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v; want %+v", back, err, r)
	}
}

// What is too much is left out, and what is left is a report.
func TestReportHasRoom(t *testing.T) {
	r := Report{Name: strings.Repeat("é", 100)}
	for i := range 100 {
		r.Worst = append(r.Worst, ReportShard{Shard: fmt.Sprintf("%s/%04d", strings.Repeat("s", 128), i), State: "fine", Why: strings.Repeat("\x01é", 5000)})
	}
	p, err := r.AppendTo(nil)
	if err != nil || len(p) > MaxReport {
		t.Fatalf("%d B, %v", len(p), err)
	}
	back, err := ParseReport(p)
	if err != nil || len(back.Worst) == 0 || len(back.Name) > MaxName || !strings.HasPrefix(r.Name, back.Name) {
		t.Errorf("%d shards, %q, %v", len(back.Worst), back.Name, err)
	}
}

func TestReportIsBounded(t *testing.T) {
	long := strings.Repeat("x", 250)
	for _, text := range []string{"", "{}", "null", `{"name":5}`, `{"name":"` + long + `"}`, `{"name":"a","transport":"` + long + `"}`, `{"name":"a","p99":-1}`, `{"name":"a","shards":-1}`,
		`{"name":"a","bytes":{"` + long + `":1}}`, `{"name":"a","bytes":{"x":-1}}`, `{"name":"a","worst":[{"shard":""}]}`, `{"name":"a","worst":[{"shard":"` + long + `"}]}`,
		`{"name":"a","worst":[{"shard":"a/0","why":"` + long + `"}]}`, `{"name":"a","worst":[` + strings.Repeat(`{"shard":"a/0"},`, 9) + `{"shard":"a/0"}]}`,
		`{"name":"a","bytes":{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1}}`, strings.Repeat(" ", MaxReport) + `{"name":"a"}`} {
		if r, err := ParseReport([]byte(text)); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%.60s: %+v, %v", text, r, err)
		}
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"name":"a","bytes":{"shm":1},"worst":[{"shard":"a/0000","state":"fine","lag":5}]}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := ParseReport(p)
		if err != nil {
			return
		}
		if p, err = r.AppendTo(nil); err != nil {
			return // texts that grow when they are escaped
		}
		if _, err := ParseReport(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	})
}
