package reader

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Reader delivers one shard's bytes in order, without a gap, at least once.
// Reading happens in Next; only a question to the durable store has a goroutine,
// which ends with its answer and at the latest with Close. One goroutine at a time
// may call Next, Read, WriteTo and Seek; Position, Lag and Close may be called at
// any time by any.
type Reader struct {
	c *Cluster
	f *follow
	h layout.Hash

	tail   tail
	prefix prefix
	places places
	here   reach // of the position
	there  reach // of what is looked at beside it
	late   laggards
	// cur is being delivered, or nil; ahead[:flying] is on its way while there is a
	// backlog, in order.
	cur    *flight
	ahead  [aheadMost]*flight
	flying int
	rest   Batch     // of the last batch, what Read or WriteTo did not get rid of
	err    error     // ended; only Seek goes on
	asked  *question // of the durable store, not answered yet or not taken; or nil
	timer  *time.Timer

	trace  trace
	seat   int             // in f.mu.readers, guarded by f.mu; negative: none
	pos    atomic.Uint64   // where rest begins, else tail.pos; for other goroutines
	news   chan struct{}   // capacity 1
	ctx    context.Context // ends with Close and with the Cluster
	cancel context.CancelFunc
	busy   chan struct{} // capacity 1: held by Next, and by Close when it frees
}

// Batch is a run of verified bytes of a shard.
type Batch struct {
	// Position of the first byte.
	Position uint64
	// Data is lent until the next call of Next, Read, WriteTo, Seek or Close:
	// copy what is to live longer. It may be memory that a NIC writes afterwards.
	// Only read it: bytes of the durable store are lent to several Readers at once.
	Data   []byte
	Source Source
}

// Option is a setting of one Reader.
type Option func(*Reader)

// Rate caps what a Reader delivers, in bytes a second on average; a step may bring
// what is enough for 100 ms, or a chunk. 0: no cap.
func Rate(bytesPerSecond int64) Option {
	return func(r *Reader) { r.tail.rate = max(bytesPerSecond, 0) }
}

// Reader opens a shard ("stream/NNNN"). ctx bounds the look-up, which a node that sheds
// load makes last longer: it is asked again until ctx ends, or for 5 s if that has no
// deadline. Errors match wire.ErrUnknownShard, ErrGap, ErrBeyond, and wire.ErrBusy
// among others.
func (c *Cluster) Reader(ctx context.Context, shard string, from From, options ...Option) (*Reader, error) {
	s, err := layout.ParseShard(shard)
	if err != nil {
		return nil, err
	}
	info, away, err := c.info(ctx, s, from)
	if err != nil {
		return nil, err
	}
	pos, err := c.begin(s, from, info, away)
	if err != nil {
		return nil, err
	}
	r := &Reader{c: c, h: s.Hash(info.Incarnation), news: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour)}
	if c.roster.Load() != nil { // else there is no cache to wait for
		r.tail.delay = c.cfg.DurableDelay
	}
	for _, o := range options {
		o(r)
	}
	r.start(pos, info.Length)
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	if r.f, err = c.follow(s, info, r); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// start puts the Reader at a position of a shard that has a length by now, with
// nothing known about the position.
func (r *Reader) start(pos, length uint64) {
	r.ground()
	r.rest, r.err = Batch{}, nil
	r.tail.seek(pos, length)
	r.here.places = &r.places
	r.prefix = prefixAt(r.h, pos)
	r.pos.Store(pos)
	r.trace.born.Store(length)
}

// Next returns the next bytes, waiting for them until ctx ends. io.EOF is the end
// of a sealed shard. A *GapError means that bytes are gone: Seek decides how to
// go on. Other errors that end the Reader are ErrRecreated, wire.ErrUnknownShard
// (the shard was deleted) and ErrClosed; the trouble of a transport or store is
// not an error here: it is counted, and another resort is used.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	if !r.enter() {
		return Batch{}, ErrClosed
	}
	defer r.leave()
	if b := r.rest; len(b.Data) > 0 {
		r.used(len(b.Data))
		return b, nil
	}
	return r.advance(ctx)
}

func (r *Reader) enter() bool {
	r.busy <- struct{}{}
	if r.ctx.Err() != nil {
		<-r.busy
		return false
	}
	r.trace.turn()
	return true
}

func (r *Reader) leave() {
	r.trace.turn()
	<-r.busy
}

// advance is Next for one who has entered, with no rest.
func (r *Reader) advance(ctx context.Context) (Batch, error) {
	if r.err != nil {
		return Batch{}, r.err
	}
	for {
		if b, ok := r.deliver(); ok {
			return b, nil
		}
		now := time.Now()
		v, pub := r.look(now)
		switch a := r.tail.next(v); a.kind {
		case doRead:
			r.read(a, pub, now)
		case doQuorum:
			r.quorum(a, pub, now)
		case doFill, doDurable, doStat:
			if b, ok, err := r.resort(ctx, a, v); ok || err != nil {
				return b, err
			}
		case doEnd:
			return Batch{}, io.EOF
		case doWait:
			if r.tail.rate > 0 {
				r.trace.capped.Store(now.Before(r.tail.idleTo))
			}
			if err := r.wait(ctx, a.until); err != nil {
				return Batch{}, err
			}
		}
		if r.ctx.Err() != nil {
			return Batch{}, ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
	}
}

// look learns what the next step is decided upon.
func (r *Reader) look(now time.Time) (view, published) {
	r.here.find(r.c.roster.Load(), r.h, layout.Extent(r.tail.pos), now)
	v, pub := r.f.view(now, r.f.page.isBlind(now))
	v.paths, v.replicas, v.backAt = r.here.paths, r.here.full, r.here.backAt
	v.fills = r.tail.cold && !r.tail.filled && r.here.ro != nil && r.here.ro.filler(r.h, r.here.extent, now) != nil
	return v, pub
}

// deliver hands out the next proven span of what has been read, if any.
func (r *Reader) deliver() (Batch, bool) {
	r.nudge()
	if (r.cur == nil || r.cur.next == r.cur.n) && !r.takeAhead() {
		return Batch{}, false
	}
	f := r.cur
	s := &f.spans[f.next]
	data, after, why := f.verify(r.prefix)
	if f.next++; len(data) < int(s.to-s.from) {
		f.next = f.n // what follows would leave a gap
		r.places.forget(f.via.epoch)
	}
	if len(data) == 0 {
		r.missed(f, why)
		return Batch{}, false
	}
	r.prefix = after
	f.via.worked()
	if r.late.n > 0 {
		r.late.served(f.via.peer)
	}
	return r.delivered(data, f.via.source), true
}

// used takes n bytes of the rest as handed out.
func (r *Reader) used(n int) {
	r.rest.Position += uint64(n)
	r.rest.Data = r.rest.Data[n:]
	r.pos.Store(r.rest.Position)
}

// delivered moves the position over bytes that are handed out.
func (r *Reader) delivered(data []byte, from Source) Batch {
	b := Batch{Position: r.tail.pos, Data: data, Source: from}
	r.tail.delivered(len(data), from)
	if r.tail.rate > 0 {
		r.tail.spent(r.c.now(), len(data))
	}
	r.pos.Store(r.tail.pos)
	r.c.count.delivered(from, len(data))
	r.trace.delivered(from, len(data))
	return b
}

// wait sleeps until news, a time (zero: none), the end of ctx, or Close.
func (r *Reader) wait(ctx context.Context, until time.Time) error {
	r.ground() // batch memory is a connection's, and few of many Readers are not waiting
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
	case <-r.ctx.Done():
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
	end, pos := r.f.end(), r.pos.Load()
	return end - min(pos, end)
}

// Seek goes on at another position, also after a *GapError. ctx bounds the look-up.
// After an error the Reader is where it was.
func (r *Reader) Seek(ctx context.Context, from From) error {
	if !r.enter() {
		return ErrClosed
	}
	defer r.leave()
	info, away, err := r.c.info(ctx, r.f.shard, from)
	if err != nil {
		return err
	}
	if !r.f.info(info) {
		return fmt.Errorf("%s: %w", r.f.key.name, ErrRecreated)
	}
	pos, err := r.c.begin(r.f.shard, from, info, away)
	if err != nil {
		return err
	}
	r.start(pos, info.Length)
	return nil
}

// Close ends the Reader and gives its memory back. A Next under way returns at
// once, with ErrClosed if it has nothing yet; Close waits for it, and for a Write
// of WriteTo.
func (r *Reader) Close() error {
	r.cancel()
	r.busy <- struct{}{} // until Next has returned
	defer func() { <-r.busy }()
	if r.asked != nil {
		<-r.asked.done
		r.asked = nil
	}
	r.ground()
	r.rest = Batch{}
	r.timer.Stop()
	r.c.unfollow(r.f, r)
	return nil
}
