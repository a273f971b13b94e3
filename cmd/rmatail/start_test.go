package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/rmatail/rmatail/reader"
)

// text is a shard in memory of which [first, len) is kept; it is sealed.
type text struct {
	data  []byte
	first uint64
	pos   uint64
	step  int
}

func (s *text) Position() uint64 { return s.pos }

func (s *text) Next(context.Context) (reader.Batch, error) {
	rest := s.data[s.pos:]
	if len(rest) == 0 {
		return reader.Batch{}, io.EOF
	}
	b := reader.Batch{Position: s.pos, Data: rest[:min(s.step, len(rest))]}
	s.pos += uint64(len(b.Data))
	return b, nil
}

// Seek finds out what a From means the way a Reader does, as text has no window.
func (s *text) Seek(_ context.Context, from reader.From) error {
	for pos := uint64(0); pos <= uint64(len(s.data)); pos++ {
		if from == reader.At(pos) {
			if pos < s.first {
				return &reader.GapError{Want: pos, First: s.first, Length: uint64(len(s.data))}
			}
			s.pos = pos
			return nil
		}
	}
	panic("another From than At")
}

// naive is where the last n lines of the kept bytes begin.
func naive(data []byte, first, n uint64) uint64 {
	kept := data[first:]
	for i := len(kept) - 2; i >= 0; i-- {
		if kept[i] == '\n' {
			if n--; n == 0 {
				return first + uint64(i) + 1
			}
		}
	}
	return first
}

func TestLastLinesBeginWhereCountedByHand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		data := make([]byte, r.IntN(400_000))
		every := 1 + r.IntN(3000)
		for i := range data {
			data[i] = 'x'
			if r.IntN(every) == 0 {
				data[i] = '\n'
			}
		}
		s := &text{data: data, step: 1 + r.IntN(70_000)}
		if len(data) > 0 && r.IntN(2) == 0 {
			s.first = uint64(r.IntN(len(data)))
		}
		end := uint64(len(data))
		s.pos = max(s.first, end-min(end, firstWindow))
		n := uint64(1 + r.IntN(300))
		got, err := lineStart(context.Background(), s, end, n)
		if want := naive(data, s.first, n); err != nil || got != want {
			t.Fatalf("last %d lines of [%d, %d), a newline every %d: begin %d, %v; want %d", n, s.first, end, every, got, err, want)
		}
	}
}

func TestStarts(t *testing.T) {
	for in, want := range map[string]start{
		"earliest": {from: reader.Earliest()}, "latest": {from: reader.Latest()}, "0": {from: reader.At(0)},
		"18446744073709551615": {from: reader.At(1<<64 - 1)}, "-0": {from: reader.Latest()}, "-25": {lines: 25},
	} {
		var s start
		if err := s.UnmarshalText([]byte(in)); err != nil || s != want {
			t.Errorf("%q is %+v, %v; want %+v", in, s, err, want)
		}
	}
	for _, in := range []string{"", "-", "--1", "1.5", "end", "18446744073709551616", "-1000001"} {
		if err := new(start).UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestLineStartsForgetsAllButTheLast(t *testing.T) {
	s := lineStarts{limit: 3}
	data := bytes.Repeat([]byte("ab\n"), 1000)
	s.add(0, data, uint64(len(data)))
	if pos, ok := s.nth(); !ok || pos != uint64(len(data))-9 || len(s.ring) != 3 {
		t.Errorf("the third last line begins at %d, %v, with %d remembered; want %d", pos, ok, len(s.ring), len(data)-9)
	}
}
