package layout

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

var drawHash = rapid.Custom(func(t *rapid.T) Hash {
	return Hash(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
})

var drawIdentity = rapid.Custom(func(t *rapid.T) Identity {
	return Identity{
		Key:        drawHash.Draw(t, "key"),
		Number:     rapid.Uint64Range(0, NumberMax).Draw(t, "number"),
		Generation: NextGeneration(rapid.Uint32().Draw(t, "generation")),
	}
})

var drawEntry = rapid.Custom(func(t *rapid.T) Entry {
	return Entry{
		Length: rapid.Uint64().Draw(t, "length"), TailCRC: rapid.Uint32().Draw(t, "crc"),
		HeartbeatMS: rapid.Uint64Range(0, heartbeatMask).Draw(t, "heartbeat"), Flags: rapid.Uint16().Draw(t, "flags"),
		Incarnation: max(1, rapid.Uint64().Draw(t, "incarnation")),
	}
})

// flip inverts 1 to 3 distinct bits, which CRC32C always notices in so few bytes.
func flip(t *rapid.T, b []byte) {
	for _, bit := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(b)*8-1), 1, 3, rapid.ID).Draw(t, "bits") {
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func TestZeroedMemoryNeverValidates(t *testing.T) {
	zero := make([]byte, PageSize)
	if _, err := ParseHeader(zero); !errors.Is(err, ErrForeign) {
		t.Errorf("header: %v", err)
	}
	if id, ok := ParseIdentity(zero); ok {
		t.Errorf("identity %+v", id)
	}
	if _, _, ok := FindIdentity(zero[:SetSize], Hash{}, 0); ok {
		t.Error("found the zero key in an empty set")
	}
	for g := range uint32(1 << 20) { // each tag, zero included
		if ParseDescriptor(zero, 0).Of(g) {
			t.Fatalf("descriptor of generation %d", g)
		}
	}
	for i := range EntriesPerPage {
		if e := ParseEntry(zero, i*EntrySize); e.Valid(Hash{}) || e.Valid(goldenHash) {
			t.Errorf("entry %+v", e)
		}
	}
	if SeedCRC(Hash{}, 0) == 0 {
		t.Error("the seed of the zero identity is zero")
	}
}

func TestShortBytesNeverValidate(t *testing.T) {
	if _, ok := ParseIdentity(make([]byte, IdentitySize-1)); ok {
		t.Error("short identity")
	}
	if d := ParseDescriptor(make([]byte, 15), 1) | ParseDescriptor(nil, -1) | ParseDescriptor(nil, 1<<62); d != 0 {
		t.Errorf("short descriptors: %x", uint64(d))
	}
	for _, offset := range []int{1, -1, -1 << 63, 1<<63 - 1} {
		if e := ParseEntry(make([]byte, EntrySize), offset); e != (Entry{}) {
			t.Errorf("entry at %d of 32 bytes: %+v", offset, e)
		}
	}
	if _, err := ParseHeader([]byte(magic)); !errors.Is(err, ErrForeign) {
		t.Errorf("short header: %v", err)
	}
}

func TestIdentityProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, other := drawIdentity.Draw(t, "id"), drawIdentity.Draw(t, "other")
		w, o := id.Words(), other.Words()
		b := bytesOf(w[:]...)
		if back, ok := ParseIdentity(b); !ok || back != id {
			t.Fatalf("%+v, %v", back, ok)
		}
		set := make([]byte, SetSize)
		at := rapid.IntRange(0, Ways-1).Draw(t, "way")
		copy(set[at*IdentitySize:], b)
		if way, g, ok := FindIdentity(set, id.Key, id.Number); !ok || way != at || g != id.Generation {
			t.Fatalf("way %d, generation %d, %v", way, g, ok)
		}
		if _, _, ok := FindIdentity(set, id.Key, id.Number^1); ok {
			t.Fatal("found another number")
		}
		// Half of one identity and half of another, at each border; and emptied.
		for i := 1; i < 4; i++ {
			torn := bytesOf(append(append([]uint64{}, w[:i]...), o[i:]...)...)
			if back, ok := ParseIdentity(torn); ok && back != id && back != other {
				t.Fatalf("torn at word %d: %+v", i, back)
			}
		}
		if _, ok := ParseIdentity(bytesOf(w[0], w[1], w[2], 0)); ok {
			t.Fatal("an emptied way parses")
		}
		flip(t, b)
		if back, ok := ParseIdentity(b); ok {
			t.Fatalf("flipped: %+v", back)
		}
	})
}

func TestEntryProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHash.Draw(t, "hash")
		e, next := drawEntry.Draw(t, "entry").Seal(h), drawEntry.Draw(t, "next").Seal(h)
		w, n := e.Words(), next.Words()
		b := bytesOf(w[:]...)
		if back := ParseEntry(b, 0); back != e || !back.Valid(h) {
			t.Fatalf("%+v", back)
		}
		foreign := h
		foreign[rapid.IntRange(0, 15).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if e.Valid(foreign) {
			t.Fatal("valid under another hash")
		}
		// Each mix of the words of two entries, which is what an update in place
		// can show, is refused or is one of the two.
		for mask := range 16 {
			var mix [4]uint64
			for i := range mix {
				if mix[i] = w[i]; mask>>i&1 == 1 {
					mix[i] = n[i]
				}
			}
			if back := ParseEntry(bytesOf(mix[:]...), 0); back.Valid(h) && back != e && back != next {
				t.Fatalf("mix %04b of %+v and %+v", mask, e, next)
			}
		}
		flip(t, b)
		if back := ParseEntry(b, 0); back.Valid(h) {
			t.Fatalf("flipped: %+v", back)
		}
	})
}

func TestDescriptorProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crc, valid := rapid.Uint32().Draw(t, "crc"), rapid.IntRange(1, ChunkSize).Draw(t, "valid")
		g := NextGeneration(rapid.Uint32().Draw(t, "generation"))
		d := NewDescriptor(crc, valid, g)
		if d.CRC() != crc || d.Valid() != valid || !d.Of(g) || d.Of(NextGeneration(g)) {
			t.Fatalf("%x", uint64(d))
		}
		if NewDescriptor(crc, 0, g).Of(g) {
			t.Fatal("of nothing")
		}
		if d := Descriptor(rapid.Uint64().Draw(t, "any")); d.Valid() < 0 || d.Valid() > ChunkSize {
			t.Fatalf("valid length %d of %x", d.Valid(), uint64(d))
		}
	})
	if d := Descriptor(uint64(ChunkSize+1)<<32 | 1<<45); d.Of(1) {
		t.Error("a length above the chunk counts")
	}
}

func TestNextGeneration(t *testing.T) {
	for _, c := range [][2]uint32{{0, 1}, {1, 2}, {tagMask - 1, tagMask}, {tagMask, tagMask + 2}, {1<<32 - 1, 1}} {
		if got := NextGeneration(c[0]); got != c[1] {
			t.Errorf("NextGeneration(%#x) = %#x, want %#x", c[0], got, c[1])
		}
	}
}

func TestChunkCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, chunk := drawHash.Draw(t, "hash"), rapid.Uint64Range(0, 1<<52-1).Draw(t, "chunk")
		p := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "p")
		cut := rapid.IntRange(0, len(p)).Draw(t, "cut")
		crc := ExtendCRC(SeedCRC(h, chunk), p)
		if ExtendCRC(ExtendCRC(SeedCRC(h, chunk), p[:cut]), p[cut:]) != crc {
			t.Fatal("a prefix does not continue")
		}
		key := binary.LittleEndian.AppendUint64(h[:], chunk)
		if Checksum(append(key, p...)) != crc {
			t.Fatal("not the CRC of identity and bytes")
		}
		// A neighbour in the shard: at most 32 bits apart, so never equal.
		other := chunk ^ uint64(max(1, rapid.Uint32().Draw(t, "xor")))
		if ExtendCRC(SeedCRC(h, other), p) == crc {
			t.Fatalf("chunk %d has the CRC of chunk %d", other, chunk)
		}
		flip(t, p)
		if ExtendCRC(SeedCRC(h, chunk), p) == crc {
			t.Fatal("flipped bits keep the CRC")
		}
	})
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		length, chunk uint64
		valid         int
	}{{0, 0, 0}, {1, 0, 1}, {4096, 0, 4096}, {4097, 1, 1}, {65536, 15, 4096}, {1<<64 - 1, 1<<52 - 1, 4095}} {
		if chunk, valid := Tail(c.length); chunk != c.chunk || valid != c.valid {
			t.Errorf("Tail(%d) = %d, %d", c.length, chunk, valid)
		}
	}
	if Chunk(65535) != 15 || Chunk(65536) != 16 || Extent(65535) != 0 || Extent(1<<64-1) != NumberMax {
		t.Error("chunk or extent of a position")
	}
}

func TestHeaderRefusals(t *testing.T) {
	good := make([]byte, HeaderSize)
	Header{Geometry: Geometry{1, 1}, Epoch: 7}.Encode(good)
	for _, c := range []struct {
		name string
		want error
		edit func(b []byte)
	}{
		{"magic", ErrForeign, func(b []byte) { b[0] = 'X' }},
		{"version", ErrVersion, func(b []byte) { b[8] = 2 }},
		{"chunk size", ErrVersion, func(b []byte) { b[13] = 0x20 }},
		{"ways", ErrVersion, func(b []byte) { b[20] = 8 }},
		{"no page sets", ErrCorrupt, func(b []byte) { b[24] = 0 }},
		{"huge sets", ErrCorrupt, func(b []byte) { b[31] = 0xff }},
		{"no epoch", ErrCorrupt, func(b []byte) { b[32] = 0 }},
		{"size", ErrCorrupt, func(b []byte) { b[40]++ }},
	} {
		b := append([]byte{}, good...)
		c.edit(b)
		if c.want == ErrVersion || c.want == ErrCorrupt { // a right CRC: the field itself is refused
			binary.LittleEndian.PutUint32(b[4092:], Checksum(b[:4092]))
		}
		if h, err := ParseHeader(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", c.name, h, err, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte{}, good...)
		flip(t, b)
		if h, err := ParseHeader(b); err == nil {
			t.Fatalf("flipped: %+v", h)
		}
	})
}

func TestWordCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "before")
		w := rapid.Uint64().Draw(t, "w")
		crc := Checksum(p)
		if got, want := extendWord(crc, w), Checksum(binary.LittleEndian.AppendUint64(p, w)); got != want {
			t.Fatalf("word %x: %08x, want %08x", w, got, want)
		}
		if got, want := extendHalf(crc, uint32(w)), Checksum(binary.LittleEndian.AppendUint32(p, uint32(w))); got != want {
			t.Fatalf("half %x: %08x, want %08x", uint32(w), got, want)
		}
	})
}

// What a poller does for each shard, and a reader for each chunk, is free of
// allocations, with buffers that live on the stack.
func TestAllocations(t *testing.T) {
	sum := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		var set [SetSize]byte
		var page [PageSize]byte
		w := Identity{Key: goldenHash, Number: 4, Generation: 1}.Words()
		for i, v := range w {
			binary.LittleEndian.PutUint64(set[i*8:], v)
		}
		_, g, ok := FindIdentity(set[:], goldenHash, 4)
		if !ok {
			t.Fatal("not found")
		}
		e := ParseEntry(page[:], 32).Seal(goldenHash)
		if e.Valid(goldenHash) {
			t.Fatal("valid")
		}
		h := goldenShard.Hash(uint64(g))
		pages := StreamHash(goldenShard.Stream)
		sum += uint64(SeedCRC(h, 3)) + uint64(pages[0]) + uint64(ParseDescriptor(set[:], 1))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
