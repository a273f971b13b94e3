package reader

import (
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// flightBench is a fabric with a shard in it, and one path to it.
type flightBench struct {
	*fabricWriter
	via *path
	pub published
	f   flight
}

func newFlightBench(t *testing.T, length int) *flightBench {
	f := newFabric(t, 4<<20, 1, faults{})
	w := newFabricWriter(t, f)
	w.append(length)
	via, err := newPath(f, FromTCP, f.arena.Epoch(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &flightBench{fabricWriter: w, via: via, pub: published{length: w.pos, tailCRC: w.tail.crc}}
}

// order is one for what follows from a position, at most limit bytes.
func (b *flightBench) order(from uint64, pre prefix, limit int) order {
	to := min(from+uint64(limit), (layout.Extent(from)+maxSpans)*layout.ExtentSize)
	return order{via: b.via, hash: b.hash(), pub: b.pub, from: from, to: cut(from, to, b.pub.length), pre: pre, timeout: time.Second}
}

// fly reads [from, length) into the bench's flight.
func (b *flightBench) fly(from uint64, pre prefix, limit int) {
	b.t.Helper()
	if err := b.f.start(b.order(from, pre, limit), &places{}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.f.finish(); err != nil {
		b.t.Fatal(err)
	}
}

// prove verifies span after span until one is not whole.
func (b *flightBench) prove(pre prefix) (end uint64, why reason) {
	b.t.Helper()
	end = b.f.from
	for ; b.f.next < b.f.n; b.f.next++ {
		s := b.f.spans[b.f.next]
		data, after, why := b.f.verify(pre)
		if i := wrongAt(data, end); i >= 0 {
			b.t.Fatalf("wrong byte at %d", end+uint64(i))
		}
		end, pre = end+uint64(len(data)), after
		if want := prefixOf(b.hash(), end); after != want && end%layout.ChunkSize != 0 && len(data) > 0 {
			b.t.Fatalf("prefix at %d: %+v, want %+v", end, after, want)
		}
		if end < s.to {
			return end, why
		}
	}
	return end, proven
}

// prefixOf is the prefix at a position of filled bytes.
func prefixOf(h layout.Hash, pos uint64) prefix {
	start := pos &^ (layout.ChunkSize - 1)
	data := make([]byte, pos-start)
	fill(data, start)
	return prefixAt(h, start).extend(h, start, data)
}

// TestPrefixExtend from and to every side of a chunk's border, whatever was known
// before; what is not known stays so until a border.
func TestPrefixExtend(t *testing.T) {
	h := layout.Shard{Stream: "prefix"}.Hash(1)
	positions := []uint64{0, 1, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 12288}
	for _, pos := range positions {
		for _, end := range positions {
			if end < pos {
				continue
			}
			data := make([]byte, end-pos)
			fill(data, pos)
			known := prefixOf(h, pos)
			if pos%layout.ChunkSize == 0 {
				known.crc = 12345 // of the chunk before, if at all
			}
			if got, want := known.extend(h, pos, data), prefixOf(h, end); got != want && end > pos {
				t.Errorf("[%d, %d): %+v, want %+v", pos, end, got, want)
			}
			unknown := prefix{}.extend(h, pos, data)
			if sees := end > pos && layout.Chunk(end)*layout.ChunkSize >= pos; unknown.known != sees || sees && unknown != prefixOf(h, end) {
				t.Errorf("[%d, %d) without what was before: %+v", pos, end, unknown)
			}
		}
	}
}

// TestFabricFlightProves every position to begin at, with and without the prefix.
func TestFabricFlightProves(t *testing.T) {
	for _, length := range []int{1, 4095, 4096, 4097, 65536, 65537, 3*65536 + 5000} {
		b := newFlightBench(t, length)
		for _, from := range []int{0, 1, 4095, 4096, 5000, 65535, 65536, 70000, length - 1} {
			if from >= length {
				continue
			}
			pos := uint64(from)
			for _, pre := range []prefix{prefixAt(b.hash(), pos), prefixOf(b.hash(), pos)} {
				b.fly(pos, pre, 1<<20)
				if end, why := b.prove(pre); end != uint64(length) || why != proven {
					t.Fatalf("from %d of %d, prefix %v: proven to %d, %v", from, length, pre.known, end, why)
				}
				b.f.release()
			}
		}
	}
}

// TestFabricFlightDisproves each single thing that can be wrong.
func TestFabricFlightDisproves(t *testing.T) {
	const length = 2*layout.ExtentSize + 5000
	const tail = length &^ (layout.ChunkSize - 1)
	descriptor := func(s *span, chunk int, change func(d layout.Descriptor) layout.Descriptor) {
		d := uint64(change(layout.ParseDescriptor(s.descs, chunk)))
		for i := range 8 {
			s.descs[8*chunk+i] = byte(d >> (8 * i))
		}
	}
	remake := func(crc uint32, valid int, generation uint32) func(layout.Descriptor) layout.Descriptor {
		return func(layout.Descriptor) layout.Descriptor { return layout.NewDescriptor(crc, valid, generation) }
	}
	for name, c := range map[string]struct {
		spoil func(b *flightBench)
		end   uint64 // of what is proven
		why   reason
	}{
		"nothing":          {func(*flightBench) {}, length, proven},
		"first byte":       {func(b *flightBench) { b.f.spans[0].data[0] ^= 1 }, 0, reasonTorn},
		"last of chunk 1":  {func(b *flightBench) { b.f.spans[0].data[8191] ^= 1 }, 4096, reasonTorn},
		"second extent":    {func(b *flightBench) { b.f.spans[1].data[0] ^= 1 }, 65536, reasonTorn},
		"tail byte":        {func(b *flightBench) { b.f.spans[2].data[4999] ^= 1 }, tail, reasonTorn},
		"tail CRC":         {func(b *flightBench) { b.f.pub.tailCRC ^= 1 }, tail, reasonTorn},
		"length":           {func(b *flightBench) { b.f.pub.length++ }, tail, reasonTorn},
		"shard":            {func(b *flightBench) { b.f.hash[0] ^= 1 }, 0, reasonTorn},
		"descriptor's CRC": {func(b *flightBench) { b.f.spans[0].descs[8] ^= 1 }, 4096, reasonTorn},
		"other generation": {func(b *flightBench) { b.f.spans[1].generation++ }, 65536, reasonMoved},
		"no descriptors":   {func(b *flightBench) { clear(b.f.spans[0].descs) }, 0, reasonHole},
		"none, remembered": {func(b *flightBench) { clear(b.f.spans[0].descs); b.f.spans[0].fresh = false }, 0, reasonMoved},
		"a shorter chunk":  {func(b *flightBench) { s := &b.f.spans[0]; descriptor(s, 2, remake(1, 4095, s.generation)) }, 8192, reasonShort},
		"a shorter chunk of the same CRC": {func(b *flightBench) {
			s := &b.f.spans[0]
			descriptor(s, 2, func(d layout.Descriptor) layout.Descriptor { return layout.NewDescriptor(d.CRC(), 9, s.generation) })
		}, 8192, reasonShort},
		"another's, the same": {func(b *flightBench) { s := &b.f.spans[0]; copy(s.data[4096:8192], s.data[:4096]) }, 4096, reasonTorn},
		"right CRC, wrong generation": {func(b *flightBench) {
			s := &b.f.spans[0]
			descriptor(s, 0, func(d layout.Descriptor) layout.Descriptor {
				return layout.NewDescriptor(d.CRC(), layout.ChunkSize, layout.NextGeneration(s.generation))
			})
		}, 0, reasonMoved},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFlightBench(t, length)
			defer func() { b.f.release() }()
			b.fly(0, prefixAt(b.hash(), 0), 1<<20)
			if b.f.n != 3 {
				t.Fatalf("%d spans", b.f.n)
			}
			c.spoil(b)
			if end, why := b.prove(prefixAt(b.hash(), 0)); end != c.end || why != c.why {
				t.Fatalf("proven to %d, %v; want %d, %v", end, why, c.end, c.why)
			}
		})
	}
}

// TestFabricFlightWrongPrefix: bytes that were delivered before are part of what
// the CRC proves.
func TestFabricFlightWrongPrefix(t *testing.T) {
	b := newFlightBench(t, 5000)
	defer func() { b.f.release() }()
	for from, want := range map[uint64]uint64{100: 100, 4500: 4500, 4096: 5000} {
		wrong := prefix{12345, true}
		b.fly(from, wrong, 1<<20)
		if end, _ := b.prove(wrong); end != want {
			t.Errorf("from %d: proven to %d, want %d", from, end, want)
		}
	}
}

// TestCut: a flight ends on a chunk's border or at the length, and brings something.
func TestCut(t *testing.T) {
	for _, c := range []struct{ from, to, length, want uint64 }{
		{0, 8192, 8192, 8192}, {0, 9000, 8192, 8192}, {0, 9000, 10000, 8192}, {0, 1, 10000, 4096}, {5000, 5001, 10000, 8192},
		{8192, 8193, 10000, 10000}, {9000, 9001, 10000, 10000}, {9000, 9999, 10000, 10000}, {4096, 8192, 10000, 8192},
	} {
		if got := cut(c.from, c.to, c.length); got != c.want {
			t.Errorf("[%d, %d) of %d ends at %d, want %d", c.from, c.to, c.length, got, c.want)
		}
	}
}

// TestFabricFlightCut: a flight that is cut short ends where a descriptor can
// prove its end, and its reads are no more than is needed.
func TestFabricFlightCut(t *testing.T) {
	b := newFlightBench(t, 9*layout.ExtentSize)
	defer func() { b.f.release() }()
	for _, c := range []struct {
		from, to uint64
		limit    int
	}{
		{0, 8192, 8192}, {0, 8192, 9000}, {100, 8192, 8192}, {5000, 8192, 1}, {4096, 8192, 100}, {0, 8 * 65536, 1 << 20}, {65535, 2 * 65536, 65537},
	} {
		pre := prefixOf(b.hash(), c.from)
		b.fly(c.from, pre, c.limit)
		if b.f.to != c.to || b.f.from != c.from || b.f.spans[0].start != c.from {
			t.Errorf("%+v: [%d, %d), read from %d", c, b.f.from, b.f.to, b.f.spans[0].start)
		}
		if end, why := b.prove(pre); end != c.to {
			t.Errorf("%+v: proven to %d, %v", c, end, why)
		}
	}
	b.fly(5000, prefix{}, 1)
	if s := b.f.spans[0]; s.start != 4096 || s.from != 5000 || len(s.data) != 4096 {
		t.Errorf("without the prefix: [%d, %d) for %d", s.start, s.to, s.from)
	}
}

// TestFabricFlightSteadyTail reads the new bytes and nothing else.
func TestFabricFlightSteadyTail(t *testing.T) {
	b := newFlightBench(t, 700)
	defer func() { b.f.release() }()
	b.fly(600, prefixOf(b.hash(), 600), 1<<20)
	if s := b.f.spans[0]; b.f.n != 1 || len(s.data) != 100 || s.descs != nil {
		t.Fatalf("%d spans, %d bytes, %d of descriptors", b.f.n, len(s.data), len(s.descs))
	}
}

// TestFabricFlightChangesPath: memory of one connection is never read into over
// another.
func TestFabricFlightChangesPath(t *testing.T) {
	b := newFlightBench(t, 700)
	defer func() { b.f.release() }()
	b.fly(0, prefixAt(b.hash(), 0), 1<<20)
	m := &scriptMemory{memory: b.fabricWriter.f}
	via, err := newPath(m, FromSHM, b.via.epoch, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	m.batches = 0
	b.via = via
	b.fly(0, prefixAt(b.hash(), 0), 1<<20)
	if m.batches != 1 || b.f.via != via { // for the place and for the data
		t.Fatalf("%d batches of the new path", m.batches)
	}
	m.refuse = errBroken
	b.fly(0, prefixAt(b.hash(), 0), 1<<20) // a batch that fits is used again
	b.via = &path{memory: m, source: FromTCP, epoch: 1, geometry: via.geometry}
	if err := b.f.start(b.order(0, prefixAt(b.hash(), 0), 1<<20), &places{}); !errors.Is(err, errBroken) {
		t.Fatalf("no batch of the other path: %v", err)
	}
	if landed, err := b.f.await(time.Time{}); !landed || !errors.Is(err, errBroken) {
		t.Fatalf("a flight that did not start: %v, %v", landed, err)
	}
}

// TestFlightsFitThePrefetch: the batches of two flights, or of the one of shared
// memory, are within what a Reader may hold.
func TestFlightsFitThePrefetch(t *testing.T) {
	for _, source := range []Source{FromSHM, FromRDMA, FromTCP} {
		for prefetch := 128 << 10; prefetch <= 16<<20; prefetch *= 2 {
			n := (&path{source: source}).flightBytes(prefetch)
			size := batchSize(n)
			if source != FromSHM {
				size *= 2
			}
			if n < layout.ChunkSize || size > prefetch {
				t.Errorf("%v, prefetch %d: flights of %d in %d bytes", source, prefetch, n, size)
			}
		}
	}
}
