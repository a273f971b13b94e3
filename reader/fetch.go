package reader

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// aheadMost is the most flights on their way beside the one that is delivered.
const aheadMost = 7

// read fetches what is published at the position from one replica: a relaxed read.
func (r *Reader) read(a action, pub published, now time.Time) {
	if r.handed(a) {
		return
	}
	if !r.depart(a, pub, now) {
		return
	}
	if !r.cur.alone {
		r.lookAhead(now)
	}
	r.arrive()
}

// depart begins a relaxed read, which is the current flight then.
func (r *Reader) depart(a action, pub published, now time.Time) bool {
	i := r.here.pick(a.whom, a.path, -1, &r.late, now, int(a.to-a.from), rand.Uint64())
	if i < 0 {
		return false
	}
	if r.flying > 0 && r.ahead[0].from > a.from { // what comes after it is on its way already
		a.to = min(a.to, r.ahead[0].from)
	}
	rep := &r.here.replicas[i]
	o := r.order(&r.here, rep, a.path, pub, a.from, a.to, r.prefix)
	if o.alone = !r.backlog(&o, pub.length); o.alone && len(r.here.ro.peers) > 1 {
		// Each extent is asked of whom is best for it, and its place looked up at one.
		o.to = cut(o.from, min(o.to, (layout.Extent(o.from)+1)*layout.ExtentSize), pub.length)
	}
	if r.cur == nil {
		r.cur = r.c.hangar.take()
	}
	if err := r.launch(r.cur, o, now); err != nil {
		r.failed(r.cur, err)
		return false
	}
	return true
}

// order plans a flight to a replica of h's extent: as far as its node holds what
// follows, and as one flight goes.
func (r *Reader) order(h *reach, rep *replica, level int, pub published, from, to uint64, pre prefix) order {
	via := rep.path(level)
	to = min(to, from+uint64(via.flightBytes(r.c.cfg.Prefetch)), (layout.Extent(from)+maxSpans)*layout.ExtentSize)
	for e := layout.Extent(from) + 1; e*layout.ExtentSize < to; e++ {
		if !h.ro.holds(rep.node, r.h, e) {
			to = e * layout.ExtentSize
		}
	}
	return order{via: via, partial: rep.partial, hash: r.h, pub: pub, from: from, to: cut(from, to, pub.length), pre: pre,
		timeout: r.c.cfg.ReadTimeout}
}

// launch starts a flight when the budget of its device allows, for which it waits.
func (r *Reader) launch(f *flight, o order, now time.Time) error {
	if nic := o.via.nic; nic != nil {
		if !nic.wanted.wait(o.cost(), now.Add(o.timeout), r.ctx.Done()) {
			f.order = o
			return errBudget
		}
		f.pay(&nic.wanted, o.cost())
	}
	return r.begin(f, o, now)
}

// begin starts a flight that is paid for; if there is no memory for all of it, a
// small one.
func (r *Reader) begin(f *flight, o order, now time.Time) error {
	o.via.latencyOf(int(o.to - o.from)).chosen(now.Sub(o.via.born))
	err := f.start(o, &r.places)
	if noBuffers(err) { // rather little than nothing
		o.to = min(o.to, cut(o.from, o.from+littleFlight, o.pub.length))
		err = f.start(o, &r.places)
	}
	return err
}

// backlog reports whether there is something to fetch behind a flight already. Of
// shared memory there is not: a copy is not on its way while the consumer works.
func (r *Reader) backlog(o *order, length uint64) bool {
	return r.tail.rate == 0 && o.to+layout.ExtentSize <= length && o.to%layout.ChunkSize == 0 && (o.via.source != FromSHM || len(r.here.ro.peers) > 1)
}

// lookAhead begins to fetch what comes after the last flight while there is a
// backlog and the memory to land in, so that the consumer's work and the reading
// overlap, and several nodes read at once. What goes wrong here is met again when
// its turn comes.
func (r *Reader) lookAhead(now time.Time) {
	pub := r.f.published()
	for r.flying < aheadMost {
		last := r.cur
		if r.flying > 0 {
			last = r.ahead[r.flying-1]
		}
		if last.to == last.from || !r.backlog(&last.order, pub.length) {
			return // of a flight that has found a hole already, what follows is itself
		}
		from := last.to
		r.there.find(r.c.roster.Load(), r.h, layout.Extent(from), now)
		i := r.there.pick(anyReplica, 0, -1, &r.late, now, layout.ExtentSize, rand.Uint64())
		if i < 0 {
			return
		}
		o := r.order(&r.there, &r.there.replicas[i], 0, pub, from, pub.length, prefixAt(r.h, from))
		shm := o.via.source == FromSHM
		if shm && last.via.source == FromSHM || r.held()+batchSize(int(o.to-o.from)) > r.c.cfg.Prefetch {
			return
		}
		f := r.c.hangar.take()
		if nic := o.via.nic; nic != nil {
			if !nic.ahead.try(o.cost()) {
				r.c.hangar.put(f)
				return
			}
			f.pay(&nic.ahead, o.cost())
		}
		if shm { // it is copied when its turn comes
			f.order, f.state = o, flightDeferred
		} else if err := r.begin(f, o, now); err != nil {
			r.c.hangar.put(f)
			return
		}
		r.ahead[r.flying] = f
		r.flying++
	}
}

// held is how much memory the Reader's flights have.
func (r *Reader) held() (n int) {
	if r.cur != nil {
		n = r.cur.size
	}
	for _, f := range r.ahead[:r.flying] {
		n += f.size
	}
	return n
}

// takeAhead makes the flight current that continues at the position, if one does
// and it lands.
func (r *Reader) takeAhead() bool {
	for r.flying > 0 && r.ahead[0].from <= r.tail.pos {
		f := r.ahead[0]
		copy(r.ahead[:], r.ahead[1:r.flying])
		r.flying--
		r.ahead[r.flying] = nil
		if f.from < r.tail.pos { // something before it was not proven
			r.c.hangar.put(f)
			continue
		}
		if r.cur != nil {
			r.c.hangar.put(r.cur)
		}
		r.cur = f
		now := time.Now()
		if f.state == flightDeferred {
			if err := r.launch(f, f.order, now); err != nil {
				r.failed(f, err)
				return false
			}
		}
		r.lookAhead(now)
		return r.arrive()
	}
	return false
}

// nudge has the flights go on whose places have come: their data is on its way while
// the consumer works.
func (r *Reader) nudge() {
	for _, f := range r.ahead[:r.flying] {
		if f.state == flightLocating {
			f.await(time.Time{}) // what goes wrong is met when its turn comes
		}
	}
}

// ground gives all flights back; bytes that were lent die.
func (r *Reader) ground() {
	if r.cur != nil {
		r.c.hangar.put(r.cur)
		r.cur = nil
	}
	for i, f := range r.ahead[:r.flying] {
		r.c.hangar.put(f)
		r.ahead[i] = nil
	}
	r.flying = 0
}

// arrive waits for the current flight, with a second one beside it when it is slow,
// and takes what it has brought. false: nothing, and it is known to tail.
func (r *Reader) arrive() bool {
	f := r.cur
	if len(r.here.ro.peers) == 1 {
		return r.await(f)
	}
	if landed, err := f.awaitFor(r.c.cfg.HedgeDelay); landed {
		return r.arrived(f, err)
	}
	return r.hedge(f)
}

// await waits for the current flight for as long as it may take.
func (r *Reader) await(f *flight) bool {
	return r.arrived(f, f.finish())
}

// arrived takes how the current flight has ended, and reports whether it has brought
// data.
func (r *Reader) arrived(f *flight, err error) bool {
	switch {
	case err != nil:
		r.failed(f, err)
	case !r.brought(f):
		r.missed(f, reasonHole)
	default:
		return true
	}
	return false
}

// brought counts what a flight has brought, remembers its places, and reports whether
// that is data.
func (r *Reader) brought(f *flight) bool {
	r.c.landed(f)
	for i := range f.extents {
		if k := f.spans[i].place; k.fresh {
			r.places.add(f.via.epoch, k)
		}
	}
	return f.n > 0
}

// landed counts what a flight has brought.
func (c *Cluster) landed(f *flight) {
	c.count.located(f.located)
	for i := range f.n {
		s := &f.spans[i]
		n := 1
		if s.descs != nil {
			n = 2
		}
		c.count.read(f.via.source, n, len(s.data)+len(s.descs))
	}
	if p := f.via.peer; p != nil {
		p.reads.Add(uint64(f.n))
	}
}

// missed takes that a flight has not brought the byte at the position, and why.
func (r *Reader) missed(f *flight, why reason) {
	if r.noted(f, why) {
		return
	}
	v, _ := r.look(r.c.now())
	r.tail.failed(v, why)
}

// noted counts why a flight has not brought a byte. It reports whether that was to
// be expected: a partial replica that lacks it.
func (r *Reader) noted(f *flight, why reason) (expected bool) {
	if f.hot {
		r.f.chill()
	}
	r.places.forget(f.via.epoch)
	lacks := why == reasonHole || why == reasonShort
	if lacks && len(r.here.ro.peers) > 1 {
		r.late.lacked(f.via.peer, r.c.now())
	}
	if lacks && f.partial {
		r.c.count.partialMisses.Add(1)
		r.tail.partialMissed()
		return true
	}
	r.c.count.retry(why)
	if lacks {
		r.trace.holes.Add(1)
	}
	return false
}

// failed takes that nothing was read over the current flight's path.
func (r *Reader) failed(f *flight, err error) {
	why := r.c.failed(f, err)
	r.trace.fail(why)
	r.places.forget(f.via.epoch)
	r.c.cfg.Logger.Debug("memory read failed", "shard", r.f.key.name, "transport", f.via.source.String(), "err", err)
	r.c.hangar.put(f)
	r.cur = nil
	v, _ := r.look(r.c.now())
	r.tail.failed(v, why)
}

// failed counts that a flight has failed. Its path rests, unless it only had no
// memory left to read into.
func (c *Cluster) failed(f *flight, err error) reason {
	switch {
	case noBuffers(err):
		c.count.retry(reasonBuffers)
		return reasonBuffers
	case errors.Is(err, errBudget):
		c.count.retry(reasonBudget)
		return reasonBudget
	}
	why := f.via.failed(c.now(), err)
	c.count.failed(f.via.source, why)
	return why
}
