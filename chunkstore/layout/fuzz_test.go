package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// The input is what a header begins with; the rest is zero, as in a real one. Each
// is tried as it is and with a right CRC, else nothing would pass that check.
func FuzzParseHeader(f *testing.F) {
	b := make([]byte, HeaderSize)
	Header{Geometry: Geometry{2, 3}, Epoch: 9}.Encode(b)
	f.Add(b[:48])
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, head []byte) {
		checkHeader(t, head)
		b := make([]byte, HeaderSize)
		copy(b, head)
		checkHeader(t, b)
		binary.LittleEndian.PutUint32(b[4092:], Checksum(b[:4092]))
		checkHeader(t, b)
	})
}

func checkHeader(t *testing.T, b []byte) {
	h, err := ParseHeader(b)
	if err != nil {
		if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("untyped error %v", err)
		}
		return
	}
	g := h.Geometry
	if h.Epoch == 0 || g.Size() > 1<<45 || g.ExtentSlot(g.Extents()-1)+ExtentSize != g.Size() {
		t.Fatalf("accepted %+v", h)
	}
}

func FuzzParseShard(f *testing.F) {
	for _, s := range []string{"logs/0000", "a/4294967295", "a/4294967296", "../1", "a//1", "\xff/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseShard(in)
		if err != nil {
			if !errors.Is(err, ErrName) {
				t.Fatalf("untyped error %v", err)
			}
			if len(err.Error()) > 2000 {
				t.Fatalf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if back, err := ParseShard(s.String()); err != nil || back != s {
			t.Fatalf("%q is %+v, whose name %q is %+v, %v", in, s, s, back, err)
		}
		if s.EntryOffset()+EntrySize > PageSize {
			t.Fatalf("entry of %+v outside of its page", s)
		}
	})
}

func FuzzFindIdentity(f *testing.F) {
	id := Identity{Key: goldenHash, Number: 3, Generation: 1}
	w := id.Words()
	f.Add(bytes.Repeat(bytesOf(w[:]...), Ways), goldenHash[:], uint64(3))
	f.Add(make([]byte, SetSize), make([]byte, 16), uint64(0))
	f.Add([]byte("short"), []byte("short"), uint64(1<<63))
	f.Fuzz(func(t *testing.T, set, key []byte, number uint64) {
		var h Hash
		copy(h[:], key)
		way, g, ok := FindIdentity(set, h, number)
		if !ok {
			return
		}
		// What it finds is exactly what Words writes.
		id := Identity{Key: h, Number: number, Generation: g}
		w := id.Words()
		if number > NumberMax || g&tagMask == 0 || !bytes.Equal(set[way*IdentitySize:][:IdentitySize], bytesOf(w[:]...)) {
			t.Fatalf("way %d taken for %+v", way, id)
		}
	})
}

func FuzzEntry(f *testing.F) {
	e := Entry{Length: 9, TailCRC: 1, HeartbeatMS: 2, Flags: FlagSealed, Incarnation: 3}.Seal(goldenHash)
	w := e.Words()
	f.Add(bytesOf(w[:]...), 0)
	f.Add(make([]byte, 64), 8)
	f.Add([]byte{}, -1)
	f.Fuzz(func(t *testing.T, page []byte, offset int) {
		e := ParseEntry(page, offset)
		if e == (Entry{}) {
			return
		}
		w := e.Words()
		if !bytes.Equal(page[offset:offset+EntrySize], bytesOf(w[:]...)) {
			t.Fatalf("%+v does not write what it was read from", e)
		}
		if e.Valid(goldenHash) && e.Seal(goldenHash) != e {
			t.Fatalf("valid, but sealed otherwise: %+v", e)
		}
		if e.Valid(goldenHash) && e.Valid(Hash{}) {
			t.Fatalf("valid under two hashes: %+v", e)
		}
	})
}
