package chunkstore

import (
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestMapShowsAges: empty, live and expired ways are told apart, by the clock.
func TestMapShowsAges(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newArena(t, Config{Bytes: 4 << 20, TTL: time.Minute, Clock: func() time.Time { return now }})
	m := a.Map()
	if m.TTL != 60 || m.Ways != a.Stats().Extents.Ways || len(m.Cells) != min(m.Ways, 1024) || slices.Max(m.Cells) != 0 {
		t.Fatalf("an empty arena: %d cells of %d ways, TTL %g, the oldest %d", len(m.Cells), m.Ways, m.TTL, slices.Max(m.Cells))
	}
	for i, age := range []struct {
		after time.Duration
		cell  byte
	}{{0, 1}, {30 * time.Second, 64}, {time.Minute - time.Nanosecond, 127}, {time.Minute, 128}, {90 * time.Second, 191}, {time.Hour, 255}} {
		put1(t, a, uint64(i))
		put := now
		now = now.Add(age.after)
		if got := a.Map().Cells; !slices.Contains(got, age.cell) {
			t.Errorf("a key of %v is none of %d in %v", age.after, age.cell, got)
		}
		now = put
	}
	used := 0
	for _, c := range a.Map().Cells {
		if c > 0 {
			used++
		}
	}
	if n := a.Stats().Extents.Used; used != n || n != 6 {
		t.Errorf("the map has %d extents, the arena %d, of 6 that were put", used, n)
	}
}

// put1 puts the first bytes of an extent.
func put1(t *testing.T, a *Arena, extent uint64) {
	t.Helper()
	if err := a.Put(put(testShard, extent*layout.ChunksPerExtent, make([]byte, 100), 0, 100)); err != nil {
		t.Fatal(err)
	}
}

// TestMapIsASample: of a large table, sets at even distances, and no more than 1,024 ways.
func TestMapIsASample(t *testing.T) {
	p := newPlacer(1000, time.Hour)
	for range 8000 {
		p.insert(0)
	}
	m := p.t.snapshot(0)
	used := 0
	for _, c := range m.Cells {
		if c > 0 {
			used++
		}
	}
	if len(m.Cells) != 1024 || m.Ways != 16000 {
		t.Errorf("%d cells of %d ways", len(m.Cells), m.Ways)
	}
	if share := float64(used) / 1024; share < 0.4 || share > 0.6 {
		t.Errorf("the sample of a table that is half full is %.0f %% full", 100*share)
	}
}
