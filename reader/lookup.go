package reader

import (
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// lookUp reads one shard's entry from the replicas of its length page, all at once,
// and returns the one that reaches furthest of an incarnation; the zero Entry when
// none has it. Incarnation 0 stands for the one that beat last.
func (c *Cluster) lookUp(s layout.Shard, incarnation uint64) (best layout.Entry) {
	g := newPage(c.roster.Load(), s)
	g.settle(g.holders.Load().ro)
	var visits []*visit
	for i := range g.at {
		if via := g.path(i, time.Now()); via != nil {
			v := &visit{peer: g.at[i].peer, via: via, timeout: c.cfg.ReadTimeout}
			v.looks = []look{{page: g, locate: true, first: s.EntryOffset(), end: s.EntryOffset() + layout.EntrySize}}
			v.start()
			defer v.release()
			visits = append(visits, v)
		}
	}
	take := func(v *visit) {
		if e, ok := v.entry(s); ok && (incarnation == 0 || e.Incarnation == incarnation) && better(e, best) {
			best = e
		}
	}
	// One that is slow is waited for only when no other has the entry.
	until := time.Now().Add(c.cfg.HedgeDelay)
	slow := slices.DeleteFunc(visits, func(v *visit) bool {
		over := v.await(until)
		if over {
			take(v)
		}
		return over
	})
	for _, v := range slow {
		if best.Incarnation == 0 {
			v.finish()
			take(v)
		}
	}
	return best
}

// entry returns the valid entry that a visit of lookUp has brought. When its path has
// failed it goes on over the node's next one.
func (v *visit) entry(s layout.Shard) (e layout.Entry, ok bool) {
	paths := v.peer.paths(time.Now())
	for _, via := range paths[min(slices.Index(paths, v.via)+1, len(paths)):] {
		if v.err == nil {
			break
		}
		v.via = via
		v.start()
		v.finish()
	}
	l := &v.looks[0]
	if v.err != nil || l.bytes == nil {
		return e, false
	}
	e = layout.ParseEntry(l.bytes, 0)
	return e, e.Incarnation != 0 && e.Valid(s.Hash(e.Incarnation))
}

// better reports whether an entry says more than another one: of one incarnation it
// reaches further, of two it is the one of the producer that beat last.
func better(e, than layout.Entry) bool {
	if e.Incarnation == than.Incarnation {
		return e.Length > than.Length
	}
	return than.Incarnation == 0 || e.HeartbeatMS > than.HeartbeatMS
}
