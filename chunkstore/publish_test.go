package chunkstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

func TestPublish(t *testing.T) {
	s := layout.Shard{Stream: "logs", Number: 300}
	const one, two = 111, 222 // incarnations
	e := func(length uint64, crc uint32, heartbeat uint64, flags uint16, incarnation uint64) layout.Entry {
		return layout.Entry{Length: length, TailCRC: crc, HeartbeatMS: heartbeat, Flags: flags, Incarnation: incarnation}
	}
	const sealed = layout.FlagSealed
	for _, c := range []struct {
		name string
		then []layout.Entry // in this order
		want layout.Entry
		err  error // of the last one
		stat func(Stats) uint64
	}{
		{"first", []layout.Entry{e(10, 1, 5, 0, one)}, e(10, 1, 5, 0, one), nil, func(s Stats) uint64 { return s.Publishes }},
		{"forward", []layout.Entry{e(10, 1, 5, 0, one), e(20, 2, 6, 0, one)}, e(20, 2, 6, 0, one), nil, nil},
		{"heartbeat", []layout.Entry{e(10, 1, 5, 0, one), e(10, 1, 9, 0, one)}, e(10, 1, 9, 0, one), nil, nil},
		{"back", []layout.Entry{e(10, 1, 5, 0, one), e(9, 7, 6, 0, one)}, e(10, 1, 6, 0, one), nil, func(s Stats) uint64 { return s.Stale }},
		{"sealed and back", []layout.Entry{e(10, 1, 5, 0, one), e(9, 7, 6, sealed, one)}, e(10, 1, 6, 0, one), nil, func(s Stats) uint64 { return s.Stale }},
		{"seal", []layout.Entry{e(10, 1, 5, 0, one), e(10, 1, 6, sealed, one)}, e(10, 1, 6, sealed, one), nil, nil},
		{"sealed stays", []layout.Entry{e(10, 1, 5, sealed, one), e(10, 1, 6, 0, one)}, e(10, 1, 6, sealed, one), nil, nil},
		{"sealed stays when late", []layout.Entry{e(10, 1, 5, sealed, one), e(9, 7, 6, 0, one)}, e(10, 1, 6, sealed, one), nil, func(s Stats) uint64 { return s.Stale }},
		{"past the seal", []layout.Entry{e(10, 1, 5, sealed, one), e(11, 1, 6, 0, one)}, e(10, 1, 5, sealed, one), ErrBadPublication, func(s Stats) uint64 { return s.Bad }},
		{"two CRCs", []layout.Entry{e(10, 1, 5, 0, one), e(10, 2, 6, 0, one)}, e(10, 2, 6, 0, one), nil, func(s Stats) uint64 { return s.Conflicts }},
		{"another incarnation", []layout.Entry{e(10, 1, 5, sealed, one), e(3, 2, 6, 0, two)}, e(3, 2, 6, 0, two), nil, func(s Stats) uint64 { return s.Replaced }},
		{"no incarnation", []layout.Entry{e(10, 1, 5, 0, one), e(20, 2, 6, 0, 0)}, e(10, 1, 5, 0, one), ErrBadPublication, func(s Stats) uint64 { return s.Bad }},
		{"heartbeat of 64 bits", []layout.Entry{e(10, 1, 1<<48|7, 0, one)}, e(10, 1, 7, 0, one), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{})
			look, _ := newConsumer(a.Bytes())
			neighbour := layout.Shard{Stream: "logs", Number: 301}
			if err := a.Publish(layout.Publication{Shard: neighbour, Entry: e(77, 7, 7, 0, 7)}); err != nil {
				t.Fatal(err)
			}
			base := a.Stats().Publishes
			for i, entry := range c.then {
				want := error(nil)
				if i == len(c.then)-1 {
					want = c.err
				}
				if err := a.Publish(layout.Publication{Shard: s, Entry: entry}); !errors.Is(err, want) {
					t.Fatalf("publish %d: %v, want %v", i, err, want)
				}
			}
			got, ok := look.entry(s, c.want.Incarnation)
			if want := c.want.Seal(s.Hash(c.want.Incarnation)); !ok || got != want {
				t.Errorf("entry %+v (valid: %v), want %+v", got, ok, want)
			}
			st := a.Stats()
			st.Publishes -= base
			if c.stat != nil && c.stat(st) != 1 {
				t.Errorf("counted %+v", st)
			}
			if got, ok := look.entry(neighbour, 7); !ok || got.Length != 77 {
				t.Errorf("neighbour %+v", got)
			}
		})
	}
	a := newArena(t, Config{})
	long := make([]byte, layout.MaxStream+1)
	for _, stream := range []string{"", string(long)} {
		if err := a.Publish(layout.Publication{Shard: layout.Shard{Stream: stream}, Entry: e(1, 1, 1, 0, one)}); !errors.Is(err, ErrBadPublication) {
			t.Errorf("stream of %d bytes: %v", len(stream), err)
		}
	}
}

// A length page that was pushed out must not validate by its old place: a
// consumer that polls it there would wait for ever.
func TestEvictedPageIsSilent(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now, PageTTL: time.Hour, EvictFrom: 0.01})
	look, _ := newConsumer(a.Bytes())
	publish := func(stream string) layout.Shard {
		s := layout.Shard{Stream: stream, Number: 1}
		if err := a.Publish(layout.Publication{Shard: s, Entry: layout.Entry{Length: 5, Incarnation: 9}}); err != nil {
			t.Fatal(err)
		}
		clk.advance(time.Second)
		return s
	}
	first := publish("a")
	p, ok := look.findPage(first)
	if !ok {
		t.Fatal("no page")
	}
	for i := range 16 {
		publish("b" + string(rune('a'+i)))
	}
	if _, ok := look.entry(first, 9); ok {
		t.Error("the oldest page is still there")
	}
	if e, ok := look.entryAt(p, first, 9); ok {
		t.Errorf("the old place validates: %+v", e)
	}
	if s := a.Stats().Pages; s.Capacity != 1 || s.Used != 16 {
		t.Errorf("%+v", s)
	}

	last := publish("z")
	p, _ = look.findPage(last)
	clk.advance(time.Hour)
	if n := a.Evict(clk.now()); n != 16 {
		t.Errorf("%d pages dropped, want 16", n)
	}
	if e, ok := look.entryAt(p, last, 9); ok {
		t.Errorf("the old place validates: %+v", e)
	}
}

// Each publish of any entry keeps the page.
func TestPageLivesByAnyEntry(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now, PageTTL: time.Hour, EvictFrom: 0.01})
	look, _ := newConsumer(a.Bytes())
	idle, busy := layout.Shard{Stream: "s", Number: 0}, layout.Shard{Stream: "s", Number: 127}
	for i := range 5 {
		for _, s := range []layout.Shard{idle, busy} {
			if s == idle && i > 0 {
				continue
			}
			if err := a.Publish(layout.Publication{Shard: s, Entry: layout.Entry{Length: 5, Incarnation: 9}}); err != nil {
				t.Fatal(err)
			}
		}
		clk.advance(45 * time.Minute)
		if n := a.Evict(clk.now()); n != 0 {
			t.Fatalf("%d pages dropped", n)
		}
	}
	if _, ok := look.entry(idle, 9); !ok {
		t.Error("the idle shard's entry is gone")
	}
}

// TestPublishedTellsOfEveryChange is told after it, with the entry's index.
func TestPublishedTellsOfEveryChange(t *testing.T) {
	type change struct {
		page  uint32
		entry int
	}
	var told []change
	var lengths []uint64
	var a *Arena
	a = newArena(t, Config{Bytes: oneSet, Published: func(page uint32, entry int) {
		told = append(told, change{page, entry})
		if entry >= 0 {
			lengths = append(lengths, layout.LoadWord(a.Bytes(), a.Geometry().PageSlot(page)+uint64(entry)*layout.EntrySize))
		}
	}})
	s := layout.Shard{Stream: "told", Number: 130}
	for _, length := range []uint64{5, 9} {
		if err := a.Publish(layout.Publication{Shard: s, Entry: layout.Entry{Length: length, Incarnation: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || told[0] != told[1] || told[0].entry != 2 || !slices.Equal(lengths, []uint64{5, 9}) {
		t.Fatalf("told of %v, with lengths %v", told, lengths)
	}
	if spare := a.Spare(); len(spare) != SpareSize || &spare[0] != &a.memory.bytes[len(a.Bytes())] || slices.ContainsFunc(spare, func(b byte) bool { return b != 0 }) {
		t.Errorf("spare of %d bytes", len(spare))
	}
}
