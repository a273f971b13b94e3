package reader

import (
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

func TestPlacesForgetAnotherEpoch(t *testing.T) {
	p := places{epoch: 1}
	p.add(place{extent: 5, index: 50, generation: 500, fresh: true})
	if k, ok := p.find(1, 5); !ok || k != (place{extent: 5, index: 50, generation: 500}) {
		t.Fatalf("%+v, %v: want the place, no longer fresh", k, ok)
	}
	if _, ok := p.find(1, 6); ok {
		t.Fatal("found an extent that was never added")
	}
	if _, ok := p.find(2, 5); ok {
		t.Fatal("found in the node's next life what was true in its last")
	}
	if _, ok := p.find(1, 5); ok {
		t.Fatal("an older epoch came back with its places")
	}
}

func TestPlacesKeepTheLatest(t *testing.T) {
	p := places{epoch: 1}
	for e := range uint64(placesKept + 3) {
		p.add(place{extent: e})
	}
	for e := range uint64(placesKept + 3) {
		if _, ok := p.find(1, e); ok != (e >= 3) {
			t.Errorf("extent %d of %d: found %v", e, placesKept+3, ok)
		}
	}
	if p.forget(); p.epoch != 1 {
		t.Error("forget changed the epoch")
	}
	if _, ok := p.find(1, placesKept); ok {
		t.Error("found after forget")
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
// that the node lacks ends the list.
func TestFabricLocate(t *testing.T) {
	f := newFabric(t, 4<<20, 1, faults{})
	w := newFabricWriter(t, f)
	w.append(3 * layout.ExtentSize)
	m := &scriptMemory{memory: f}
	via, err := newPath(m, FromTCP, f.arena.Epoch(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var p places
	locate := func(first, last uint64) []place {
		t.Helper()
		m.batches = 0
		at, err := p.locate(via, w.hash(), first, last, time.Now().Add(time.Second), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range at {
			if k.extent != first+uint64(i) {
				t.Fatalf("extent %d at place %d of [%d, %d]", k.extent, i, first, last)
			}
		}
		return at
	}
	if at := locate(0, 1); len(at) != 2 || !at[0].fresh || !at[1].fresh || m.batches != 1 {
		t.Fatalf("%+v in %d batches", at, m.batches)
	}
	if at := locate(0, 1); len(at) != 2 || at[0].fresh || at[1].fresh || m.batches != 0 {
		t.Fatalf("again: %+v in %d batches", at, m.batches)
	}
	if at := locate(1, 5); len(at) != 2 || at[0].fresh || !at[1].fresh || m.batches != 1 {
		t.Fatalf("past the end: %+v in %d batches", at, m.batches)
	}
	w.pos += layout.ExtentSize // the cache jumped ahead
	w.append(layout.ExtentSize)
	if at := locate(2, 4); len(at) != 1 {
		t.Fatalf("over a hole: %+v", at)
	}
	if at := locate(5, 6); len(at) != 0 {
		t.Fatalf("past the end only: %+v", at)
	}
	p.forget()
	m.refuse = errBroken
	if _, err := p.locate(via, w.hash(), 0, 0, time.Now().Add(time.Second), nil); !errors.Is(err, errBroken) {
		t.Fatalf("no batch: %v", err)
	}
}
