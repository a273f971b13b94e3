package reader

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// page is a length page that is polled: all followed shards of a stream in one
// run of 128 numbers.
type page struct {
	key     layout.Hash // of the stream
	number  uint64
	shards  atomic.Pointer[[]*follow]
	holders atomic.Pointer[holders]
	// silent is set while no replica of the page answers: lengths then come from the
	// store.
	silent atomic.Bool

	// The poller's.
	at    []whereabouts // at each of holders.peers, once polled
	polls uint          // for a second opinion now and then
	// late is since when a replica has not answered that was asked; zero: none.
	late  time.Time
	watch watch
	// Of the poll under way.
	covered bool   // needs none
	asked   uint64 // bits of the replicas that are not to be asked again
	heard   bool   // one has answered
	good    bool   // one has said all there is to say
}

// holders are the metadata replicas of a page under one roster.
type holders struct {
	ro    *roster
	peers []*peer
}

// whereabouts is where one replica has a page, and what it is worth.
type whereabouts struct {
	peer  *peer
	epoch uint64 // at which index is right
	index uint32
	found bool
	// A page that the node lacks, or that has no valid entry, is looked up rarer
	// and rarer: it would make every poll of the others take two round trips.
	lookAt time.Time
	rest   time.Duration
	// A replica that is behind another one is asked rarer and rarer, too.
	behindUntil time.Time
	behind      time.Duration
	level       int // in the poll under way: paths that had no memory to land in
}

// behindMin and behindMax are how long a replica that is behind is left alone.
const (
	behindMin = 50 * time.Millisecond
	behindMax = 2 * time.Second
)

// newPage returns the page of a shard.
func newPage(ro *roster, s layout.Shard) *page {
	g := &page{key: layout.StreamHash(s.Stream), number: s.Page()}
	g.shards.Store(new([]*follow))
	g.place(ro)
	return g
}

// place computes the page's replicas under a roster.
func (g *page) place(ro *roster) {
	h := &holders{ro: ro}
	if ro != nil {
		var set cluster.Replicas
		ro.view.Page(g.key, g.number, &set)
		for _, node := range set.All() {
			h.peers = append(h.peers, ro.peers[node])
		}
	}
	g.holders.Store(h)
}

// isBlind reports whether no length of the page comes from the cache at present.
func (g *page) isBlind(now time.Time) bool {
	if g.silent.Load() {
		return true
	}
	for _, p := range g.holders.Load().peers {
		if p.up(now) {
			return false
		}
	}
	return true
}

// hush notes whether any replica answers. Readers that wait for news from the cache
// learn at once that none will come.
func (g *page) hush(silent bool) {
	if g.silent.Swap(silent) == silent {
		return
	}
	for _, f := range *g.shards.Load() {
		f.mu.Lock()
		f.wake()
		f.mu.Unlock()
	}
}

// settle gives the page the replicas of a roster, and begins a poll. What is known
// of replicas that stay is kept. Of the poller.
func (g *page) settle(ro *roster) {
	if g.holders.Load().ro != ro {
		g.place(ro)
		for _, f := range *g.shards.Load() {
			f.moved()
		}
		g.at = g.reseat()
	} else if g.at == nil {
		g.at = g.reseat()
	}
	for i := range g.at {
		g.at[i].level = 0
	}
	g.asked, g.heard, g.good = 0, false, false
	g.polls++
}

func (g *page) reseat() []whereabouts {
	peers := g.holders.Load().peers
	at := make([]whereabouts, len(peers))
	for i, p := range peers {
		at[i].peer = p
		if old := g.seat(p); old >= 0 {
			at[i] = g.at[old]
		}
	}
	return at
}

// seat returns the index of a replica; negative if it is none.
func (g *page) seat(p *peer) int {
	return slices.IndexFunc(g.at, func(w whereabouts) bool { return w.peer == p })
}

// path returns the path to a replica that may be asked in this poll, nil if none
// can. One that is known to lack the page has answered by that.
func (g *page) path(i int, now time.Time) *path {
	w := &g.at[i]
	paths := w.peer.paths(now)
	if g.asked&(1<<i) != 0 || w.level >= len(paths) {
		return nil
	}
	via := paths[w.level]
	if w.epoch != via.epoch {
		*w = whereabouts{peer: w.peer, epoch: via.epoch, level: w.level}
	}
	if !w.found && now.Before(w.lookAt) {
		g.heard = true
		return nil
	}
	return via
}

// reachable returns the bits of the replicas that can be asked.
func (g *page) reachable(now time.Time) (bits uint64) {
	for i := range g.at {
		if g.at[i].peer.up(now) {
			bits |= 1 << i
		}
	}
	return bits
}

// entriesOf returns the part of a page that holds the entries of shards.
func entriesOf(shards []*follow) (first, end int) {
	first = layout.PageSize
	for _, f := range shards {
		at := f.shard.EntryOffset()
		first, end = min(first, at), max(end, at+layout.EntrySize)
	}
	return first, end
}
