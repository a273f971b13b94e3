package reader

import (
	"errors"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestPlacesKeepEpochsApart: each start of each node has places of its own.
func TestPlacesKeepEpochsApart(t *testing.T) {
	var p places
	p.add(1, place{extent: 5, index: 50, generation: 500, fresh: true})
	p.add(2, place{extent: 5, index: 60, generation: 600})
	if k, ok := p.find(1, 5); !ok || k != (place{extent: 5, index: 50, generation: 500}) {
		t.Fatalf("%+v, %v: want the place, no longer fresh", k, ok)
	}
	if k, ok := p.find(2, 5); !ok || k.index != 60 {
		t.Fatalf("%+v, %v: want the other node's place", k, ok)
	}
	if _, ok := p.find(1, 6); ok {
		t.Fatal("found an extent that was never added")
	}
	if _, ok := p.find(3, 5); ok {
		t.Fatal("found in the node's next life what was true in its last")
	}
	p.add(1, place{extent: 5, index: 51})
	if k, _ := p.find(1, 5); k.index != 51 {
		t.Fatalf("%+v: want the place that was added last", k)
	}
	p.forget(1)
	if _, ok := p.find(1, 5); ok {
		t.Fatal("found after forget")
	}
	if k, ok := p.find(2, 5); !ok || k.index != 60 {
		t.Fatal("forgot another node's place")
	}
}

func TestPlacesKeepTheLatest(t *testing.T) {
	var p places
	for e := range uint64(placesKept + 3) {
		p.add(1, place{extent: e})
	}
	for e := range uint64(placesKept + 3) {
		if _, ok := p.find(1, e); ok != (e >= 3) {
			t.Errorf("extent %d of %d: found %v", e, placesKept+3, ok)
		}
	}
	p.add(2, place{extent: 7})
	p.forget(1)
	for e := range uint64(placesKept) { // a full turn after forgetting
		p.add(3, place{extent: e})
	}
	if _, ok := p.find(2, 7); ok {
		t.Error("the oldest place was not replaced")
	}
	for e := range uint64(placesKept) {
		if _, ok := p.find(3, e); !ok {
			t.Errorf("extent %d is not there", e)
		}
	}
}

// scriptMemory is a fabric whose batches a test counts or refuses.
type scriptMemory struct {
	memory
	batches int
	refuse  error
}

func (m *scriptMemory) newBatch(size int) (batch, error) {
	if m.batches++; m.refuse != nil {
		return nil, m.refuse
	}
	return m.memory.newBatch(size)
}

// TestFabricLocate: only what is not remembered is asked for; the first extent
// that the node lacks ends the flight.
func TestFabricLocate(t *testing.T) {
	b := newFlightBench(t, 3*layout.ExtentSize)
	defer func() { b.f.release() }()
	b.pos += layout.ExtentSize // the cache jumped ahead
	b.append(layout.ExtentSize)
	b.pub = published{length: b.pos, tailCRC: b.tail.crc}
	var p places
	fly := func(first, last uint64, sets int, want ...uint64) {
		t.Helper()
		o := b.order(first*layout.ExtentSize, prefixAt(b.hash(), first*layout.ExtentSize), int(last+1-first)*layout.ExtentSize)
		if err := errors.Join(b.f.start(o, &p), b.f.finish()); err != nil {
			t.Fatal(err)
		}
		if b.f.n != len(want) || b.f.extents != len(want) || b.f.located != sets {
			t.Fatalf("[%d, %d]: %d spans of %d extents, %d sets read; want %d of %d", first, last, b.f.n, b.f.extents, b.f.located, len(want), sets)
		}
		for i, e := range want {
			if b.f.spans[i].extent != e || len(b.f.spans[i].data) != layout.ExtentSize {
				t.Fatalf("[%d, %d]: %d bytes of extent %d at %d", first, last, len(b.f.spans[i].data), b.f.spans[i].extent, i)
			}
			if b.f.spans[i].fresh {
				p.add(b.via.epoch, b.f.spans[i].place)
			}
		}
		if end := (first + uint64(len(want))) * layout.ExtentSize; b.f.to != end {
			t.Fatalf("[%d, %d]: ends at %d, want %d", first, last, b.f.to, end)
		}
	}
	fly(0, 1, 2, 0, 1)
	fly(0, 1, 0, 0, 1)
	fly(1, 2, 1, 1, 2)
	fly(2, 4, 3, 2) // over a hole, which is looked for in its second set, too
	fly(3, 3, 2)
	fly(4, 4, 1, 4)
}
