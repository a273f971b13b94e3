package chunkstore

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"pgregory.net/rapid"
)

// model is what an arena of one set should hold, in maps. Its placing is the
// plain rule (an empty way, else the least recently modified key), which with one
// set is the whole rule.
type model struct {
	arena   *Arena
	look    *consumer
	clk     *clock
	extents map[key]*modelExtent
	pages   map[key]time.Time
	entries map[layout.Shard]layout.Entry
	evicted uint64 // extents that had to make room, or were dropped
}

type modelExtent struct {
	chunks   map[uint64][]byte
	modified time.Time
}

const (
	modelTTL     = time.Minute
	modelPageTTL = time.Hour
)

// content is what a writer has for a chunk. Variant 0 is the truth; the others
// are those of writers that disagree from a byte on.
func content(h layout.Hash, chunk uint64, variant int) []byte {
	b := make([]byte, layout.ChunkSize)
	x := uint64(h[0])<<32 + chunk*0x9e3779b97f4a7c15
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	if variant > 0 {
		b[(variant-1)*1000] ^= 0x80
	}
	return b
}

func (m *model) put(t *rapid.T, shards []layout.Hash) {
	h := rapid.SampledFrom(shards).Draw(t, "shard")
	extent := rapid.Uint64Range(0, 11).Draw(t, "extent")
	chunk := extent*16 + rapid.Uint64Range(0, 2).Draw(t, "chunk")
	// Lengths cluster, so that puts meet each other's ends.
	at := rapid.OneOf(rapid.Just(0), rapid.SampledFrom([]int{1, 7, 100, 999, 1000, 1001, 4095, 4096}), rapid.IntRange(0, 4096))
	from, to := at.Draw(t, "from"), at.Draw(t, "to")
	if from > to {
		from, to = to, from
	}
	full := content(h, chunk, rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "variant"))
	p := put(h, chunk, full, from, to)
	broken := rapid.IntRange(0, 19).Draw(t, "broken") == 0
	if broken {
		p.CRC ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
	}

	k := key{h, extent}
	e := m.extents[k]
	var have []byte
	if e != nil {
		have = e.chunks[chunk]
	}
	agree := 0
	for agree < min(to, len(have)) && have[agree] == full[agree] {
		agree++
	}
	conflict := agree < min(to, len(have)) || broken
	var want error
	switch {
	case from == to || from == 0 && broken:
		want = ErrBadPut
	case from > len(have), from > 0 && conflict:
		want = ErrPrefix
	}
	if err := m.arena.Put(p); !errors.Is(err, want) {
		t.Fatalf("put [%d, %d) on %d bytes: %v, want %v", from, to, len(have), err, want)
	}
	if want != nil {
		return
	}
	if e == nil {
		if len(m.extents) == layout.Ways {
			oldest, n := m.oldest()
			if n > 1 { // a tie: either may have gone
				for k := range m.extents {
					if _, ok := m.look.findExtent(k.hash, k.number); !ok && m.extents[k].modified.Equal(m.extents[oldest].modified) {
						oldest = k
					}
				}
			}
			delete(m.extents, oldest)
			m.evicted++
		}
		e = &modelExtent{chunks: map[uint64][]byte{}}
		m.extents[k] = e
	}
	if conflict { // from is 0: begun anew
		e.chunks = map[uint64][]byte{}
	}
	e.modified = m.clk.now()
	if to > len(e.chunks[chunk]) {
		e.chunks[chunk] = full[:to]
	}
}

func (m *model) oldest() (k key, ties int) {
	for other, e := range m.extents {
		switch {
		case ties == 0 || e.modified.Before(m.extents[k].modified):
			k, ties = other, 1
		case e.modified.Equal(m.extents[k].modified):
			ties++
		}
	}
	return k, ties
}

func (m *model) publish(t *rapid.T) {
	s := layout.Shard{
		Stream: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "stream"),
		Number: rapid.SampledFrom([]uint32{0, 1, 127, 128, 128 * 9}).Draw(t, "number"),
	}
	e := layout.Entry{
		Length: rapid.Uint64Range(0, 20).Draw(t, "length"), TailCRC: rapid.Uint32().Draw(t, "crc"),
		HeartbeatMS: rapid.Uint64Range(0, 1<<48-1).Draw(t, "heartbeat"), Flags: uint16(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "flags")),
		Incarnation: rapid.Uint64Range(1, 2).Draw(t, "incarnation"),
	}
	held := m.entries[s]
	next := e
	var want error
	if held.Incarnation == e.Incarnation {
		if next.Flags |= held.Flags; e.Length < held.Length {
			next = held
			next.HeartbeatMS = e.HeartbeatMS
		} else if held.Flags == layout.FlagSealed && e.Length > held.Length {
			want, next = ErrBadPublication, held
		}
	}
	if err := m.arena.Publish(layout.Publication{Shard: s, Entry: e}); !errors.Is(err, want) {
		t.Fatalf("publish %+v over %+v: %v, want %v", e, held, err, want)
	}
	if want == nil {
		m.entries[s] = next
		m.pages[key{layout.StreamHash(s.Stream), s.Page()}] = m.clk.now()
	}
}

func (m *model) evict() int {
	n := 0
	if float64(len(m.extents)) > 0.80*layout.Ways {
		for k, e := range m.extents {
			if m.clk.now().Sub(e.modified) >= modelTTL {
				delete(m.extents, k)
				m.evicted++
				n++
			}
		}
	}
	if float64(len(m.pages)) > 0.80*layout.Ways {
		panic("there are not that many pages")
	}
	return n
}

// check compares all that validates with the model, in both directions.
func (m *model) check(t *rapid.T, shards []layout.Hash) {
	for _, h := range shards {
		for extent := range uint64(12) {
			e, wanted := m.extents[key{h, extent}]
			p, found := m.look.findExtent(h, extent)
			if wanted != found {
				t.Fatalf("extent %d found: %v, want %v", extent, found, wanted)
			}
			for i := range uint64(16) {
				chunk := extent*16 + i
				var want []byte
				if wanted {
					want = e.chunks[chunk]
				}
				if got := m.look.chunkAt(p, h, chunk); found && !bytes.Equal(got, want) {
					t.Fatalf("chunk %d: %d bytes, want %d", chunk, len(got), len(want))
				}
			}
		}
	}
	for s, want := range m.entries {
		if got, ok := m.look.entry(s, want.Incarnation); !ok || got != want.Seal(s.Hash(want.Incarnation)) {
			t.Fatalf("entry of %v: %+v (valid: %v), want %+v", s, got, ok, want)
		}
	}
	s := m.arena.Stats()
	if s.Extents.Used != len(m.extents) || s.Extents.Expired+s.Extents.Capacity != m.evicted || s.Pages.Used != len(m.pages) {
		t.Fatalf("%+v, want %d extents, %d evicted, %d pages", s, len(m.extents), m.evicted, len(m.pages))
	}
}

// TestModel drives an arena of one set by random puts (right, overlapping, of a
// writer that disagrees, broken), publications, time and evictions, and looks at
// all of its bytes as a consumer after each.
func TestModel(t *testing.T) {
	var shards []layout.Hash
	for i := range uint32(3) {
		shards = append(shards, layout.Shard{Stream: "m", Number: i}.Hash(1))
	}
	var seen Stats
	rapid.Check(t, func(t *rapid.T) {
		clk := newClock()
		a, err := New(Config{Bytes: oneSet, TTL: modelTTL, PageTTL: modelPageTTL, Clock: clk.now, Evicted: PoisonEvicted})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		look, err := newConsumer(a.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		m := &model{
			arena: a, look: look, clk: clk,
			extents: map[key]*modelExtent{}, pages: map[key]time.Time{}, entries: map[layout.Shard]layout.Entry{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) { m.put(t, shards) },
			"puts": func(t *rapid.T) { // puts are what it is about
				for range 8 {
					m.put(t, shards)
				}
			},
			"publish": m.publish,
			"wait":    func(t *rapid.T) { clk.advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second) },
			"evict": func(t *rapid.T) {
				if got, want := a.Evict(clk.now()), m.evict(); got != want {
					t.Fatalf("%d dropped, want %d", got, want)
				}
			},
			"": func(t *rapid.T) { m.check(t, shards) },
		})
		s := a.Stats()
		seen.Extents.Capacity += s.Extents.Capacity
		seen.Extents.Expired += s.Extents.Expired
		seen.Conflicts += s.Conflicts
		seen.Duplicates += s.Duplicates
		seen.PrefixMisses += s.PrefixMisses
	})
	t.Logf("%d live and %d expired keys evicted, %d conflicts, %d duplicates, %d prefix misses",
		seen.Extents.Capacity, seen.Extents.Expired, seen.Conflicts, seen.Duplicates, seen.PrefixMisses)
	if testing.Short() { // a fifth of the runs
		return
	}
	if seen.Extents.Capacity == 0 || seen.Extents.Expired == 0 || seen.Conflicts == 0 || seen.Duplicates == 0 {
		t.Error("something never happened")
	}
}

// TestManySets puts and looks up more extents than fit into an arena with several
// sets, where keys have two places: what is found is right, what is not found has
// been counted as evicted.
func TestManySets(t *testing.T) {
	a := newArena(t, Config{Bytes: 20 << 20})
	look, _ := newConsumer(a.Bytes())
	ways := int(a.Geometry().Extents())
	written := map[string]bool{}
	for i := range 3 * ways {
		h := layout.Shard{Stream: "m", Number: uint32(i % 7)}.Hash(1)
		chunk := uint64(i/7)*16 + uint64(i%16)
		full, n := content(h, chunk, 0), 2+i%4095
		for _, cut := range [][2]int{{0, n / 2}, {n / 2, n}} { // the second finds what the first has claimed
			if err := a.Put(put(h, chunk, full, cut[0], cut[1])); err != nil {
				t.Fatal(err)
			}
		}
		written[fmt.Sprint(h, chunk)] = true
	}
	found := 0
	for i := range 3 * ways {
		h := layout.Shard{Stream: "m", Number: uint32(i % 7)}.Hash(1)
		chunk := uint64(i/7)*16 + uint64(i%16)
		if got := look.chunk(h, chunk); got != nil {
			found++
			if !bytes.Equal(got, content(h, chunk, 0)[:2+i%4095]) {
				t.Fatalf("chunk %d has other bytes", chunk)
			}
		}
	}
	s := a.Stats().Extents
	if found != s.Used || found != ways || len(written) != found+int(s.Capacity) {
		t.Errorf("%d of %d found, %+v", found, len(written), s)
	}
}
