package reader

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
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

// pollJitter is the part of an interval by which it is shortened at most.
const pollJitter = 8

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
