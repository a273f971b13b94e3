package reader

import (
	"math/rand/v2"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// verdict is how the flights of a race have failed.
type verdict struct {
	holes, partial int // full and partial replicas that lack the bytes
	torn, lost     int
	buffers        int // that had no memory to land in
}

func (v *verdict) add(why reason) {
	switch why {
	case reasonHole, reasonShort:
		v.holes++
	case reasonBuffers, reasonBudget:
		v.buffers++
	case reasonDeadline, reasonTransport:
		v.lost++
	default:
		v.torn++
	}
}

// why is what the flights together mean for the position: only when all that were
// asked lack the bytes, the cache does.
func (v *verdict) why() reason {
	switch {
	case v.torn > 0:
		return reasonTorn
	case v.lost > 0:
		return reasonTransport
	case v.buffers > 0:
		return reasonBuffers
	}
	return reasonHole
}

// hedge asks a second replica for what the current flight, which is slow, was to
// bring. The first that proves the next byte is taken.
func (r *Reader) hedge(first *flight) bool {
	now := r.c.now()
	i, usual := r.other(first, now)
	if i < 0 {
		return r.await(first)
	}
	o := r.order(&r.there, &r.there.replicas[i], 0, first.pub, first.from, first.to, r.prefix)
	second := r.c.hangar.take()
	for d := max(r.c.cfg.HedgeDelay, 2*usual); ; d += r.c.cfg.HedgeDelay {
		if landed, err := first.awaitFor(d); landed {
			r.c.hangar.put(second)
			return r.arrived(first, err)
		}
		if o.via.nic.spares(second, o.cost()) {
			break
		}
	}
	if err := r.begin(second, o, now); err != nil {
		r.c.failed(second, err)
		r.c.hangar.put(second)
		return r.await(first)
	}
	r.c.count.hedges.Add(1)
	r.cur = nil
	var v verdict
	winner := r.race([]*flight{first, second}, &v)
	switch {
	case winner != nil:
		if r.cur = winner; winner != first {
			r.c.count.hedgeWins.Add(1)
		}
		return true
	case v != verdict{} && v != verdict{partial: v.partial}:
		look, _ := r.look(r.c.now())
		r.tail.failed(look, v.why())
	}
	return false
}

// other chooses the replica, of r.there, that is asked beside a flight that is slow,
// and how long it is expected to take: where all take as long, asking another one is
// no help. Negative: there is none.
func (r *Reader) other(first *flight, now time.Time) (i int, usual time.Duration) {
	r.there.find(r.c.roster.Load(), r.h, layout.Extent(first.from), now)
	but, others := -1, r.there.full
	for i := range r.there.replicas {
		if r.there.replicas[i].peer == first.via.peer {
			but = i
			if i < r.there.full {
				others--
			}
		}
	}
	who := anyReplica
	if others > 0 {
		who = fullReplica // a partial one is the less likely to have it
	}
	size := int(first.to - first.from)
	i = r.there.pick(who, 0, but, &r.late, now, size, rand.Uint64())
	if i >= 0 {
		usual = r.there.replicas[i].path(0).expect(now, size)
	}
	return i, usual
}

// quorum asks every full replica that can be asked for the rest of the position's
// extent, all at once.
func (r *Reader) quorum(a action, pub published, now time.Time) {
	if r.cur != nil {
		r.c.hangar.put(r.cur)
		r.cur = nil
	}
	r.c.count.quorums.Add(1)
	to := min(a.to, (layout.Extent(a.from)+1)*layout.ExtentSize)
	var v verdict
	var flights []*flight
	for i := range r.here.full {
		o := r.order(&r.here, &r.here.replicas[i], a.path, pub, a.from, to, r.prefix)
		f := r.c.hangar.take()
		if err := r.launch(f, o, now); err != nil {
			v.add(r.c.failed(f, err))
			r.c.hangar.put(f)
			continue
		}
		flights = append(flights, f)
	}
	if r.cur = r.race(flights, &v); r.cur != nil || r.ctx.Err() != nil {
		return
	}
	look, _ := r.look(time.Now())
	r.tail.quorumFailed(look, v.why(), v.holes)
}

// outcome is how a flight of a race has ended.
type outcome struct {
	f   *flight
	err error
}

// race waits for several flights. The first that proves the next byte wins and is
// returned, to be delivered. The others are taken back when they have settled: until
// then their memory is the transport's. nil: none did, and v says why; or the Reader
// is closed.
func (r *Reader) race(flights []*flight, v *verdict) (winner *flight) {
	over := make(chan struct{})
	defer close(over)
	landed := make(chan outcome)
	running := make(map[*flight]time.Time, len(flights)) // since when
	for _, f := range flights {
		since := f.posted
		if r.c.spawn(func() {
			o := outcome{f, f.finish()}
			select {
			case landed <- o:
			case <-over:
				r.c.late(o)
			}
		}) {
			running[f] = since
		} else {
			r.c.hangar.put(f)
		}
	}
	for len(running) > 0 {
		var o outcome
		select {
		case o = <-landed:
		case <-r.ctx.Done():
			return nil
		}
		delete(running, o.f)
		if r.proves(o, v) {
			r.slow(running)
			return o.f
		}
		r.c.hangar.put(o.f)
	}
	return nil
}

// slow notes how long flights have been on their way that have lost a race, so that
// the next read does not choose their paths again. Their goroutines still have them.
func (r *Reader) slow(running map[*flight]time.Time) {
	now := r.c.now()
	for f, since := range running {
		if d := now.Sub(since); d >= r.c.cfg.HedgeDelay {
			f.via.small.took(now.Sub(f.via.born), d)
			f.via.large.took(now.Sub(f.via.born), d)
		}
	}
}

// proves takes a flight of a race that has ended, and reports whether it has
// brought the next byte.
func (r *Reader) proves(o outcome, v *verdict) bool {
	if o.err != nil {
		why := r.c.failed(o.f, o.err)
		v.add(why)
		r.trace.fail(why)
		r.places.forget(o.f.via.epoch)
		return false
	}
	why := reasonHole
	if r.brought(o.f) {
		var data []byte
		if data, _, why = o.f.verify(r.prefix); len(data) > 0 {
			return true
		}
	}
	if r.noted(o.f, why) {
		v.partial++
	} else {
		v.add(why)
	}
	return false
}

// late takes back a flight that has lost a race.
func (c *Cluster) late(o outcome) {
	if o.err != nil {
		c.failed(o.f, o.err)
	} else {
		c.landed(o.f)
	}
	c.hangar.put(o.f)
}
