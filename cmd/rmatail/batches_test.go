package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// chunks is a reader that returns what it holds, one piece a Read.
type chunks [][]byte

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; len((*c)[0]) == 0 {
		*c = (*c)[1:]
	}
	return n, nil
}

func TestBatchesAreTheInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n")), 1, 40), 0, 20).Draw(t, "pieces")
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		lines := rapid.IntRange(0, 3).Draw(t, "lines")
		byLine := rapid.Bool().Draw(t, "by line")
		want := bytes.Join(pieces, nil)
		in := chunks(pieces)
		b := newBatches(context.Background(), reading(&in), cutting{limit: limit, lines: lines, byLine: byLine, addEnd: byLine})
		defer b.stop()
		var got []byte
		input, ends := 0, 0
		for one := range b.all() {
			if len(one.data) == 0 || len(one.data) > limit {
				t.Fatalf("batch of %d bytes, limit %d", len(one.data), limit)
			}
			if lines > 0 && one.lines > lines {
				t.Fatalf("batch of %d lines, limit %d", one.lines, lines)
			}
			if byLine && len(one.data) < limit && one.data[len(one.data)-1] != '\n' {
				t.Fatalf("batch %q ends inside a line", one.data)
			}
			got = append(got, one.data...)
			if rapid.Bool().Draw(t, "recycle") {
				b.recycle(one)
			}
			input += one.input
			ends += one.lines
		}
		if input != len(want) {
			t.Fatalf("%d bytes of input became %d", len(want), input)
		}
		if byLine && len(want) > 0 && want[len(want)-1] != '\n' {
			want = append(want, '\n')
		}
		if b.err() != nil || !bytes.Equal(got, want) || ends != bytes.Count(want, []byte("\n")) {
			t.Fatalf("%q became %q: %d bytes of input, %d lines, %v", want, got, input, ends, b.err())
		}
	})
}

func TestAFailingInputIsReportedAfterItsBytes(t *testing.T) {
	broken := errors.New("broken")
	b := newBatches(context.Background(), reading(io.MultiReader(bytes.NewReader([]byte("a\nb\nhalf")), iotest.ErrReader(broken))), cutting{limit: 100, byLine: true, addEnd: true})
	defer b.stop()
	var got []byte
	for one := range b.all() {
		got = append(got, one.data...)
	}
	if string(got) != "a\nb\n" || !errors.Is(b.err(), broken) {
		t.Errorf("got %q and %v; want the whole lines and the error", got, b.err())
	}
}

func TestAnInterruptedInputHandsOutWholeLines(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	b := newBatches(ctx, reading(r), cutting{limit: 100, linger: time.Millisecond, byLine: true, addEnd: true})
	defer w.Close()
	defer b.stop()
	go func() {
		w.Write([]byte("one\ntw"))
		cancel()
	}()
	var got []byte
	for one := range b.all() {
		got = append(got, one.data...)
	}
	if string(got) != "one\n" || !errors.Is(b.err(), errInterrupted) {
		t.Errorf("got %q and %v", got, b.err())
	}
}
