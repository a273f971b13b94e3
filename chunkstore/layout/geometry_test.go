package layout

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The offsets of a small arena, written out.
func TestOffsets(t *testing.T) {
	g := Geometry{PageSets: 2, ExtentSets: 9}
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"page identities", g.PageSet(0), 4096},
		{"page set 1", g.PageSet(1), 4096 + 512},
		{"page identity 31", g.PageIdentity(31), 4096 + 31*32},
		{"page slots", g.PageSlot(0), 8192},
		{"page slot 31", g.PageSlot(31), 8192 + 31*4096},
		{"extent identities", g.ExtentSet(0), 8192 + 32*4096},
		{"extent set 8", g.ExtentSet(8), 139264 + 8*512},
		{"extent identity 143", g.ExtentIdentity(143), 139264 + 143*32},
		{"descriptors", g.Descriptors(0), 139264 + 8192}, // 9*512 padded
		{"descriptors 143", g.Descriptors(143), 147456 + 143*128},
		{"extent slots", g.ExtentSlot(0), 147456 + 20480}, // 9*16*128 padded
		{"extent slot 143", g.ExtentSlot(143), 167936 + 143*65536},
		{"size", g.Size(), 167936 + 144*65536},
	} {
		if c.got != c.want {
			t.Errorf("%s at %d, want %d", c.name, c.got, c.want)
		}
	}
	if g.Pages() != 32 || g.Extents() != 144 {
		t.Errorf("%d pages, %d extents", g.Pages(), g.Extents())
	}
	if s := (Geometry{1, 1}).Size(); s != 1130496 {
		t.Errorf("smallest arena %d B, want 1,130,496", s)
	}
}

func TestGeometryFor(t *testing.T) {
	for _, c := range []struct {
		size uint64
		want Geometry
	}{
		{1130496, Geometry{1, 1}},
		{64 << 20, Geometry{16, 62}},
		{1 << 30, Geometry{256, 1005}},
		{1 << 40, Geometry{256, 1046006}},
		{1 << 62, Geometry{256, maxSets}},
	} {
		got, err := GeometryFor(c.size)
		if err != nil || got != c.want {
			t.Errorf("GeometryFor(%d) = %+v, %v; want %+v", c.size, got, err, c.want)
		}
	}
	for _, size := range []uint64{0, 1, 4096, 1130495} {
		if g, err := GeometryFor(size); !errors.Is(err, ErrSize) {
			t.Errorf("GeometryFor(%d) = %+v, %v", size, g, err)
		}
	}
}

func TestGeometryFills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1130496, 1<<46).Draw(t, "size")
		g, err := GeometryFor(size)
		if err != nil {
			t.Fatal(err)
		}
		more := Geometry{g.PageSets, g.ExtentSets + 1}
		if g.Size() > size || g.ExtentSets < maxSets && more.Size() <= size {
			t.Fatalf("%d bytes: %+v takes %d, one set more %d", size, g, g.Size(), more.Size())
		}
		// The same through the header, as a client does.
		b := make([]byte, HeaderSize)
		Header{Geometry: g, Epoch: 1}.Encode(b)
		if h, err := ParseHeader(b); err != nil || h.Geometry != g {
			t.Fatalf("%+v, %v", h, err)
		}
		last := g.Extents() - 1
		if end := g.ExtentSlot(last) + ExtentSize; end != g.Size() {
			t.Fatalf("last slot ends at %d of %d", end, g.Size())
		}
	})
}

func TestTwoSetsDifferAndSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{1, rapid.Uint32Range(1, maxSets).Draw(t, "sets")}
		s := g.ExtentSetsOf(Hash(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash")), rapid.Uint64Range(0, NumberMax).Draw(t, "extent"))
		if s[0] >= g.ExtentSets || s[1] >= g.ExtentSets || (s[0] == s[1]) != (g.ExtentSets == 1) {
			t.Fatalf("sets %v of %d", s, g.ExtentSets)
		}
	})

	// Consecutive extents of one shard, the common case, in 1,024 sets: each set
	// is first choice for 256 +- 6 sigma, also given the other choice.
	g := Geometry{1, 1024}
	var first, second, pair [1024]int
	h := goldenShard.Hash(1)
	for n := range uint64(256 * 1024) {
		s := g.ExtentSetsOf(h, n)
		first[s[0]]++
		second[s[1]]++
		pair[(s[0]-s[1])&1023]++
	}
	for i := range first {
		for _, n := range []int{first[i], second[i]} {
			if n < 256-96 || n > 256+96 {
				t.Errorf("set %d is a choice of %d extents, want about 256", i, n)
			}
		}
		if n := pair[i]; i > 1 && i < 1023 && (n < 256-96 || n > 256+96) {
			t.Errorf("choices %d apart: %d times, want about 256", i, n)
		}
	}
}
