package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// Reader delivers one shard's bytes in order, without a gap, at least once. It
// starts no goroutine: reading happens in Next. One goroutine at a time may call
// Next, Read, WriteTo and Seek; Position, Lag and Close may be called at any
// time by any.
type Reader struct {
	c *Cluster
	f *follow
	h layout.Hash

	tail   tail
	prefix prefix
	places places
	// cur is being delivered; ahead is on its way while there is a backlog.
	cur, ahead flight
	rest       []byte // of the last batch, for Read
	err        error  // ended; only Seek goes on
	timer      *time.Timer

	pos    atomic.Uint64 // tail.pos, for other goroutines
	news   chan struct{} // capacity 1
	closed atomic.Bool
	busy   chan struct{} // capacity 1: held by Next, and by Close when it frees
}

// Batch is a run of verified bytes of a shard.
type Batch struct {
	// Position of the first byte.
	Position uint64
	// Data is lent until the next call of Next, Read, WriteTo, Seek or Close:
	// copy what is to live longer. It may be memory that a NIC writes afterwards.
	Data   []byte
	Source Source
}

// durableTimeout bounds one question to the durable store.
const durableTimeout = 5 * time.Second

// Reader opens a shard ("stream/NNNN"). ctx bounds the look-up. Errors match
// wire.ErrUnknownShard, ErrGap and ErrBeyond among others.
func (c *Cluster) Reader(ctx context.Context, shard string, from From) (*Reader, error) {
	s, err := layout.ParseShard(shard)
	if err != nil {
		return nil, err
	}
	info, known, err := c.info(ctx, s)
	if err != nil {
		return nil, err
	}
	pos, err := from.resolve(s.String(), info, known)
	if err != nil {
		return nil, err
	}
	r := &Reader{c: c, h: s.Hash(info.Incarnation), news: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour)}
	r.tail.delay = c.cfg.DurableDelay
	r.start(pos)
	if r.f, err = c.follow(s, info, r); err != nil {
		return nil, err
	}
	return r, nil
}

// info asks the store about a shard, and the cache when the store is away.
func (c *Cluster) info(ctx context.Context, s layout.Shard) (i durable.Info, known bool, err error) {
	i, err = c.gate.store.Stat(ctx, s.String())
	if err == nil || errors.Is(err, wire.ErrUnknownShard) {
		return i, true, err
	}
	for _, via := range c.paths(time.Now()) {
		if e, cacheErr := c.entryOf(via, s); cacheErr == nil && e.Valid(s.Hash(e.Incarnation)) {
			return durable.Info{Incarnation: e.Incarnation, Length: e.Length}, false, nil
		}
	}
	return i, false, fmt.Errorf("%s: %w", s, err)
}

// entryOf reads one shard's entry from the cache.
func (c *Cluster) entryOf(via *path, s layout.Shard) (e layout.Entry, err error) {
	g := &page{key: layout.StreamHash(s.Stream), number: s.Page()}
	g.shards.Store(new([]*follow))
	if err := (&poller{c: c}).locate(via, []*page{g}); err != nil || !g.found {
		return e, err
	}
	b, err := via.newBatch(layout.EntrySize)
	if err != nil {
		return e, err
	}
	defer b.Release()
	p := b.Add(via.geometry.PageSlot(g.index)+uint64(s.EntryOffset()), layout.EntrySize)
	if p == nil {
		return e, errBatchRoom
	}
	if err := settle(b, time.Now().Add(c.cfg.ReadTimeout)); err != nil {
		return e, err
	}
	return layout.ParseEntry(p, 0), nil
}

// start puts the Reader at a position, with nothing known about it.
func (r *Reader) start(pos uint64) {
	r.cur.release()
	r.ahead.release()
	r.rest, r.err = nil, nil
	r.tail.seek(pos)
	r.prefix = prefixAt(r.h, pos)
	r.pos.Store(pos)
}

// Next returns the next bytes, waiting for them until ctx ends. io.EOF is the end
// of a sealed shard. A *GapError means that bytes are gone: Seek decides how to
// go on. Other errors that end the Reader are ErrRecreated and ErrClosed; the
// trouble of a transport or store is not an error here: it is counted, and
// another resort is used.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	if !r.enter() {
		return Batch{}, ErrClosed
	}
	defer r.leave()
	return r.advance(ctx)
}

func (r *Reader) enter() bool {
	r.busy <- struct{}{}
	if r.closed.Load() {
		<-r.busy
		return false
	}
	return true
}

func (r *Reader) leave() { <-r.busy }

// advance is Next for one who has entered.
func (r *Reader) advance(ctx context.Context) (Batch, error) {
	if r.rest = nil; r.err != nil {
		return Batch{}, r.err
	}
	for {
		if b, ok := r.deliver(); ok {
			return b, nil
		}
		now := time.Now()
		v, pub, paths := r.c.view(r.f, now)
		switch a := r.tail.next(v); a.kind {
		case doRead:
			r.read(paths[a.path], v, pub)
		case doDurable:
			if b, ok, err := r.readDurable(ctx, v, a); ok || err != nil {
				return b, err
			}
		case doStat:
			if err := r.stat(ctx, v); err != nil {
				return Batch{}, err
			}
		case doEnd:
			return Batch{}, io.EOF
		case doWait:
			if err := r.wait(ctx, a.until); err != nil {
				return Batch{}, err
			}
		}
		if r.closed.Load() {
			return Batch{}, ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
	}
}

// deliver hands out the next proven span of what has been read, if any.
func (r *Reader) deliver() (Batch, bool) {
	if r.cur.next == r.cur.n && r.ahead.state == flightPosted {
		r.cur, r.ahead = r.ahead, r.cur
		if r.cur.from != r.tail.pos { // something in between was not proven
			r.cur.release()
		} else if err := r.cur.land(); err != nil {
			r.pathFailed(r.cur.via, err)
		} else {
			r.lookAhead()
		}
	}
	if r.cur.next >= r.cur.n {
		return Batch{}, false
	}
	via, s := r.cur.via, &r.cur.spans[r.cur.next]
	data, after, why := r.cur.verify(r.prefix)
	if r.cur.next++; len(data) < int(s.to-s.from) {
		r.cur.next = r.cur.n // what follows would leave a gap
		r.places.forget()
	}
	if len(data) == 0 {
		r.c.count.retry(why)
		v, _, _ := r.c.view(r.f, time.Now())
		r.tail.failed(v, why)
		return Batch{}, false
	}
	r.prefix = after
	via.worked()
	return r.delivered(data, via.source), true
}

// delivered moves the position over bytes that are handed out.
func (r *Reader) delivered(data []byte, from Source) Batch {
	b := Batch{Position: r.tail.pos, Data: data, Source: from}
	r.tail.delivered(len(data), from)
	r.pos.Store(r.tail.pos)
	r.c.count.delivered(from, len(data))
	return b
}

// read fetches what is published at the position.
func (r *Reader) read(via *path, v view, pub published) {
	ok, err := r.launch(&r.cur, via, pub, r.tail.pos, r.prefix)
	if err == nil && ok {
		r.lookAhead()
		err = r.cur.land()
	}
	switch {
	case err != nil:
		r.pathFailed(via, err)
		r.cur.release()
		r.ahead.release()
	case !ok:
		r.c.count.retry(reasonHole)
		r.tail.failed(v, reasonHole)
	}
}

// lookAhead begins to fetch what comes after the current flight when there is a
// backlog, so that the consumer's work and the reading overlap. What goes wrong
// here is met again when its turn comes.
func (r *Reader) lookAhead() {
	_, pub, _ := r.c.view(r.f, time.Now())
	from := r.cur.to
	if r.cur.via.source == FromSHM { // a copy is not on its way while the consumer works
		return
	}
	if from+layout.ExtentSize > pub.length || from%layout.ChunkSize != 0 {
		return
	}
	if _, err := r.launch(&r.ahead, r.cur.via, pub, from, prefixAt(r.h, from)); err != nil {
		r.ahead.release()
	}
}

// launch locates, plans and posts one flight. ok is false when the node does not
// hold the first extent.
func (r *Reader) launch(f *flight, via *path, pub published, from uint64, pre prefix) (ok bool, err error) {
	limit := via.flightBytes(r.c.cfg.Prefetch)
	first := layout.Extent(from)
	last := min(layout.Extent(pub.length-1), layout.Extent(from+uint64(limit)-1), first+maxSpans-1)
	deadline := time.Now().Add(r.c.cfg.ReadTimeout)
	var room [maxSpans]place
	at, err := r.places.locate(via, r.h, first, last, deadline, room[:0])
	if err != nil || len(at) == 0 {
		return false, err
	}
	for _, k := range at {
		if k.fresh {
			r.c.count.located(2)
		}
	}
	if err := f.plan(via, r.h, pub, from, pre, at, limit); err != nil {
		return false, err
	}
	if err := f.post(deadline); err != nil {
		return false, err
	}
	for i := range f.n {
		s := &f.spans[i]
		n := 1
		if s.descs != nil {
			n = 2
		}
		r.c.count.read(via.source, n, len(s.data)+len(s.descs))
	}
	return true, nil
}

func (r *Reader) pathFailed(via *path, err error) {
	now := time.Now()
	why := via.failed(now, err)
	r.c.count.failed(via.source, why)
	r.places.forget()
	v, _, _ := r.c.view(r.f, now)
	r.tail.failed(v, why)
	r.c.cfg.Logger.Debug("memory read failed", "shard", r.f.name, "transport", via.source.String(), "err", err)
}

// readDurable fetches from the durable store. ok is false when it had nothing.
func (r *Reader) readDurable(ctx context.Context, v view, a action) (b Batch, ok bool, err error) {
	r.cur.release()
	r.ahead.release()
	bounded, cancel := context.WithTimeout(ctx, durableTimeout)
	defer cancel()
	data, err := r.c.gate.read(bounded, r.f.name, a.from, a.to)
	if len(data) > 0 {
		r.c.count.read(FromDurable, 1, len(data))
		r.prefix = r.prefix.extend(r.h, a.from, data)
		return r.delivered(data, FromDurable), true, nil
	}
	if ctx.Err() != nil {
		return b, false, ctx.Err()
	}
	if err != nil {
		r.c.count.failed(FromDurable, reasonTransport)
		r.c.cfg.Logger.Debug("durable read failed", "shard", r.f.name, "position", a.from, "err", err)
	}
	r.tail.durableFailed(v)
	return b, false, r.final(ctx, err)
}

// stat asks the store how long the shard is, if no other Reader just did.
func (r *Reader) stat(ctx context.Context, v view) error {
	if !r.f.claimStat(v.now, v.blind) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, durableTimeout)
	defer cancel()
	i, err := r.c.gate.store.Stat(bounded, r.f.name)
	if err != nil {
		return r.final(ctx, err)
	}
	if !r.f.info(i) {
		r.err = fmt.Errorf("%s: %w", r.f.name, ErrRecreated)
	}
	return r.err
}

// final turns the store's answer into the Reader's end if it is one: bytes out
// of retention, or no such shard. Other trouble passes.
func (r *Reader) final(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, wire.ErrOutOfRetention):
		bounded, cancel := context.WithTimeout(ctx, durableTimeout)
		defer cancel()
		i, statErr := r.c.gate.store.Stat(bounded, r.f.name)
		if statErr != nil || i.First <= r.tail.pos {
			return nil // changed meanwhile: try again
		}
		r.err = &GapError{Shard: r.f.name, Want: r.tail.pos, First: i.First, Length: i.Length}
	case errors.Is(err, wire.ErrUnknownShard):
		r.err = err
	}
	return r.err
}

// wait sleeps until news, a time (zero: none), the end of ctx, or Close.
func (r *Reader) wait(ctx context.Context, until time.Time) error {
	if r.cur.size > smallFlight {
		r.cur.release()
	}
	r.ahead.release()
	var timer <-chan time.Time
	if !until.IsZero() {
		r.timer.Reset(time.Until(until))
		timer = r.timer.C
	}
	select {
	case <-r.news:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.c.stop:
		return ErrClosed
	}
	return nil
}

func (r *Reader) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Position returns the position of the next byte to be delivered: what a
// consumer stores to go on with At after a restart.
func (r *Reader) Position() uint64 { return r.pos.Load() }

// Lag returns how many bytes are known to exist behind Position.
func (r *Reader) Lag() uint64 {
	v, _, _ := r.c.view(r.f, time.Now())
	end, pos := max(v.length, v.stored), r.pos.Load()
	return end - min(pos, end)
}

// Seek goes on at another position, also after a *GapError.
func (r *Reader) Seek(ctx context.Context, from From) error {
	if !r.enter() {
		return ErrClosed
	}
	defer r.leave()
	info, known, err := r.c.info(ctx, r.f.shard)
	if err != nil {
		return err
	}
	if !r.f.info(info) {
		return fmt.Errorf("%s: %w", r.f.name, ErrRecreated)
	}
	pos, err := from.resolve(r.f.name, info, known)
	if err != nil {
		return err
	}
	r.start(pos)
	return nil
}

// Close ends the Reader and gives its memory back. A Next under way returns
// ErrClosed.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.wake()
	r.busy <- struct{}{} // until Next has returned
	defer func() { <-r.busy }()
	r.cur.release()
	r.ahead.release()
	r.rest = nil
	r.timer.Stop()
	r.c.unfollow(r.f, r)
	return nil
}
