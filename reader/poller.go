package reader

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// page is a length page that is polled: all followed shards of a stream in one
// run of 128 numbers.
type page struct {
	key    layout.Hash // of the stream
	number uint64
	shards atomic.Pointer[[]*follow]

	epoch uint64 // of the node at which index is right
	index uint32
	found bool
	// A page that the node lacks, or that has no valid entry, is looked up rarer
	// and rarer: it would make every poll of the others take two round trips.
	lookAt time.Time
	rest   time.Duration

	// Of the poll under way: who wants entries, the part of the page that holds
	// them, and where it begins.
	asked []*follow
	bytes []byte
	first int
	sets  [2][]byte
}

// due reports whether the page's place is to be looked up.
func (g *page) due(now time.Time) bool { return !g.found && !now.Before(g.lookAt) }

// pollPages is the most pages in one batch: 256 KiB.
const pollPages = 64

// poller reads the length pages of all followed shards: one READ a page and
// poll, however many Readers follow them, of the part between the first and the
// last entry that is followed. One goroutine, owned by the Cluster.
type poller struct {
	c        *Cluster
	interval time.Duration

	// b is kept between polls: Readers that use up the batch memory of the path
	// must not make it blind.
	b    batch
	via  *path
	size int
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
		}
		if p.poll(time.Now()) {
			p.interval = p.c.cfg.PollMin
		} else {
			p.interval = min(p.interval*5/4+time.Microsecond, p.c.cfg.PollMax)
		}
		// Up to an eighth of jitter keeps the processes of a site out of step.
		timer.Reset(p.interval - time.Duration(rand.Int64N(int64(p.interval)/8+1)))
	}
}

// poll reads every page once over the best path, the next one when that fails.
// It reports whether any shard has moved.
func (p *poller) poll(now time.Time) (moved bool) {
	pages := *p.c.pages.Load()
	if len(pages) == 0 {
		return false
	}
	for _, via := range p.c.paths(now) {
		ok := true
		for lo := 0; lo < len(pages) && ok; lo += pollPages {
			m, err := p.read(via, pages[lo:min(lo+pollPages, len(pages))])
			moved = moved || m
			if noBuffers(err) {
				p.c.count.retry(reasonBuffers)
			} else if err != nil {
				p.c.count.failed(via.source, via.failed(time.Now(), err))
			}
			ok = err == nil
		}
		if ok {
			via.worked()
			p.see(lengths)
			return moved
		}
	}
	p.release()
	p.see(nothing)
	return moved
}

// room makes sure of an empty batch of the path for n bytes.
func (p *poller) room(via *path, n int) (err error) {
	if p.b != nil && p.via == via && p.size >= n {
		p.b.Reset()
		return nil
	}
	p.release()
	if p.b, err = via.newBatch(n); err == nil {
		p.via, p.size = via, n
	}
	return err
}

func (p *poller) release() {
	if p.b != nil {
		p.b.Release()
	}
	p.b, p.via, p.size = nil, nil, 0
}

// sight is what a poll has brought.
type sight int

const (
	lengths sight = iota
	nothing
)

// see notes whether any path answered; Readers that wait for news from the cache
// learn at once that none will come.
func (p *poller) see(answer sight) {
	if was := p.c.blind.Swap(answer == nothing); was != (answer == nothing) {
		p.c.wakeAll()
	}
}

// read polls up to pollPages pages: unknown places first, then the pages.
func (p *poller) read(via *path, pages []*page) (moved bool, err error) {
	if err := p.locate(via, pages); err != nil {
		return false, err
	}
	if err := p.room(via, len(pages)*layout.PageSize); err != nil {
		return false, err
	}
	n := 0
	moving := 0
	for _, g := range pages {
		g.bytes = nil
		if g.asked = *g.shards.Load(); !g.found || len(g.asked) == 0 {
			continue
		}
		first, end := g.span()
		g.first = first
		g.bytes = p.b.Add(via.geometry.PageSlot(g.index)+uint64(first), end-first)
		n++
		moving += end - first
	}
	if n == 0 {
		return false, nil
	}
	if err := settle(p.b, time.Now().Add(p.c.cfg.ReadTimeout)); err != nil {
		p.release() // it may be abandoned
		return false, err
	}
	p.c.count.polled(n, moving)
	now := time.Now()
	for _, g := range pages {
		if g.bytes != nil && p.take(g, now) {
			moved = true
		}
	}
	return moved, nil
}

// span is the part of the page that holds the entries asked for.
func (g *page) span() (first, end int) {
	first = layout.PageSize
	for _, f := range g.asked {
		at := f.shard.EntryOffset()
		first, end = min(first, at), max(end, at+layout.EntrySize)
	}
	return first, end
}

// take reads the entries of a landed page. When none of them is valid the page's
// place is looked up again: its way may hold another page by now.
func (p *poller) take(g *page, now time.Time) (moved bool) {
	valid := false
	for _, f := range g.asked {
		why, m := f.entry(layout.ParseEntry(g.bytes, f.shard.EntryOffset()-g.first), now)
		if why == proven || why == reasonStale {
			valid = true
		}
		if why != proven {
			p.c.count.retry(why)
		}
		moved = moved || m
	}
	if valid {
		g.lookAt, g.rest = time.Time{}, 0
	} else {
		g.found = now.Before(g.lookAt)
	}
	return moved
}

// locate looks up the pages whose place at this node is not known, if it is time.
func (p *poller) locate(via *path, pages []*page) error {
	missing, now := 0, time.Now()
	for _, g := range pages {
		if g.epoch != via.epoch {
			g.epoch, g.found, g.lookAt, g.rest = via.epoch, false, time.Time{}, 0
		}
		if g.due(now) {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	b, err := via.newBatch(missing * 2 * layout.SetSize)
	if err != nil {
		return err
	}
	defer b.Release()
	for _, g := range pages {
		if !g.due(now) {
			continue
		}
		for i, set := range via.geometry.PageSetsOf(g.key, g.number) {
			g.sets[i] = b.Add(via.geometry.PageSet(set), layout.SetSize)
		}
	}
	if err := settle(b, time.Now().Add(p.c.cfg.ReadTimeout)); err != nil {
		return err
	}
	p.c.count.located(2 * missing)
	for _, g := range pages {
		if !g.due(now) {
			continue
		}
		g.rest = min(max(2*g.rest, p.c.cfg.PollMin), p.c.cfg.PollMax)
		g.lookAt = now.Add(g.rest)
		for i, set := range via.geometry.PageSetsOf(g.key, g.number) {
			if g.sets[i] == nil {
				continue
			}
			if way, _, ok := layout.FindIdentity(g.sets[i], g.key, g.number); ok {
				g.index, g.found = set*layout.Ways+uint32(way), true
			}
		}
		g.sets = [2][]byte{}
	}
	return nil
}
