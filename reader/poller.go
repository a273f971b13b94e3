package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// poller reads the length pages of all followed shards: one READ a page and poll,
// however many Readers follow them, of the part between the first and the last
// entry that is followed. Each page is asked of one of its replicas, drawn anew in
// every poll; of the next one at once when that fails, lacks the page, or is behind.
// One goroutine, owned by the Cluster.
type poller struct {
	c        *Cluster
	mu       sync.Mutex // guards all that follows, and the poller's part of pages, for the goroutines that watch
	interval time.Duration
	ro       *roster
	visits   map[*peer]*visit
	landed   chan *visit // that were late

	// Of the poll under way.
	todo    []*page
	round   []*visit
	options []option // of one page, as page.at
	vias    []*path  // of the options
	moved   bool     // a shard has
	grown   uint64   // by how many bytes they have
}

const (
	// pollGrace is how long a poll waits for a node when there are others: longer
	// than a healthy one takes. What comes later is taken when it comes.
	pollGrace = 2 * time.Millisecond
	// secondOpinion is how many polls of a page pass until another replica is asked
	// beside the best one, which may be behind all the others without a sign of it.
	secondOpinion = 8
	// pollJitter is the part of an interval by which it is shortened at most.
	pollJitter = 8
)

func newPoller(c *Cluster) *poller {
	return &poller{c: c, visits: map[*peer]*visit{}, landed: make(chan *visit)}
}

func (p *poller) run() {
	p.interval = p.c.cfg.PollMin
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer p.release()
	for {
		select {
		case <-p.c.stop:
			return
		case <-timer.C:
		case <-p.c.pollNow:
		case v := <-p.landed:
			if pause, ok := p.takeLate(v); ok {
				timer.Reset(pause)
			}
			continue
		}
		timer.Reset(p.pollOnce())
	}
}

// pollOnce polls, and returns the time to the next poll.
func (p *poller) pollOnce() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adapt(p.poll(time.Now()))
	return p.pause()
}

// adapt chooses the interval behind a poll: the shortest while shards move, longer and
// longer when none does.
func (p *poller) adapt(moved bool) {
	if moved {
		p.interval = p.c.cfg.PollMin
	} else {
		p.interval = min(p.interval*5/4+time.Microsecond, p.c.cfg.PollMax)
	}
}

// takeLate takes a visit that was late. When it has news it returns the time to the next
// poll.
func (p *poller) takeLate(v *visit) (pause time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.late = false
	p.moved = false
	if p.take(v, time.Now()); !p.moved {
		return 0, false
	}
	p.interval = p.c.cfg.PollMin
	return p.pause(), true
}

// pause returns the time to the next poll. Up to an eighth of jitter keeps the
// processes of a site out of step.
func (p *poller) pause() time.Duration {
	p.c.count.pollEvery.Store(int64(p.interval))
	d := p.interval
	if p.quiet() {
		d = watchFor
	}
	d -= time.Duration(rand.Int64N(int64(d)/pollJitter + 1))
	for _, v := range p.visits {
		if v.late { // others are to be asked soon
			return min(d, p.c.cfg.HedgeDelay)
		}
	}
	return d
}

// poll reads every page once. It reports whether any shard has moved.
func (p *poller) poll(now time.Time) (moved bool) {
	pages := p.begin(now)
	for p.assign(now) {
		for _, v := range p.round {
			v.start()
		}
		p.collect()
		p.sift()
	}
	p.end(pages)
	return p.moved
}

// begin begins a poll of all pages, which it returns.
func (p *poller) begin(now time.Time) []*page {
	p.moved = false
	p.c.count.polls.Add(1)
	p.attend(p.c.roster.Load())
	pages := *p.c.pages.Load()
	p.todo = p.todo[:0]
	for _, g := range pages {
		g.settle(p.ro)
		if g.covered = !p.c.cfg.pollsOnly() && p.covered(g, now); g.covered {
			continue
		}
		if g.late.IsZero() || now.Sub(g.late) >= p.c.cfg.HedgeDelay {
			p.todo = append(p.todo, g)
		}
	}
	return pages
}

// sift keeps the pages of which another replica is to be asked in this poll.
func (p *poller) sift() {
	p.todo = slices.DeleteFunc(p.todo, func(g *page) bool { return g.good || !g.late.IsZero() })
}

// end ends a poll: what nobody has answered for is silent.
func (p *poller) end(pages []*page) {
	for _, g := range pages {
		switch {
		case g.covered || len(*g.shards.Load()) == 0:
		case g.heard:
			g.hush(false)
		case g.late.IsZero():
			g.hush(true)
		}
	}
}

// attend forgets the nodes that are not in a roster.
func (p *poller) attend(ro *roster) {
	if p.ro == ro {
		return
	}
	p.ro = ro
	for peer, v := range p.visits {
		if !v.late && !p.member(peer) {
			v.release()
			delete(p.visits, peer)
		}
	}
}

func (p *poller) member(peer *peer) bool { return p.ro != nil && slices.Contains(p.ro.peers, peer) }

func (p *poller) release() {
	for _, v := range p.visits {
		if !v.late {
			v.release()
		}
	}
}

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
