package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// take takes what a visit has brought.
func (p *poller) take(v *visit, now time.Time) {
	switch {
	case noBuffers(v.err):
		p.c.count.retry(reasonBuffers)
	case v.err != nil:
		p.c.count.failed(v.via.source, v.via.failed(now, v.err))
	default:
		v.via.worked()
	}
	pages, bytes, sets := 0, 0, 0
	for i := range v.looks {
		l := &v.looks[i]
		l.page.late = time.Time{}
		if l.locate && v.err == nil {
			sets += 2
		}
		if l.bytes != nil && v.err == nil {
			pages++
			bytes += len(l.bytes)
		}
		if a := &l.along; a.f != nil && v.err == nil {
			p.c.alongRead(a, v.peer)
		}
		if seat := l.page.seat(v.peer); seat >= 0 {
			p.page(v, l, seat, now)
		}
	}
	p.c.count.located(sets)
	p.c.count.polled(pages, bytes)
	clear(v.looks)
	v.looks = v.looks[:0]
	if !p.member(v.peer) {
		v.release()
		delete(p.visits, v.peer)
	}
}

// page takes what a visit has brought of one page.
func (p *poller) page(v *visit, l *look, seat int, now time.Time) {
	g, w := l.page, &l.page.at[seat]
	bit := uint64(1) << seat
	switch {
	case noBuffers(v.err):
		w.level++
		return
	case v.err != nil: // the path rests, and the replica's next one may be asked
		return
	case w.epoch != v.via.epoch:
		return
	}
	g.heard = true
	g.asked |= bit
	if l.locate {
		w.rest = min(max(2*w.rest, p.c.cfg.PollMin), p.c.cfg.PollMax)
		w.lookAt = now.Add(w.rest)
		w.index, w.found = l.index, l.found
	}
	if !l.found {
		reachable := g.reachable(now)
		for _, f := range l.shards {
			f.missed(bit, reachable)
		}
		return
	}
	if l.bytes == nil { // the batch was full
		return
	}
	before := p.moved
	p.moved = false
	valid, behind, wanted := p.entries(l, bit, now)
	g.watch.seen(v, l.shards, valid && !wanted, p.moved)
	p.moved = p.moved || before
	if behind {
		w.behind = min(max(2*w.behind, behindMin), behindMax)
		w.behindUntil = now.Add(w.behind)
	} else if valid {
		w.behind, w.behindUntil = 0, time.Time{}
	}
	if valid {
		w.lookAt, w.rest = time.Time{}, 0
	} else { // its way may hold another page by now
		w.found = now.Before(w.lookAt)
	}
	g.good = g.good || valid && !behind && !wanted
}

// entries reads the entries of a landed page. valid: one of them was; behind:
// another replica is known to have said more; wanted: another one may.
func (p *poller) entries(l *look, bit uint64, now time.Time) (valid, behind, wanted bool) {
	for _, f := range l.shards {
		e := layout.ParseEntry(l.bytes, f.shard.EntryOffset()-l.first)
		l.along.bring(&l.page.watch.hint, e)
		was := f.published().length
		why, moved := f.entry(e, now)
		if moved {
			p.grown += e.Length - was
		}
		if e.Incarnation == 0 {
			want, known := f.missed(bit, l.page.reachable(now))
			wanted, behind = wanted || want, behind || known
		}
		valid = valid || why == proven || why == reasonStale
		behind = behind || why == reasonStale
		if why != proven {
			p.c.count.retry(why)
		}
		p.moved = p.moved || moved
	}
	return valid, behind, wanted
}
