package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rmatail/rmatail/reader"
)

// TestRecordsHoldTheirBytes puts JSON records together again, however the bytes
// came in.
func TestRecordsHoldTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.SampledFrom([]byte{'a', 'b', '\n', '"', 0xc3, 0xa9, 0xff, 0})).Draw(t, "data")
		first := rapid.Uint64Range(0, 1<<40).Draw(t, "position")
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		r := newRecords("s/0000", first, 0, w, true)
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := r.add(rest[:n], reader.FromSHM); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		var again []byte
		for dec := json.NewDecoder(&out); dec.More(); {
			var rec record
			if err := dec.Decode(&rec); err != nil {
				t.Fatal(err)
			}
			if rec.Position != first+uint64(len(again)) || rec.Shard != "s/0000" || rec.Source != "shm" {
				t.Fatalf("record %+v after %d bytes from %d", rec, len(again), first)
			}
			line := rec.Base64
			if rec.Data != nil {
				line = []byte(*rec.Data)
			} else if utf8.Valid(line) {
				t.Fatalf("%q is UTF-8 and yet in base64", line)
			}
			if again = append(again, line...); !rec.Partial {
				again = append(again, '\n')
			}
		}
		if !bytes.Equal(again, data) {
			t.Fatalf("%q became %q", data, again)
		}
	})
}

func TestRecordsGolden(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	r := newRecords("logs/0003", 4090, 0, w, true)
	for _, piece := range []string{"GET <a>\n\n", "caf\xe9\nhalf", " a line"} {
		if _, err := r.add([]byte(piece), reader.FromDurable); err != nil {
			t.Fatal(err)
		}
	}
	if r.position() != 4104 {
		t.Errorf("whole records end at %d, want 4104", r.position())
	}
	r.end()
	w.Flush()
	want := `{"shard":"logs/0003","position":4090,"source":"durable","data":"GET <a>"}
{"shard":"logs/0003","position":4098,"source":"durable","data":""}
{"shard":"logs/0003","position":4099,"source":"durable","base64":"Y2Fm6Q=="}
{"shard":"logs/0003","position":4104,"source":"durable","data":"half a line","partial":true}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestALineWithoutEndComesInPieces(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	r := newRecords("s/0000", 0, 0, w, true)
	long := strings.Repeat("x", 5*maxLine/2)
	if _, err := r.add([]byte(long+"\n"), reader.FromTCP); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	var lengths []int
	for dec := json.NewDecoder(&out); dec.More(); {
		var rec record
		if err := dec.Decode(&rec); err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, len(*rec.Data))
		if last := len(lengths) == 3; rec.Partial == last {
			t.Errorf("piece %d: partial is %v", len(lengths), rec.Partial)
		}
	}
	if len(lengths) != 3 || lengths[0] != maxLine || lengths[2] != maxLine/2 {
		t.Errorf("pieces of %v", lengths)
	}
}

func TestLimitCountsLines(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	r := newRecords("s/0000", 0, 2, w, false)
	full, err := r.add([]byte("a\nb"), reader.FromTCP)
	if full || err != nil {
		t.Fatal(full, err)
	}
	if full, err = r.add([]byte("c\nd\n"), reader.FromTCP); !full || err != nil {
		t.Fatal(full, err)
	}
	w.Flush()
	if out.String() != "a\nbc\n" {
		t.Errorf("two lines are %q", out.String())
	}
}
