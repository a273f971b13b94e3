package fanout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// answers is a connection that has these bytes to be read, and takes all.
func answers(s string) *counted {
	return &counted{in: bufio.NewReaderSize(strings.NewReader(s), bufferBytes), out: bufio.NewWriter(new(bytes.Buffer)), meter: new(meter)}
}

// rec is the record of a number, as a string.
func rec(number uint64) string {
	b := make([]byte, lineBytes)
	putHead(b, 1, number)
	return string(b)
}

func TestRedisEntries(t *testing.T) {
	s := newSink(newTally(2), 2, lineBytes)
	last := [][]byte{[]byte("0"), []byte("0")}
	entry := func(id string, number uint64) string {
		return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n*2\r\n$1\r\nd\r\n$%d\r\n%s\r\n", len(id), id, lineBytes, rec(number))
	}
	c := answers("*2\r\n$3\r\nf.1\r\n*2\r\n" + entry("7-0", 0) + entry("7-1", 1) + "*2\r\n$3\r\nf.0\r\n*1\r\n" + entry("8-0", 0))
	for range 2 {
		if err := redisEntries(c.in, map[string]int{"f.0": 0, "f.1": 1}, last, s); err != nil {
			t.Fatal(err)
		}
	}
	if s.shards[0].number != 1 || s.shards[1].number != 2 || string(last[0]) != "8-0" || string(last[1]) != "7-1" {
		t.Errorf("%d and %d records, last %q", s.shards[0].number, s.shards[1].number, last)
	}
	for _, wrong := range []string{"-ERR no\r\n", "+OK\r\n", ":7\r\n", "*x\r\n", "\r\n"} {
		if _, err := array(answers(wrong).in); !errors.Is(err, errPeer) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if err := skip(answers("*2\r\n$3\r\nabc\r\n*1\r\n:5\r\n").in); err != nil {
		t.Error(err)
	}
}

func TestHTTPRange(t *testing.T) {
	s := newSink(newTally(1), 1, lineBytes)
	c := answers("HTTP/1.1 206 Partial Content\r\nServer: x\r\ncontent-length: 200\r\n\r\n" + rec(0) +
		"HTTP/1.1 416 Requested Range Not Satisfiable\r\nContent-Length: 5\r\n\r\nnever" +
		"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
	buffer := make([]byte, 64)
	for _, want := range []int64{200, 0} {
		if n, err := httpRange(c, 0, buffer, s); n != want || err != nil {
			t.Fatalf("%d, %v, want %d", n, err, want)
		}
	}
	if _, err := httpRange(c, 0, buffer, s); !errors.Is(err, errPeer) {
		t.Error(err)
	}
	if s.shards[0].number != 1 {
		t.Errorf("%d records", s.shards[0].number)
	}
}

func TestMemcachedValues(t *testing.T) {
	var got []string
	take := func(k, v []byte) error {
		got = append(got, string(k)+"="+string(v))
		return nil
	}
	if err := memcachedValues(answers("VALUE a 0 2\r\n12\r\nVALUE b 0 0\r\n\r\nEND\r\n"), take); err != nil || strings.Join(got, " ") != "a=12 b=" {
		t.Errorf("%v, %v", got, err)
	}
	if err := memcachedValues(answers("SERVER_ERROR out of memory\r\n"), take); !errors.Is(err, errPeer) {
		t.Error(err)
	}
}

func TestNATSMessages(t *testing.T) {
	c := answers("PING\r\nMSG f.1 2 5\r\nhello\r\nHMSG d 2 $JS.FC 12 12\r\nNATS/1.0 100\r\n+OK\r\nMSG in 1 r 0\r\n\r\n-ERR 'no'\r\n")
	var m natsMessage
	var buffer []byte
	for _, want := range []string{"f.1||0|hello", "d|$JS.FC|12|", "in|r|0|"} {
		if err := natsNext(c, &m, &buffer); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s|%s|%d|%s", m.subject, m.reply, len(m.header), m.data); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := natsNext(c, &m, &buffer); !errors.Is(err, errPeer) {
		t.Error(err)
	}
	if jetError([]byte(`{"stream":"f1","seq":1}`)) != nil || jetError([]byte(`{"error":{"code":400}}`)) == nil || jetError(nil) == nil {
		t.Error("answers of JetStream")
	}
}

// TestNobodyThere is an error of each crowd, and no panic.
func TestNobodyThere(t *testing.T) {
	for _, p := range Programs() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		c, err := newCrowd(ctx, spec{Program: p, Addr: "127.0.0.1:1", Dir: t.TempDir(), Stream: "f", Shards: 1, Consumers: 2})
		if err == nil {
			t.Errorf("%s: %v", p, c)
		}
		cancel()
	}
}

// kept is a sender that counts.
type kept struct{ records []int }

func (k *kept) send(_ context.Context, shard int, b []byte) error {
	k.records[shard] += len(b) / blockBytes
	return nil
}

func (k *kept) close() error { return nil }

// TestPace deals what is due out to shards, and never more.
func TestPace(t *testing.T) {
	c := newClock()
	to := &kept{make([]int, 3)}
	began := c.now()
	p := &pacer{clock: c, to: to, w: Saturation, numbers: make([]uint64, 3), window: window{From: began, To: began + int64(150*time.Millisecond)}}
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Duration(c.now() - began)
	sum := to.records[0] + to.records[1] + to.records[2]
	if most := int(took.Seconds()*4096) + 1; sum > most || sum < most/4 || min(to.records[0], to.records[1], to.records[2]) == 0 || p.records == 0 || p.records > int64(sum) {
		t.Errorf("%v records in %s, %d in the window", to.records, took, p.records)
	}
}

// TestPaceOfOneHeldUp: what waits because a program has not taken what came before counts
// from when it was due, at the same distances as if nothing had held it up.
func TestPaceOfOneHeldUp(t *testing.T) {
	for _, w := range []Workload{Beat, Lines, Saturation} {
		c := newClock()
		to := &reluctant{size: w.record(), holds: 100 * time.Millisecond}
		began := c.now()
		p := &pacer{clock: c, to: to, w: w, numbers: make([]uint64, 1), window: window{From: began, To: began + int64(200*time.Millisecond)}}
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		step := int64(time.Second) / int64(w.perSecond())
		for i, stamp := range to.stamps { // from the first one on: the test may have been held up before
			if off := stamp - to.stamps[0] - int64(i)*step; off < -int64(w.tick()) || off > int64(w.tick())+int64(i) {
				t.Fatalf("%s: record %d of a program that takes 100 ms is stamped %s off the schedule", w, i, time.Duration(off))
			}
		}
		if len(to.stamps) < int(0.2*float64(w.perSecond()))/2 {
			t.Errorf("%s: %d records", w, len(to.stamps))
		}
	}
}

// reluctant is a sender that takes its time, once, and keeps the records' stamps.
type reluctant struct {
	size   int
	holds  time.Duration
	stamps []int64
}

func (r *reluctant) send(ctx context.Context, _ int, b []byte) error {
	for ; len(b) > 0; b = b[r.size:] {
		r.stamps = append(r.stamps, int64(binary.LittleEndian.Uint64(b)))
	}
	d := r.holds
	r.holds = 0
	return pause(ctx, d)
}

func (r *reluctant) close() error { return nil }
