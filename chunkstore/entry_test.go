package chunkstore

import (
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// TestEntryAndHolds: what is published and put can be looked up, what is not cannot.
func TestEntryAndHolds(t *testing.T) {
	a := newArena(t, Config{})
	s := layout.Shard{Stream: "logs", Number: 300}
	if e, ok := a.Entry(s); ok {
		t.Errorf("an empty arena has %+v", e)
	}
	if err := a.Publish(layout.Publication{Shard: s, Entry: layout.Entry{Length: 77, HeartbeatMS: 5, Incarnation: 3}}); err != nil {
		t.Fatal(err)
	}
	if e, ok := a.Entry(s); !ok || e.Length != 77 || e.HeartbeatMS != 5 || e.Incarnation != 3 {
		t.Errorf("entry %+v, %v", e, ok)
	}
	if e, ok := a.Entry(layout.Shard{Stream: "logs", Number: 301}); ok { // of the same page
		t.Errorf("a neighbour has %+v", e)
	}
	h, data := s.Hash(3), []byte("bytes")
	if a.Holds(h, 0) {
		t.Error("an extent is held that was not put")
	}
	if err := a.Put(layout.Put{Shard: h, CRC: layout.ExtendCRC(layout.SeedCRC(h, 0), data), Data: data}); err != nil {
		t.Fatal(err)
	}
	if !a.Holds(h, 0) || a.Holds(h, 1) {
		t.Errorf("extent 0 is held: %v, extent 1: %v", a.Holds(h, 0), a.Holds(h, 1))
	}
	if a.TTL() != time.Minute {
		t.Errorf("time to live %v", a.TTL())
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Entry(s); ok {
		t.Error("a closed arena has an entry")
	}
}

// TestRecentLeases: the one renewed last comes first, what was given back says so.
func TestRecentLeases(t *testing.T) {
	now := time.Unix(1000, 0)
	l := NewLeases(8, time.Second, func() time.Time { return now })
	shard := func(n uint32) layout.Shard { return layout.Shard{Stream: "logs", Number: n} }
	ballot := layout.Ballot{Sequence: 1, Nonce: 9}
	for n := range uint32(4) {
		l.Acquire(shard(n), ballot, "host", time.Minute)
	}
	l.Release(shard(2), ballot)
	if err := l.Admit(shard(0), ballot); err != nil {
		t.Fatal(err)
	}
	got := l.Recent(3)
	if len(got) != 3 || got[0].Shard != shard(0) || got[1].Shard != shard(3) || got[2].Shard != shard(2) {
		t.Fatalf("%+v", got)
	}
	if got[0].Released || got[0].Left != time.Minute || got[0].Owner != "host" || !got[2].Released || got[2].Left != 0 {
		t.Errorf("%+v", got)
	}
	if now = now.Add(time.Hour); l.Recent(1)[0].Released || l.Recent(1)[0].Left != 0 {
		t.Errorf("one that has expired: %+v", l.Recent(1))
	}
}
