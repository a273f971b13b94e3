package reader

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/wire"
)

// TestFabricPlacementMoves: nodes join and leave while bytes flow and Readers are in
// the middle of a backlog. No byte is wrong or missing, no read fails for it, and
// nothing of a node that left is left over.
func TestFabricPlacementMoves(t *testing.T) {
	// Several times, as what a Reader meets is chance. It once went in circles, letting no
	// time pass, where a flight ahead had found a hole.
	for i := range 4 {
		t.Run(fmt.Sprint(i), placementMoves)
	}
}

func placementMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c", "d"), 32<<20, FromTCP)
		defer s.c.Close()
		s.append(1000)
		s.publish(0)
		tailing, catching := openAt(t, s.c, Earliest()), openAt(t, s.c, Earliest())
		defer tailing.Close()
		defer catching.Close()
		const step, steps = 2 << 20, 5
		members := [steps][]string{{"a", "b", "c", "d"}, {"a", "b", "c", "d", "e"}, {"b", "c", "d", "e"}, {"b", "x", "e", "f", "p1"}, {"x", "y", "z"}}
		for _, name := range []string{"e", "f", "x", "y", "z", "p1"} {
			s.start(name, 32<<20, 9)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for i, m := range members {
				s.views.set(t, siteNodes(m...))
				<-time.After(2 * time.Second) // dialled within dialSpread
				s.siteWriter.run(uint64(i), uint64(i+1)*step)
			}
			s.seal()
		})
		all.Go(func() { s.delays(tailing, step*steps) })
		all.Go(func() {
			for pos := uint64(0); pos < step*steps && !t.Failed(); pos += step / 8 {
				s.delays(catching, pos)
				<-time.After(300 * time.Millisecond)
			}
			readAll(t, s.c, Earliest(), 0)
		})
		all.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		st := s.c.Stats()
		if st.Failures["tcp"] != 0 {
			t.Errorf("reads failed: %+v", st)
		}
		if len(st.Peers) != 3 || st.Peers[0].Node != "x" || st.Peers[0].State != peerUp || st.Peers[0].Reads == 0 {
			t.Errorf("%+v", st.Peers)
		}
		for _, p := range s.c.roster.Load().peers {
			if p.ctx.Err() != nil || len(*p.live.Load()) != 1 {
				t.Errorf("node %s is not followed", p.name)
			}
		}
		t.Logf("by source %v, %d durable reads, retries %v", st.DeliveredBy, s.store.reads, st.Retries)
	})
}

// TestFabricMembers: a node that stays keeps its connection, one whose address has
// changed is another one, one that left is let go, after what was begun has ended.
func TestFabricMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 4<<20, FromTCP)
		defer s.c.Close()
		was := s.c.roster.Load().peers
		d := siteNodes("c", "a", "b", "d")
		d.Nodes[2].Addr = "elsewhere:1"
		d.Nodes[1].Weight = 5
		s.start("d", 4<<20, 1)
		s.views.set(t, d)
		synctest.Wait()
		is := s.c.roster.Load().peers
		if len(is) != 4 || is[0] != was[2] || is[1] != was[0] || is[2] == was[1] || is[2].addr != "elsewhere:1" || is[3].name != "d" {
			t.Fatalf("%v, before %v", is, was)
		}
		if was[1].ctx.Err() == nil || was[0].ctx.Err() != nil || was[2].ctx.Err() != nil {
			t.Fatal("not the one that left was let go")
		}
		if len(*was[1].live.Load()) != 1 {
			t.Fatal("cut off at once")
		}
		<-time.After(2 * s.c.cfg.ReadTimeout)
		synctest.Wait()
		if len(*was[1].live.Load()) != 0 {
			t.Fatal("kept for good")
		}
		<-time.After(dialSpread)
		synctest.Wait()
		for _, p := range is {
			if len(*p.live.Load()) != 1 {
				t.Errorf("%s is not connected", p.name)
			}
		}
	})
}

// TestRealLeavingNodeEndsItsReads: a node leaves while a read of it is on its way,
// and the read ends as it would have.
func TestRealLeavingNodeEndsItsReads(t *testing.T) {
	n := startFake(t, nil)
	c := openFake(t, n, Config{})
	p := c.only()
	via := p.paths(time.Now())[0]
	b, err := via.newBatch(64)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	b.Add(0, 64)
	p.leave()
	if err := settle(b, time.Now().Add(5*time.Second)); err != nil {
		t.Errorf("a read at the moment of leaving: %v", err)
	}
	until(t, "the node to be let go", func() bool { return p.client.Load() == nil })
}

// TestRealStoreOfTheCluster: durable reads go to the node that the cluster names and to no
// other, or, when it names none, to any that has a store.
func TestRealStoreOfTheCluster(t *testing.T) {
	durable := func(n *fakeNode, _ *chunkstore.Arena) { n.hello.Features = wire.FeatureDurable }
	plain, first, second := startFake(t, nil), startFake(t, durable), startFake(t, durable)
	for name, want := range map[string]*fakeNode{"": first, "b": first, "c": second, "a": plain, "d": nil} {
		d := cluster.Description{Store: cluster.Store{Node: name}}
		for i, n := range []*fakeNode{plain, first, second} {
			d.Nodes = append(d.Nodes, cluster.Node{Name: string(rune('a' + i)), Addr: n.addr, Roles: cluster.Data | cluster.Metadata, Weight: 1})
		}
		if name == "d" { // known, and away
			d.Nodes = append(d.Nodes, cluster.Node{Name: "d", Addr: "127.0.0.1:1", Roles: cluster.Data | cluster.Metadata, Weight: 1})
		}
		source, err := cluster.NewFixed(d)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(t.Context(), Config{Cluster: source})
		if err != nil {
			t.Fatal(err)
		}
		before := [3]int64{plain.asked.Load(), first.asked.Load(), second.asked.Load()}
		_, err = c.Stat(t.Context(), "x/0000")
		c.Close()
		for i, n := range []*fakeNode{plain, first, second} {
			if asked := n.asked.Load() > before[i]; asked != (n == want) {
				t.Errorf("store at %q: node %d asked %v, %v", name, i, asked, err)
			}
		}
		if want == nil && !errors.Is(err, errNoStore) {
			t.Errorf("store at %q, which is away: %v", name, err)
		}
	}
}

// TestFabricDialsOfAJoinAreSpread over dialSpread, and those of Open are not.
func TestFabricDialsOfAJoinAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bareCluster(t, &positionStore{})
		defer c.Close()
		var mu sync.Mutex
		var after []time.Duration
		c.runPeer = func(_ *peer, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			after = append(after, d)
		}
		adopt := func(spread time.Duration, prefix string) (early, late int) {
			var d cluster.Description
			for i := range 100 {
				d.Nodes = append(d.Nodes, cluster.Node{Name: fmt.Sprint(prefix, i), Addr: fmt.Sprint(prefix, i, ":1"), Roles: cluster.Data | cluster.Metadata, Weight: 1})
			}
			view, err := cluster.NewView(d)
			if err != nil {
				t.Fatal(err)
			}
			after = nil
			c.adopt(view, spread)
			synctest.Wait()
			for _, d := range after {
				switch {
				case d < 0 || d > dialSpread:
					t.Errorf("after %v", d)
				case d < dialSpread/2:
					early++
				default:
					late++
				}
			}
			return early, late
		}
		if early, late := adopt(0, "a"); early != 100 || late != 0 {
			t.Errorf("at Open: %d early, %d late", early, late)
		}
		if early, late := adopt(dialSpread, "b"); early+late != 100 || early < 20 || late < 20 {
			t.Errorf("that join: %d early, %d late", early, late)
		}
	})
}

// TestFabricOtherGeometry: nodes of different sizes, one of which comes back with yet
// another one: places are looked for by each node's own geometry.
func TestFabricOtherGeometry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, siteNodes("a", "b", "c"), 16<<20, FromTCP, func(c *Config) { c.Prefetch = 128 << 10 })
		defer s.c.Close()
		for i, name := range []string{"b", "c"} {
			s.kill(name)
			s.restart(uint64(5+9*i)<<20, name)
		}
		<-time.After(time.Second)
		r := openFabric(t, s)
		defer r.Close()
		const total = 6 << 20
		var writer sync.WaitGroup
		writer.Go(func() {
			s.siteWriter.run(1, total/2)
			s.kill("a")
			s.restart(7<<20, "a")
			s.siteWriter.run(2, total)
		})
		s.delays(r, total)
		writer.Wait()
		st := s.c.Stats()
		if s.store.reads != 0 || st.Retries["torn"]+st.Retries["moved"] != 0 {
			t.Errorf("%d durable reads, %+v", s.store.reads, st)
		}
		for _, p := range st.Peers {
			if p.Reads == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// openFabric opens a Reader of a site's shard that has a byte.
func openFabric(t *testing.T, s *site) *Reader {
	t.Helper()
	s.append(1)
	s.publish(0)
	return openAt(t, s.c, Earliest())
}
