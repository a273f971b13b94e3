package reader

import (
	"errors"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// watch is how a page is followed without polls: one of its replicas was asked to
// answer when a length of it moves, and is again when it has. Polls go on, seldom,
// where there are other replicas, as the one that is asked may be behind. Of the
// poller.
type watch struct {
	v       *visit
	on      bool      // v is on its way
	shards  []*follow // whose lengths it is about
	stale   bool      // a poll has found news meanwhile
	pollAt  time.Time // next poll while it is on
	good    []*follow // the page's shards when it was read last and all was well: who may be waited for
	resumes time.Time // the page rests until then: news come faster than they are worth
	pace    time.Duration
	news    time.Time     // when it last brought some
	retryAt time.Time     // polled until then: it did not work
	rest    time.Duration // from the last such time
}

const (
	// watchFor is how long a node is to wait. What it answers then has a heartbeat, and
	// one that is stuck is noticed after that and the read timeout.
	watchFor = 250 * time.Millisecond
	// watchRest is for how long a node is polled that refuses to wait: for a limit of
	// its own, most likely.
	watchRest = time.Second
	// While news comes sooner than after watchGap, pages rest PollMin between it, and up
	// to four times as long while it is more than watchMuch bytes each time: reads of
	// many bytes cost less for each.
	watchGap  = 4 * time.Millisecond
	watchMuch = 8 << 10
)

// covered reports whether a page needs no poll now.
func (p *poller) covered(g *page, now time.Time) bool {
	w := &g.watch
	switch {
	case w.on && (w.stale || !sameShards(w.shards, *g.shards.Load())):
		return false
	case w.on:
		if len(g.at) > 1 && !now.Before(w.pollAt) {
			w.pollAt = now.Add(p.c.cfg.PollMax)
			return false
		}
		return true
	case now.Before(w.resumes):
		return true
	}
	return p.watch(g, now)
}

func sameShards(a, b []*follow) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// watch asks a replica of a page to answer when there is news. It reports whether it
// could.
func (p *poller) watch(g *page, now time.Time) bool {
	w, shards := &g.watch, *g.shards.Load()
	if w.on || !sameShards(w.good, shards) || now.Before(w.retryAt) {
		return false
	}
	i := p.draw(g, now)
	if i < 0 || !p.vias[i].wakes || !g.at[i].found {
		return false
	}
	if w.v == nil {
		w.v = &visit{timeout: p.c.cfg.ReadTimeout}
	}
	v := w.v
	v.peer, v.via, v.until = g.at[i].peer, p.vias[i], now.Add(watchFor)
	l := look{page: g, shards: shards, found: true, index: g.at[i].index}
	l.first, l.end = entriesOf(shards)
	v.looks = append(v.looks[:0], l)
	w.shards, w.stale, w.pollAt = shards, false, now.Add(p.c.cfg.PollMax)
	w.on = p.c.spawn(func() {
		v.wait()
		select {
		case p.landed <- v:
		case <-p.c.stop:
			v.release()
		}
	})
	return w.on
}

// wait reads the one page of the visit when a length has moved, or at v.until.
func (v *visit) wait() {
	v.state, v.err = visitReading, nil
	v.posted = time.Now()
	l := &v.looks[0]
	if err := v.room(l.end - l.first); err != nil {
		v.end(err)
		return
	}
	slot := v.via.geometry.PageSlot(l.index)
	l.bytes = v.b.Add(slot+uint64(l.first), l.end-l.first)
	b, ok := v.b.(waker)
	for _, f := range l.shards {
		ok = ok && b.When(slot+uint64(f.shard.EntryOffset()), f.published().length)
	}
	v.deadline = v.until.Add(v.timeout)
	if l.bytes == nil || !ok {
		v.end(errBatchRoom)
		return
	}
	if err := b.PostWhen(v.until, v.deadline); err != nil {
		v.end(err)
		return
	}
	v.finish()
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

// quiet reports whether no page needs a poll before something lands, and how long it is
// until one has rested.
func (p *poller) quiet(now time.Time) (quiet bool, until time.Duration) {
	quiet, until = true, watchFor
	for _, g := range *p.c.pages.Load() {
		w := &g.watch
		switch {
		case w.on && !w.stale && len(g.at) == 1 && sameShards(w.shards, *g.shards.Load()):
		case !w.on && now.Before(w.resumes):
			until = min(until, w.resumes.Sub(now))
		default:
			quiet = false
		}
	}
	return quiet, until
}

// woken takes what a watch has brought, and goes on watching.
func (p *poller) woken(v *visit, now time.Time) {
	g := v.looks[0].page
	w := &g.watch
	w.on = false
	p.moved, p.grown = false, 0
	var refusal *wire.Error
	refused := errors.As(v.err, &refusal)
	if refused {
		v.looks = v.looks[:0]
	} else {
		p.take(v, now)
	}
	switch {
	case p.moved:
		w.advance(now, p.grown, p.c.cfg.PollMin)
	case refused:
		w.retryAt = now.Add(watchRest)
	case v.err != nil: // its path rests, and there may be others
	case now.Before(v.until): // it says of nothing that it were news: the replica is behind, or the entry was being written
		w.rest = min(max(2*w.rest, p.c.cfg.PollMin), p.c.cfg.PollMax)
		w.retryAt = now.Add(w.rest)
	default:
		w.rest = 0
	}
	v.release()
	if !p.covered(g, now) {
		p.interval = p.c.cfg.PollMin
	}
}

// advance takes that there was news, and of how many bytes.
func (w *watch) advance(now time.Time, grown uint64, least time.Duration) {
	w.rest = 0
	if now.Sub(w.news) >= watchGap+w.pace {
		w.pace = 0
	} else {
		most := least
		if grown >= watchMuch {
			most = 4 * least
		}
		w.pace = min(max(2*w.pace, least), most)
		w.resumes = now.Add(w.pace)
	}
	w.news = now
}
