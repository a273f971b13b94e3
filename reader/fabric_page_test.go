package reader

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// pageSite is a site whose length pages have one replica each, and the names of two
// shards whose pages are at different nodes, with those nodes.
func pageSite(t *testing.T) (s *site, shards [2]layout.Shard, at [2]string) {
	d := siteNodes("a", "b", "c")
	d.MetadataReplicas = 1
	s = newSite(t, d, 4<<20, FromTCP)
	view, _ := s.views.View()
	for i, n := 0, uint32(0); i < 2; n += layout.EntriesPerPage {
		shard := layout.Shard{Stream: "fabric", Number: n}
		var set cluster.Replicas
		view.Page(layout.StreamHash(shard.Stream), shard.Page(), &set)
		name := view.Nodes[set.All()[0]].Name
		if i == 0 || name != at[0] {
			shards[i], at[i] = shard, name
			i++
		}
	}
	return s, shards, at
}

// publishAt publishes a length of a shard at one node.
func (s *site) publishAt(name string, shard layout.Shard, length, beat uint64) {
	h := shard.Hash(s.store.info.Incarnation)
	e := layout.Entry{Length: length, HeartbeatMS: beat, Incarnation: s.store.info.Incarnation}
	if err := s.node(name).arena.Publish(layout.Publication{Shard: shard, Entry: e.Seal(h)}); err != nil {
		s.t.Error(err)
	}
}

// TestFabricBlindPage: the only replica of one page goes away. The Readers of its
// shards are blind, and those of another page are not.
func TestFabricBlindPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shards, at := pageSite(t)
		defer s.c.Close()
		s.store.info.Length = 1 << 20
		var readers [2]*Reader
		for i, shard := range shards {
			s.publishAt(at[i], shard, 100, 1)
			r, err := s.c.Reader(t.Context(), shard.String(), At(100))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			readers[i] = r
		}
		blind := func(want ...bool) {
			t.Helper()
			<-time.After(500 * time.Millisecond)
			for i, r := range readers {
				if v, _ := r.look(time.Now()); v.blind != want[i] {
					t.Errorf("Reader of the page at %s: blind %v", at[i], v.blind)
				}
			}
		}
		blind(false, false)
		s.kill(at[0])
		blind(true, false)
		s.restart(0, at[0])
		blind(false, false)
		s.mix(faults{deadline: 1}, at[1]) // connected, and silent
		blind(false, true)
		s.mix(faults{}, at[1])
		<-time.After(2 * pathRestMax)
		blind(false, false)
	})
}

// TestFabricSlowPage: a node that is slow to tell the lengths of one page holds up no
// other page.
func TestFabricSlowPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shards, at := pageSite(t)
		defer s.c.Close()
		s.store.info.Length = 1 << 20
		for i, shard := range shards {
			s.publishAt(at[i], shard, 100, 1)
			r, err := s.c.Reader(t.Context(), shard.String(), At(100))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
		}
		s.mix(faults{slow: 1, delay: 200 * time.Millisecond}, at[0])
		f := func(i int) *follow { return s.c.mu.follows[shardKey{shards[i].String(), s.store.info.Incarnation}] }
		for n := uint64(101); n < 200; n++ {
			for i, shard := range shards {
				s.publishAt(at[i], shard, n, n)
			}
			<-time.After(5 * time.Millisecond)
			if got := f(1).published().length; got != n {
				t.Fatalf("length %d, want %d after 5 ms", got, n)
			}
		}
		<-time.After(time.Second)
		if got := f(0).published().length; got != 199 {
			t.Fatalf("length %d of the slow one", got)
		}
	})
}

// TestFabricOneEmptyReplica: of the replicas of a page one has the shard's entry, one
// has none, and one has not even the page. The shard is not absent.
func TestFabricOneEmptyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 4<<20, FromTCP)
		defer s.c.Close()
		s.store.info.Length = 1 << 20
		shard := layout.Shard{Stream: "fabric", Number: 5}
		for n := range uint32(20) {
			shard.Number = n
			s.publishAt("a", layout.Shard{Stream: "fabric", Number: 100}, 1, 1)
			s.publishAt("a", shard, 100, 1)
			s.publishAt("b", layout.Shard{Stream: "fabric", Number: 100}, 1, 1)
			r, err := s.c.Reader(t.Context(), shard.String(), At(100))
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
			v, _ := r.look(time.Now())
			if v.absent || v.length != 100 {
				t.Fatalf("shard %d: absent %v, length %d", n, v.absent, v.length)
			}
			r.Close()
		}
		r, err := s.c.Reader(t.Context(), "fabric/50", At(100)) // nowhere
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		<-time.After(100 * time.Millisecond)
		if v, _ := r.look(time.Now()); !v.absent {
			t.Fatal("a shard that no replica has is not absent")
		}
		s.publishAt("c", layout.Shard{Stream: "fabric", Number: 50}, 200, 1)
		<-time.After(time.Second)
		if v, _ := r.look(time.Now()); v.absent || v.length != 200 {
			t.Fatalf("it has come: absent %v, length %d", v.absent, v.length)
		}
	})
}

// TestFabricBeginsAtTheFurthestReplica: without the store, Latest is what the replica
// says that reaches furthest, although one is behind and one does not answer.
func TestFabricBeginsAtTheFurthestReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 4<<20, FromTCP)
		defer s.c.Close()
		shard := layout.Shard{Stream: "fabric", Number: 3}
		s.publishAt("a", shard, 100, 1)
		s.publishAt("b", shard, 300, 3)
		s.publishAt("c", shard, 200, 2)
		s.store.set(func(s *positionStore) { s.err = fmt.Errorf("away") })
		for i, silent := range []string{"", "a", "b"} {
			want := []uint64{300, 300, 200}[i]
			if silent != "" {
				s.mix(faults{deadline: 1}, silent)
			}
			start := time.Now()
			r, err := s.c.Reader(t.Context(), "fabric/3", Latest())
			if err != nil || r.Position() != want {
				t.Fatalf("%s silent: %v", silent, err)
			}
			if took := time.Since(start); took > 2*s.c.cfg.HedgeDelay {
				t.Errorf("%s silent: took %v", silent, took)
			}
			r.Close()
			if silent != "" {
				s.mix(faults{}, silent)
			}
		}
		s.mix(faults{deadline: 1}, "a", "b", "c")
		if _, err := s.c.Reader(t.Context(), "fabric/3", Latest()); err == nil {
			t.Error("nobody answers, but a Reader begins")
		}
	})
}

// TestBetterEntry: of one incarnation the greater length, of two the later heartbeat.
func TestBetterEntry(t *testing.T) {
	e := func(incarnation, length, beat uint64) layout.Entry { return entry(incarnation, length, beat, 0) }
	for i, c := range []struct {
		e, than layout.Entry
		want    bool
	}{
		{e(ours, 1, 1), layout.Entry{}, true},
		{e(ours, 2, 1), e(ours, 1, 9), true},
		{e(ours, 1, 9), e(ours, 2, 1), false},
		{e(theirs, 1, 9), e(ours, 2, 1), true},
		{e(theirs, 9, 1), e(ours, 2, 2), false},
	} {
		if got := better(c.e, c.than); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}
