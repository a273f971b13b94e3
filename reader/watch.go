package reader

import (
	"errors"
	"runtime"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// watch is how a page is followed without polls: one of its replicas was asked to
// answer when a length of it moves, and is again when it has. Polls go on, seldom,
// where there are other replicas, as the one that is asked may be behind. A page that
// is watched has a goroutine; all here is the poller's, guarded by its lock.
type watch struct {
	on      bool
	v       *visit    // the goroutine's while it is on
	shards  []*follow // whose lengths it is about
	stale   bool      // a poll has found news meanwhile
	pollAt  time.Time // next poll while it is on
	good    []*follow // the page's shards when it was read last and all was well: who may be waited for
	pace    time.Duration
	news    time.Time     // when it last brought some
	retryAt time.Time     // polled until then: it did not work
	rest    time.Duration // from the last such time
	hint    hint
}

const (
	// watchFor is how long a node is to wait. What it answers then has a heartbeat, and
	// one that is stuck is noticed after that and the read timeout.
	watchFor = 250 * time.Millisecond
	// watchRest is for how long a node is polled that refuses to wait: for a limit of
	// its own, most likely.
	watchRest = time.Second
	// While news comes sooner than after watchGap, pages rest PollMin between it, and
	// up to watchGap while it is more than watchMuch bytes each time: of many bytes at
	// once each costs less.
	watchGap  = 4 * time.Millisecond
	watchMuch = 8 << 10
)

// covered reports whether a page needs no poll now.
func (p *poller) covered(g *page, now time.Time) bool {
	w := &g.watch
	switch {
	case !w.on:
		return p.watch(g, now)
	case w.outdated(g):
		return false
	case len(g.at) > 1 && !now.Before(w.pollAt):
		w.pollAt = now.Add(p.c.cfg.PollMax)
		return false
	}
	return true
}

// outdated reports whether there is more to know of the page than it will tell.
func (w *watch) outdated(g *page) bool { return w.stale || !sameShards(w.shards, *g.shards.Load()) }

// sameShards reports whether two lists of a page's shards are one: they never change.
func sameShards(a, b []*follow) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// quiet reports whether no page needs a poll before a watch ends.
func (p *poller) quiet() bool {
	pages := *p.c.pages.Load()
	for _, g := range pages {
		if w := &g.watch; !w.on || w.outdated(g) || len(g.at) > 1 {
			return false
		}
	}
	return len(pages) > 0
}

// watch begins to watch a page. It reports whether it could.
func (p *poller) watch(g *page, now time.Time) bool {
	w := &g.watch
	if w.v == nil {
		w.v = &visit{timeout: p.c.cfg.ReadTimeout}
	}
	if !p.prepare(g, w.v, now) {
		return false
	}
	p.spawnKeep(g)
	return w.on
}

func (p *poller) spawnKeep(g *page) {
	g.watch.on = p.c.spawn(func() { p.keep(g, g.watch.v) })
}

// keep is the goroutine of a page that is watched. It ends when the page is to be
// polled again.
func (p *poller) keep(g *page, v *visit) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		v.wait()
		rest, on := p.woken(g, v)
		if !on {
			p.c.pollSoon()
			return
		}
		if rest == 0 {
			runtime.Gosched() // who has been woken goes first, and then the next question
			continue
		}
		timer.Reset(rest)
		select {
		case <-timer.C:
		case <-p.c.stop:
			v.release()
			return
		}
	}
}

// prepare chooses who is asked, and for what.
func (p *poller) prepare(g *page, v *visit, now time.Time) bool {
	w, shards := &g.watch, *g.shards.Load()
	if !sameShards(w.good, shards) || now.Before(w.retryAt) {
		return false
	}
	i := p.draw(g, now)
	if i < 0 || !p.vias[i].wakes || !g.at[i].found {
		return false
	}
	v.peer, v.via, v.until = g.at[i].peer, p.vias[i], now.Add(watchFor)
	l := look{page: g, shards: shards, found: true, index: g.at[i].index}
	l.first, l.end = entriesOf(shards)
	l.along = w.hint.along(p.ro, v, shards)
	v.looks = append(v.looks[:0], l)
	w.shards, w.stale, w.pollAt = shards, false, now.Add(p.c.cfg.PollMax)
	return true
}

// wait reads the one page of the visit when a length has moved, or at v.until.
func (v *visit) wait() {
	v.state, v.err = visitReading, nil
	v.posted = time.Now()
	l := &v.looks[0]
	if err := v.room(l.end - l.first + l.along.room()); err != nil {
		v.end(err)
		return
	}
	slot := v.via.geometry.PageSlot(l.index)
	l.bytes = v.b.Add(slot+uint64(l.first), l.end-l.first)
	ok := l.bytes != nil && l.along.add(v)
	b, wakes := v.b.(waker)
	ok = ok && wakes
	for _, f := range l.shards {
		ok = ok && b.When(slot+uint64(f.shard.EntryOffset()), f.published().length)
	}
	if !ok {
		v.end(errBatchRoom)
		return
	}
	v.deadline = v.until.Add(v.timeout)
	if err := b.PostWhen(v.until, v.deadline); err != nil {
		v.end(err)
		return
	}
	v.finish()
}

// woken takes what a watch has brought, and prepares it anew: to be posted after a
// rest. on is false when the page is to be polled instead.
func (p *poller) woken(g *page, v *visit) (rest time.Duration, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, now := &g.watch, time.Now()
	p.moved, p.grown = false, 0
	var refusal *wire.Error
	refused := errors.As(v.err, &refusal)
	if !refused {
		p.take(v, now)
	}
	switch {
	case p.moved:
		rest = w.advance(now, p.grown, p.c.cfg.PollMin)
	case refused:
		w.retryAt = now.Add(watchRest)
	case v.err != nil: // its path rests, and there may be others; without memory to land in it does not
		w.retryAt = now.Add(p.c.cfg.PollMin)
	case now.Before(v.until): // it says of nothing that it were news: the replica is behind, or the entry was being written
		w.rest = min(max(2*w.rest, p.c.cfg.PollMin), p.c.cfg.PollMax)
		w.retryAt = now.Add(w.rest)
	default:
		w.rest, w.hint.size = 0, 0
	}
	g.asked = 0 // as when a poll begins: the one that has just answered may be asked again
	w.on = p.c.ctx.Err() == nil && !w.stale && p.prepare(g, v, now.Add(rest))
	if !w.on {
		v.release()
		p.interval = p.c.cfg.PollMin
	}
	return rest, w.on
}

// advance takes that there was news, and of how many bytes; it returns how long the
// page rests.
func (w *watch) advance(now time.Time, grown uint64, least time.Duration) time.Duration {
	w.rest = 0
	w.hint.grew(grown)
	if now.Sub(w.news) >= watchGap+w.pace {
		w.pace = 0
	} else {
		most := least
		if grown >= watchMuch {
			most = max(least, watchGap)
		}
		w.pace = min(max(2*w.pace, least), most)
	}
	w.news = now
	return w.pace
}

// seen takes that the page was read, by a watch or a poll: all is well with it, or is
// not, and there was news or none.
func (w *watch) seen(v *visit, shards []*follow, well, moved bool) {
	w.good = nil
	if well {
		w.good = shards
	}
	w.stale = w.stale || moved && w.on && v != w.v
}
