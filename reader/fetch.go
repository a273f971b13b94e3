package reader

import (
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// read fetches what is published at the position.
func (r *Reader) read(via *path, v view, pub published) {
	ok, err := r.prepare(&r.cur, via, pub, r.tail.pos, r.prefix)
	switch {
	case err != nil:
	case !ok:
		r.c.count.retry(reasonHole)
		r.tail.failed(v, reasonHole)
		return
	case r.backlog(pub):
		if err = r.cur.post(); err == nil {
			r.lookAhead()
			err = r.cur.land()
		}
	default:
		err = r.cur.settle()
	}
	if err != nil {
		r.memoryFailed(via, err)
		r.cur.release()
		r.ahead.release()
		return
	}
	r.landed()
}

// backlog reports whether there is something to fetch behind the current flight
// already. Of shared memory there is not: a copy is not on its way while the
// consumer works.
func (r *Reader) backlog(pub published) bool {
	return r.cur.via.source != FromSHM && r.cur.to+layout.ExtentSize <= pub.length && r.cur.to%layout.ChunkSize == 0
}

// lookAhead begins to fetch what comes after the current flight when there is a
// backlog, so that the consumer's work and the reading overlap. What goes wrong
// here is met again when its turn comes.
func (r *Reader) lookAhead() {
	_, pub, _ := r.c.view(r.f, time.Now())
	if !r.backlog(pub) {
		return
	}
	from := r.cur.to
	ok, err := r.prepare(&r.ahead, r.cur.via, pub, from, prefixAt(r.h, from))
	if ok {
		err = r.ahead.post()
	}
	if err != nil {
		r.ahead.release()
	}
}

// prepare locates and plans one flight. ok is false when the node does not hold
// the first extent.
func (r *Reader) prepare(f *flight, via *path, pub published, from uint64, pre prefix) (ok bool, err error) {
	limit := via.flightBytes(r.c.cfg.Prefetch)
	first := layout.Extent(from)
	last := min(layout.Extent(pub.length-1), layout.Extent(from+uint64(limit)-1), first+maxSpans-1)
	deadline := time.Now().Add(r.c.cfg.ReadTimeout)
	var room [maxSpans]place
	at, err := r.places.locate(via, r.h, first, last, deadline, room[:0])
	for _, k := range at {
		if k.fresh {
			r.c.count.located(2)
		}
	}
	if err != nil || len(at) == 0 {
		return false, err
	}
	err = f.plan(via, r.h, pub, from, pre, at, limit, deadline)
	if noBuffers(err) { // rather little than nothing
		err = f.plan(via, r.h, pub, from, pre, at, littleFlight, deadline)
	}
	return err == nil, err
}

// landed counts what the current flight has brought.
func (r *Reader) landed() {
	for i := range r.cur.n {
		s := &r.cur.spans[i]
		n := 1
		if s.descs != nil {
			n = 2
		}
		r.c.count.read(r.cur.via.source, n, len(s.data)+len(s.descs))
	}
}

// memoryFailed takes that nothing was read over a path. The path rests, unless it
// only had no memory left to read into.
func (r *Reader) memoryFailed(via *path, err error) {
	now := time.Now()
	why := reasonBuffers
	if noBuffers(err) {
		r.c.count.retry(why)
	} else {
		why = via.failed(now, err)
		r.c.count.failed(via.source, why)
		r.places.forget()
	}
	v, _, _ := r.c.view(r.f, now)
	r.tail.failed(v, why)
	r.c.cfg.Logger.Debug("memory read failed", "shard", r.f.key.name, "transport", via.source.String(), "err", err)
}
