package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/reader"
)

// start is where tail begins, as a flag.
type start struct {
	lines uint64 // > 0: so many lines before the end
	from  reader.From
}

// maxLines bounds what -N remembers: 8 bytes a line.
const maxLines = 1_000_000

func (s *start) UnmarshalText(text []byte) error {
	t := string(text)
	switch t {
	case "earliest":
		*s = start{from: reader.Earliest()}
		return nil
	case "latest":
		*s = start{from: reader.Latest()}
		return nil
	}
	number, back := strings.CutPrefix(t, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%q, want earliest, latest, a position, or -N for the last N lines", t)
	case !back:
		*s = start{from: reader.At(n)}
	case n == 0:
		*s = start{from: reader.Latest()}
	case n > maxLines:
		return fmt.Errorf("%q: at most the last %d lines; use a position to begin further back", t, maxLines)
	default:
		*s = start{lines: n}
	}
	return nil
}

// reader returns where a Reader is opened: for lines somewhere before them.
func (s start) reader() reader.From {
	if s.lines > 0 {
		return reader.Last(firstWindow)
	}
	return s.from
}

// firstWindow is how far back lineStart looks first; then twice as far, and so
// on, so that it reads at most about twice what it has to.
const firstWindow = 64 << 10

// source is the part of a Reader that lineStart needs.
type source interface {
	Position() uint64
	Next(context.Context) (reader.Batch, error)
	Seek(context.Context, reader.From) error
}

// lineStart returns where the last n lines before end begin, or the first
// position kept if there are fewer. r stands about firstWindow before end.
func lineStart(ctx context.Context, r source, end, n uint64) (uint64, error) {
	for window := uint64(firstWindow); ; window *= 2 {
		begin := r.Position()
		found := lineStarts{limit: n}
		for r.Position() < end {
			b, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return 0, err
			}
			found.add(b.Position, b.Data, end)
		}
		if pos, ok := found.nth(); ok {
			return pos, nil
		}
		// What begin is the start of cannot be told without the byte before it.
		if err := seekBack(ctx, r, end-min(end, 2*window)); err != nil {
			return 0, err
		}
		if r.Position() >= begin { // nothing is kept before begin
			return begin, nil
		}
	}
}

// seekBack goes to pos, or to the first position kept if that is later.
func seekBack(ctx context.Context, r source, pos uint64) error {
	err := r.Seek(ctx, reader.At(pos))
	var gap *reader.GapError
	if errors.As(err, &gap) {
		return r.Seek(ctx, reader.At(gap.First))
	}
	return err
}

// lineStarts remembers the last n positions behind a newline.
type lineStarts struct {
	ring  []uint64
	limit uint64
	count uint64
}

// add looks for newlines in data at pos. One that ends at end begins no line.
func (s *lineStarts) add(pos uint64, data []byte, end uint64) {
	for i, c := range data {
		if at := pos + uint64(i) + 1; c == '\n' && at < end {
			if uint64(len(s.ring)) < s.limit {
				s.ring = append(s.ring, at)
			} else {
				s.ring[s.count%s.limit] = at
			}
			s.count++
		}
	}
}

// nth returns the oldest start remembered, if there are as many as were asked for.
func (s *lineStarts) nth() (uint64, bool) {
	if s.count < s.limit {
		return 0, false
	}
	return s.ring[s.count%s.limit], true
}
