package reader

import (
	"math/rand/v2"
	"time"
)

// A round of a poll is one visit to each node that is asked for some of its pages. It is
// followed by another one for the pages whose replica has failed, lacks them, or is
// behind.

const (
	// pollGrace is how long a poll waits for a node when there are others: longer
	// than a healthy one takes. What comes later is taken when it comes.
	pollGrace = 2 * time.Millisecond
	// secondOpinion is how many polls of a page pass until another replica is asked
	// beside the best one, which may be behind all the others without a sign of it.
	secondOpinion = 8
)

// assign spreads the pages that are to be asked over their replicas. It reports
// whether any can be asked.
func (p *poller) assign(now time.Time) bool {
	p.round = p.round[:0]
	for _, g := range p.todo {
		shards := *g.shards.Load()
		if len(shards) == 0 {
			continue
		}
		first := p.draw(g, now)
		if first < 0 {
			continue
		}
		p.add(g, first, shards)
		if g.polls%secondOpinion != 0 || g.asked != 0 {
			continue
		}
		for i := range p.options { // any other one, however slow: nobody waits for it
			p.options[i].latency = 0
			if p.options[i].tier != notAnOption {
				p.options[i].tier = 0
			}
		}
		p.options[first].tier = notAnOption
		if other := choose(p.options, rand.Uint64()); other >= 0 {
			p.add(g, other, shards)
		}
	}
	return len(p.round) > 0
}

// draw chooses the replica of a page that is asked next; negative if none can be.
// Those that are behind are asked when there are no others.
func (p *poller) draw(g *page, now time.Time) int {
	p.options, p.vias = p.options[:0], p.vias[:0]
	upToDate := false
	for i := range g.at {
		o := option{tier: notAnOption}
		w := &g.at[i]
		v := p.visits[w.peer]
		var via *path
		if v == nil || !v.late && len(v.looks) < pollPages {
			if via = g.path(i, now); via != nil {
				o = option{tier: via.source, latency: via.expect(now, 0)}
				upToDate = upToDate || !now.Before(w.behindUntil)
			}
		}
		p.options, p.vias = append(p.options, o), append(p.vias, via)
	}
	if upToDate {
		for i := range p.options {
			if now.Before(g.at[i].behindUntil) {
				p.options[i].tier = notAnOption
			}
		}
	}
	return choose(p.options, rand.Uint64())
}

// add has a replica asked in this round for the page that was drawn for.
func (p *poller) add(g *page, i int, shards []*follow) {
	w := &g.at[i]
	v := p.visits[w.peer]
	if v == nil {
		v = &visit{peer: w.peer, timeout: p.c.cfg.ReadTimeout}
		p.visits[w.peer] = v
	}
	if len(v.looks) == 0 {
		v.via = p.vias[i]
		p.round = append(p.round, v)
	}
	l := look{page: g, shards: shards, locate: !w.found, found: w.found, index: w.index}
	l.first, l.end = entriesOf(shards)
	v.looks = append(v.looks, l)
}

// collect takes what the nodes of a round answer. With others to ask, one that is
// slow holds up nobody: a goroutine waits for it, and what only it was asked for is
// asked of others after the hedge delay.
func (p *poller) collect() {
	until := time.Now().Add(pollGrace)
	late := p.round[:0]
	for _, v := range p.round {
		if len(p.ro.peers) == 1 {
			v.finish()
		} else if !v.await(until) {
			late = append(late, v)
			continue
		}
		p.take(v, time.Now())
	}
	for _, v := range late {
		p.leave(v)
	}
}

// leave has a goroutine wait for a visit.
func (p *poller) leave(v *visit) {
	v.postpone()
	v.late = p.c.spawn(func() {
		v.finish()
		select {
		case p.landed <- v:
		case <-p.c.stop:
			v.release()
		}
	})
	if !v.late {
		v.release()
	}
}

// postpone notes that the pages of a visit are not answered for in this poll.
func (v *visit) postpone() {
	for i := range v.looks {
		if g := v.looks[i].page; !g.good && g.late.IsZero() {
			g.late = v.posted
		}
	}
}
