package chunkstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// put makes a put of full[from:to], full being what the writer has of the chunk.
func put(h layout.Hash, chunk uint64, full []byte, from, to int) layout.Put {
	return layout.Put{
		Shard: h, Chunk: chunk, From: from, Data: full[from:to],
		CRC: layout.ExtendCRC(layout.SeedCRC(h, chunk), full[:to]),
	}
}

var testShard = layout.Shard{Stream: "logs", Number: 3}.Hash(1)

func TestPut(t *testing.T) {
	right := bytes.Repeat([]byte("right"), 820)[:4096]
	wrong := append([]byte("x"), right[1:]...)
	wrongTail := append(append([]byte{}, right[:150]...), []byte(strings.Repeat("?", 200))...)
	badCRC := put(testShard, 5, right, 0, 100)
	badCRC.CRC++
	staleCRC := put(testShard, 5, right, 50, 100)
	staleCRC.CRC++
	for _, c := range []struct {
		name   string
		before int // bytes of right that the node holds
		put    layout.Put
		err    error
		after  []byte
		stat   func(Stats) uint64 // must be 1
	}{
		{"first", 0, put(testShard, 5, right, 0, 100), nil, right[:100], func(s Stats) uint64 { return s.Puts }},
		{"whole", 0, put(testShard, 5, right, 0, 4096), nil, right, func(s Stats) uint64 { return s.Puts }},
		{"no prefix at all", 0, put(testShard, 5, right, 1, 100), ErrPrefix, nil, func(s Stats) uint64 { return s.PrefixMisses }},
		{"prefix too short", 100, put(testShard, 5, right, 101, 102), ErrPrefix, right[:100], func(s Stats) uint64 { return s.PrefixMisses }},
		{"extend", 100, put(testShard, 5, right, 100, 101), nil, right[:101], func(s Stats) uint64 { return s.Deltas }},
		{"extend to the end", 100, put(testShard, 5, right, 100, 4096), nil, right, func(s Stats) uint64 { return s.Deltas }},
		{"overlap", 100, put(testShard, 5, right, 50, 200), nil, right[:200], func(s Stats) uint64 { return s.Deltas }},
		{"again from the start, longer", 100, put(testShard, 5, right, 0, 200), nil, right[:200], func(s Stats) uint64 { return 1 }},
		{"the same again", 100, put(testShard, 5, right, 0, 100), nil, right[:100], func(s Stats) uint64 { return s.Duplicates }},
		{"a part again", 100, put(testShard, 5, right, 20, 70), nil, right[:100], func(s Stats) uint64 { return s.Duplicates }},
		{"conflict in a part", 200, put(testShard, 5, wrongTail, 140, 180), ErrPrefix, right[:200], func(s Stats) uint64 { return s.Conflicts }},
		{"conflict in the overlap", 200, put(testShard, 5, wrongTail, 140, 300), ErrPrefix, right[:200], func(s Stats) uint64 { return s.Conflicts }},
		{"same part, other prefix", 100, put(testShard, 5, wrong, 20, 70), ErrPrefix, right[:100], func(s Stats) uint64 { return s.Conflicts }},
		{"extends another prefix", 100, put(testShard, 5, wrong, 100, 200), ErrPrefix, right[:100], func(s Stats) uint64 { return s.Conflicts }},
		{"overlap, other prefix", 100, put(testShard, 5, wrong, 50, 200), ErrPrefix, right[:100], func(s Stats) uint64 { return s.Conflicts }},
		{"delta with a wrong CRC", 100, staleCRC, ErrPrefix, right[:100], func(s Stats) uint64 { return s.Conflicts }},
		{"conflict from the start", 200, put(testShard, 5, wrong, 0, 100), nil, wrong[:100], func(s Stats) uint64 { return s.Conflicts }},
		{"conflict from the start, longer", 200, put(testShard, 5, wrong, 0, 300), nil, wrong[:300], func(s Stats) uint64 { return s.Conflicts }},
		{"CRC not of its data", 0, badCRC, ErrBadPut, nil, func(s Stats) uint64 { return s.Bad }},
		{"empty", 10, layout.Put{Shard: testShard, Chunk: 5}, ErrBadPut, right[:10], func(s Stats) uint64 { return s.Bad }},
		{"past the chunk", 10, layout.Put{Shard: testShard, Chunk: 5, From: 1, Data: make([]byte, 4096)}, ErrBadPut, right[:10], func(s Stats) uint64 { return s.Bad }},
		{"from past the chunk", 10, layout.Put{Shard: testShard, Chunk: 5, From: 1 << 62, Data: make([]byte, 1)}, ErrBadPut, right[:10], func(s Stats) uint64 { return s.Bad }},
		{"negative from", 10, layout.Put{Shard: testShard, Chunk: 5, From: -1, Data: make([]byte, 1)}, ErrBadPut, right[:10], func(s Stats) uint64 { return s.Bad }},
		{"chunk past the last", 0, put(testShard, 1<<52, right, 0, 100), ErrBadPut, nil, func(s Stats) uint64 { return s.Bad }},
		{"too much data", 10, layout.Put{Shard: testShard, Chunk: 5, Data: make([]byte, 4097)}, ErrBadPut, right[:10], func(s Stats) uint64 { return s.Bad }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{Evicted: PoisonEvicted})
			look, err := newConsumer(a.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			other := put(testShard, 6, right, 0, 4096) // a neighbour in the extent
			if c.before > 0 {
				if err := errors.Join(a.Put(put(testShard, 5, right, 0, c.before)), a.Put(other)); err != nil {
					t.Fatal(err)
				}
			}
			old, _ := look.findExtent(testShard, 0)
			base := a.Stats()
			if err := a.Put(c.put); !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if got := look.chunk(testShard, c.put.Chunk); !bytes.Equal(got, c.after) {
				t.Errorf("%d bytes validate, want %d", len(got), len(c.after))
			}
			s := a.Stats()
			s.Puts -= base.Puts
			if c.stat(s) != 1 {
				t.Errorf("counted %+v", s)
			}

			renewed := c.err == nil && s.Conflicts == 1
			now, _ := look.findExtent(testShard, 0)
			if (c.before > 0 && now != old) != renewed {
				t.Errorf("place %+v, before %+v", now, old)
			}
			if got := look.chunk(testShard, 6); (c.before > 0 && !renewed) != bytes.Equal(got, right) {
				t.Errorf("%d bytes of the neighbour", len(got))
			}
			slot := a.Bytes()[a.Geometry().ExtentSlot(now.index)+6*layout.ChunkSize:][:layout.ChunkSize]
			if renewed && !bytes.Equal(slot, bytes.Repeat([]byte{0xdb}, layout.ChunkSize)) {
				t.Error("the neighbour's bytes are not poisoned")
			}
			if got := look.chunkAt(old, testShard, 5); renewed && got != nil {
				t.Errorf("%d bytes validate under the old generation", len(got))
			}
		})
	}
}

func TestLastChunk(t *testing.T) {
	a := newArena(t, Config{})
	look, _ := newConsumer(a.Bytes())
	if err := a.Put(put(testShard, 1<<52-1, []byte("end of the world"), 0, 16)); err != nil {
		t.Fatal(err)
	}
	if got := look.chunk(testShard, 1<<52-1); string(got) != "end of the world" {
		t.Errorf("%q", got)
	}
}

// A put of an extent that is past its time, but still there, continues it.
func TestPutRevives(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now})
	look, _ := newConsumer(a.Bytes())
	full := []byte("0123456789")
	if err := a.Put(put(testShard, 0, full, 0, 5)); err != nil {
		t.Fatal(err)
	}
	clk.advance(time.Hour)
	if err := a.Put(put(testShard, 0, full, 5, 10)); err != nil {
		t.Fatal(err)
	}
	if got := look.chunk(testShard, 0); !bytes.Equal(got, full) {
		t.Errorf("%q", got)
	}
	if s := a.Stats().Extents; s.Used != 1 || s.Oldest != 0 || s.Expired != 0 {
		t.Errorf("%+v", s)
	}
}

// With 16 ways the 17th extent pushes out the least recently put one; nothing of
// it validates any more, not by its old place either.
func TestCapacityEviction(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now, Evicted: PoisonEvicted})
	look, _ := newConsumer(a.Bytes())
	data := []byte("some bytes")
	for e := range uint64(16) {
		if err := a.Put(put(testShard, e*16, data, 0, 10)); err != nil {
			t.Fatal(err)
		}
		clk.advance(time.Second)
	}
	if err := a.Put(put(testShard, 1, data, 0, 10)); err != nil { // extent 0 is the latest now
		t.Fatal(err)
	}
	victim, ok := look.findExtent(testShard, 1)
	if !ok {
		t.Fatal("extent 1 is not there")
	}
	if err := a.Put(put(testShard, 16*16, data, 0, 10)); err != nil {
		t.Fatal(err)
	}
	for e := range uint64(17) {
		if _, ok := look.findExtent(testShard, e); ok != (e != 1) {
			t.Errorf("extent %d found: %v", e, ok)
		}
	}
	if got := look.chunkAt(victim, testShard, 16); got != nil {
		t.Errorf("%d bytes of the evicted extent validate", len(got))
	}
	if now, _ := look.findExtent(testShard, 16); now.index != victim.index || now.generation != layout.NextGeneration(victim.generation) {
		t.Errorf("reused as %+v, was %+v", now, victim)
	}
	slot := a.Bytes()[a.Geometry().ExtentSlot(victim.index):][:layout.ExtentSize]
	if !bytes.Equal(slot[:10], data) || !bytes.Equal(slot[10:], bytes.Repeat([]byte{0xdb}, layout.ExtentSize-10)) {
		t.Error("the rest of the slot is not poisoned")
	}
	if s := a.Stats().Extents; s.Used != 16 || s.Capacity != 1 || s.Expired != 0 {
		t.Errorf("%+v", s)
	}
}

func TestEvict(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now, TTL: time.Minute, EvictFrom: 0.5}) // what is evicted keeps its bytes
	look, _ := newConsumer(a.Bytes())
	data := []byte("some bytes")
	fill := func(from, to uint64) {
		for e := from; e < to; e++ {
			if err := a.Put(put(testShard, e*16, data, 0, 10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(0, 8)
	clk.advance(time.Hour)
	if n := a.Evict(clk.now()); n != 0 {
		t.Errorf("%d dropped at 50 %%", n)
	}
	if got := look.chunk(testShard, 0); !bytes.Equal(got, data) {
		t.Error("a key past its time is gone before its way is wanted")
	}
	fill(8, 9)
	old, _ := look.findExtent(testShard, 0)
	if n := a.Evict(clk.now()); n != 8 {
		t.Errorf("%d dropped, want 8", n)
	}
	if got := look.chunkAt(old, testShard, 0); got != nil {
		t.Errorf("%d bytes of the evicted extent validate", len(got))
	}
	for e := range uint64(9) {
		if got := look.chunk(testShard, e*16); (got != nil) != (e == 8) {
			t.Errorf("extent %d: %d bytes", e, len(got))
		}
	}
	if s := a.Stats(); s.Extents.Used != 1 || s.Extents.Expired != 8 || s.Extents.Capacity != 0 {
		t.Errorf("%+v", s.Extents)
	}
	clk.advance(-2 * time.Hour) // a clock that steps back makes nothing old
	fill(9, 17)
	if n := a.Evict(clk.now()); n != 0 {
		t.Errorf("%d dropped after the clock stepped back", n)
	}
}

func TestClosed(t *testing.T) {
	a, err := New(Config{Bytes: oneSet})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if err := a.Put(put(testShard, 0, []byte("x"), 0, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if err := a.Publish(layout.Publication{Shard: layout.Shard{Stream: "s"}, Entry: layout.Entry{Incarnation: 1}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish: %v", err)
	}
	if n := a.Evict(time.Now()); n != 0 {
		t.Errorf("Evict: %d", n)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{TTL: -1}, {PageTTL: -1}, {TTL: 367 * 24 * time.Hour}, {EvictFrom: 1.1}, {EvictFrom: -0.1},
		{HugePages: 2}, {MLock: 2}, {Evicted: 2},
	} {
		if a, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, %v", cfg, a, err)
		}
	}
	if _, err := New(Config{Bytes: oneSet - 1}); !errors.Is(err, layout.ErrSize) {
		t.Errorf("too small: %v", err)
	}
	a, b := newArena(t, Config{}), newArena(t, Config{})
	if a.Epoch() == 0 || a.Epoch() == b.Epoch() {
		t.Errorf("epochs %x and %x", a.Epoch(), b.Epoch())
	}
	if c := newArena(t, Config{Epoch: 7}); c.Epoch() != 7 {
		t.Errorf("epoch %x, want 7", c.Epoch())
	}
	h, err := layout.ParseHeader(a.Bytes())
	if err != nil || h.Epoch != a.Epoch() || h.Geometry != a.Geometry() || h.Geometry.Size() != uint64(len(a.Bytes())) {
		t.Errorf("header %+v, %v", h, err)
	}
}
