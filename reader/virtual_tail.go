package reader

import (
	"os"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// virtualTail is a Reader of a Virtual: Reader.advance in events.
type virtualTail struct {
	v     *Virtual
	r     *Reader
	shard int

	kind    tryKind
	asks    []*Ask  // reads under way that are of use yet
	race    verdict // of those that have ended, when there are several
	hedging bool    // a second replica was thought of
	wakeAt  time.Time
}

type tryKind int

const (
	idle tryKind = iota
	relaxedTry
	hedgedTry
	quorumTry
	storeTry
)

// step is one turn of Reader.advance.
func (t *virtualTail) step(now time.Time) {
	r := t.r
	for t.kind == idle {
		v, pub := r.look(now)
		switch a := r.tail.next(v); a.kind {
		case doRead:
			if !r.depart(a, pub, now) {
				continue
			}
			t.begin(relaxedTry)
			t.send(r.cur, now)
		case doQuorum:
			t.quorum(a, pub, now)
		case doFill:
			r.tail.fillFailed() // no node of a World reads the store for others
		case doDurable:
			t.kind = storeTry
			size := min(max(a.to-a.from, blockMin), uint64(min(blockMax, t.v.site.cfg.Prefetch)))
			t.store(&Ask{Kind: AskStore, v: t.v, tail: t, Bytes: int(size), from: a.from, to: a.from + size}, now)
		case doStat:
			if r.f.claimStat(now, v.blind) {
				t.kind = storeTry
				t.store(&Ask{Kind: AskStat, v: t.v, tail: t}, now)
			}
		default:
			t.wait(a.until, now)
			return
		}
	}
}

// wait goes on at a time, unless there is news before.
func (t *virtualTail) wait(until, now time.Time) {
	if until.IsZero() || !t.wakeAt.Before(now) && !t.wakeAt.After(until) && !t.wakeAt.IsZero() {
		return // never, or a call before it is on its way: it looks again
	}
	t.wakeAt = until
	t.v.site.world.At(latest(until, now), t)
}

// Due is the end of a wait.
func (t *virtualTail) Due(now time.Time) {
	t.v.site.now = now
	if now.Equal(t.wakeAt) {
		t.wakeAt = time.Time{}
	}
	if t.kind == idle {
		t.step(now)
	}
}

func (t *virtualTail) begin(k tryKind) { t.kind, t.race, t.hedging = k, verdict{}, false }

// send has the reads of a flight carried that were posted.
func (t *virtualTail) send(f *flight, now time.Time) {
	a := &Ask{Kind: AskData, v: t.v, tail: t, flight: f}
	t.asks = append(t.asks, a)
	t.carry(a, now)
}

func (t *virtualTail) carry(a *Ask, now time.Time) {
	a.Node = int(a.flight.via.epoch) - 1
	answered := t.v.send(a, a.flight.b.(*virtualBatch), now, a.flight.timeout)
	if hedge := t.v.site.cfg.HedgeDelay; t.kind == relaxedTry && !t.hedging && answered.Sub(now) > hedge {
		t.hedging = true
		t.v.site.world.At(now.Add(hedge), &virtualHedge{t, a})
	}
}

// virtualHedge is when a read is slow.
type virtualHedge struct {
	t *virtualTail
	a *Ask
}

// Due is Reader.hedge.
func (h *virtualHedge) Due(now time.Time) {
	t, first := h.t, h.a.flight
	t.v.site.now = now
	if t.kind != relaxedTry || len(t.asks) != 1 || t.asks[0] != h.a {
		return
	}
	r := t.r
	i, usual := r.other(first, now)
	if i < 0 {
		return
	}
	if due := first.posted.Add(max(t.v.site.cfg.HedgeDelay, 2*usual)); now.Before(due) {
		t.v.site.world.At(due, h)
		return
	}
	o := r.order(&r.there, &r.there.replicas[i], 0, first.pub, first.from, first.to, r.prefix)
	second := r.c.hangar.take()
	if err := r.begin(second, o, now); err != nil {
		r.c.failed(second, err)
		r.c.hangar.put(second)
		return
	}
	r.c.count.hedges.Add(1)
	r.cur = nil
	t.kind = hedgedTry
	t.send(second, now)
}

// quorum is Reader.quorum.
func (t *virtualTail) quorum(a action, pub published, now time.Time) {
	r := t.r
	if r.cur != nil {
		r.c.hangar.put(r.cur)
		r.cur = nil
	}
	r.c.count.quorums.Add(1)
	t.begin(quorumTry)
	to := min(a.to, (layout.Extent(a.from)+1)*layout.ExtentSize)
	for i := range r.here.full {
		o := r.order(&r.here, &r.here.replicas[i], a.path, pub, a.from, to, r.prefix)
		f := r.c.hangar.take()
		if err := r.begin(f, o, now); err != nil {
			t.race.add(r.c.failed(f, err))
			r.c.hangar.put(f)
			continue
		}
		t.send(f, now)
	}
	if len(t.asks) == 0 {
		t.lost(now)
	}
}

// landed takes an answer to reads of extents, or that there was none in time.
func (t *virtualTail) landed(a *Ask, now time.Time) {
	f, r := a.flight, t.r
	var err error
	switch {
	case a.failing:
		err = os.ErrDeadlineExceeded
		f.end(err)
	default:
		if f.state == flightLocating {
			t.v.fillSets(t, f, a.served)
		}
		if err = f.settled(f.posted); err != nil {
			f.end(err)
		} else if f.state != flightLanded { // its places were read, now its data is
			t.carry(a, now)
			return
		}
	}
	i := slices.Index(t.asks, a)
	if i < 0 { // it has lost its race
		r.c.late(outcome{f, err})
		return
	}
	t.asks = slices.Delete(t.asks, i, i+1)
	if t.kind == relaxedTry {
		t.kind = idle
		if r.arrived(f, err) {
			t.deliver(a, now)
		}
		t.step(now)
		return
	}
	if t.raced(a, err, now) {
		t.step(now)
	}
}

// raced takes the end of one read of several, as Reader.race and proves do. It
// reports whether the race is over.
func (t *virtualTail) raced(a *Ask, err error, now time.Time) (over bool) {
	f, r := a.flight, t.r
	why := reasonHole
	switch {
	case err != nil:
		t.race.add(r.c.failed(f, err))
		r.places.forget(f.via.epoch)
	default:
		if r.brought(f) {
			if why = t.provable(a); why == proven {
				t.won(a, now)
				return true
			}
		}
		if r.noted(f, why) {
			t.race.partial++
		} else {
			t.race.add(why)
		}
	}
	r.c.hangar.put(f)
	if len(t.asks) > 0 {
		return false
	}
	t.lost(now)
	return true
}

// won ends a race.
func (t *virtualTail) won(a *Ask, now time.Time) {
	r := t.r
	running := map[*flight]time.Time{}
	for _, other := range t.asks {
		running[other.flight] = other.flight.posted
	}
	r.slow(running)
	if t.kind == hedgedTry && len(t.asks) > 0 && t.asks[0].posted.Before(a.posted) {
		r.c.count.hedgeWins.Add(1)
	}
	t.asks, t.kind = t.asks[:0], idle
	r.cur = a.flight
	t.deliver(a, now)
}

// lost ends a race that nobody has won.
func (t *virtualTail) lost(now time.Time) {
	v, _ := t.r.look(now)
	switch {
	case t.kind == quorumTry:
		t.r.tail.quorumFailed(v, t.race.why(), t.race.holes)
	case t.race != verdict{partial: t.race.partial}:
		t.r.tail.failed(v, t.race.why())
	}
	t.kind = idle
}

// provable says whether the first span of a landed flight is what its node holds.
func (t *virtualTail) provable(a *Ask) reason {
	s := &a.flight.spans[0]
	end, _ := t.v.site.world.Holds(a.Node, t.shard, s.extent, a.served)
	switch {
	case end == 0:
		return reasonMoved
	case end < s.to:
		return reasonShort
	}
	return proven
}

// deliver is Reader.deliver for all spans of the current flight.
func (t *virtualTail) deliver(a *Ask, now time.Time) {
	f, r := a.flight, t.r
	for f.next < f.n {
		s := &f.spans[f.next]
		end, _ := t.v.site.world.Holds(a.Node, t.shard, s.extent, a.served)
		f.next++
		if end < s.to {
			why := reasonShort
			if end == 0 {
				why = reasonMoved
			}
			f.next = f.n
			r.missed(f, why)
			break
		}
		r.prefix = prefix{known: true}
		f.via.worked()
		if r.late.n > 0 {
			r.late.served(f.via.peer)
		}
		r.delivered(t.v.site.scratch[:s.to-s.from], f.via.source)
		t.v.site.world.Delivered(t.v, t.shard, s.from, s.to, f.via.source)
	}
	if r.cur != nil {
		r.c.hangar.put(r.cur)
		r.cur = nil
	}
}

// store asks the durable store, of which a process asks a few questions at once.
func (t *virtualTail) store(a *Ask, now time.Time) {
	v := t.v
	a.Node, a.Reads = -1, 1
	if a.Kind == AskStore && v.asking == v.site.cfg.DurableConcurrency {
		v.waiting = append(v.waiting, a)
		return
	}
	if a.Kind == AskStore {
		v.asking++
	}
	a.posted = now
	served, answered, ok := v.site.world.Ask(a)
	a.served, a.failing = served, !ok || answered.Sub(now) > durableTimeout
	if a.failing {
		answered = now.Add(durableTimeout)
	}
	v.site.world.At(answered, a)
}

// told takes what the durable store says.
func (t *virtualTail) told(a *Ask, now time.Time) {
	v, r := t.v, t.r
	t.kind = idle
	if a.Kind == AskStore {
		v.asking--
	}
	info := v.site.world.Durable(t.shard, a.served)
	switch {
	case a.Kind == AskStat:
		if !a.failing {
			r.f.info(info)
		}
		r.f.asked(now)
	case a.failing || info.Length <= r.tail.pos:
		r.tail.durableFailed(now)
	default:
		data := v.site.scratch[:min(a.to, info.Length)-a.from]
		r.c.count.read(FromDurable, 1, len(data))
		r.prefix = r.prefix.extend(r.h, a.from, data)
		r.delivered(data, FromDurable)
		v.site.world.Delivered(v, t.shard, a.from, a.from+uint64(len(data)), FromDurable)
	}
	if len(v.waiting) > 0 && a.Kind == AskStore {
		next := v.waiting[0]
		v.waiting = v.waiting[1:]
		next.tail.store(next, now)
	}
	t.step(now)
}
