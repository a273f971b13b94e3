package chunkstore

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// mapSets bounds the sets that Map looks at.
const mapSets = 64

// mapLive is the first cell of a Map that is past its time to live.
const mapLive = 128

// Map shows how full the extents' table is, and how old what it holds.
type Map struct {
	// Cells are ways in the order of the arena, up to 1,024 of them: 0 is an empty
	// one, else 1 plus the time since the last put in 127ths of the time to live, at
	// most 255. Hence 1 to 127 are live, and 128 and more past their time, kept until
	// the room is wanted. In an arena of more ways they are whole sets at even
	// distances: a sample, as keys are spread by a hash.
	Cells []byte `json:"cells"`
	// Ways is how many there are, of which Cells are a part.
	Ways int     `json:"ways"`
	TTL  float64 `json:"ttl_seconds"`
}

// Map takes a map now. It looks at 1,024 ways at most, whatever the arena's size,
// 16 of them at a time under a lock: for a caller that asks every second.
func (a *Arena) Map() Map {
	return a.extents.snapshot(a.age(a.cfg.Clock()))
}

func (t *table) snapshot(now time.Duration) Map {
	sets := len(t.ways) / layout.Ways
	n := min(sets, mapSets)
	m := Map{Cells: make([]byte, n*layout.Ways), Ways: len(t.ways), TTL: t.ttl.Seconds()}
	for i := range n {
		set := uint32(i * sets / n)
		t.cells(set, now, m.Cells[i*layout.Ways:][:layout.Ways])
	}
	return m
}

// cells fills in those of one set.
func (t *table) cells(set uint32, now time.Duration, cells []byte) {
	s := &t.stripes[int(set)%len(t.stripes)]
	s.Lock()
	defer s.Unlock()
	for i := range cells {
		if w := &t.ways[int(set)*layout.Ways+i]; w.used {
			cells[i] = cell(now-w.modified, t.ttl)
		}
	}
}

func cell(age, ttl time.Duration) byte {
	n := (mapLive - 1) * float64(max(age, 0)) / float64(ttl)
	return byte(min(1+n, 255))
}
