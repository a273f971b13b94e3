package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// sink takes batches, in order, and tells when they are durable.
type sink interface {
	// start begins at a position, the length unless bytes were sent before by
	// another process. fixed: the bytes have fixed positions, see window.
	start(from uint64, fixed bool)
	// send takes over b. It waits while too much is on its way.
	send(b *batch) error
	// flush waits until all that was sent is durable.
	flush() error
	// length is where the next batch will lie, if nothing is on its way and
	// nobody else appends.
	length() uint64
	// readAt reads what is durable.
	readAt(ctx context.Context, pos uint64, p []byte) (int, error)
	retries() uint64
	seal(context.Context) error
	close(context.Context) error
}

// pipeline appends through a node, with several appends on their way at once,
// and goes on when the node was away. What it decides is window's.
//
// Its goroutine owns all but the channels; close ends it.
type pipeline struct {
	shard    string
	retryFor time.Duration
	inFlight int
	dial     func(context.Context) (*wire.Client, error)
	note     func(error)
	done     func(b *batch, pos uint64) // b is durable at pos; called in order

	in      chan *batch
	flushes chan chan error
	quit    chan struct{}
	ended   chan struct{} // closed after err is set
	err     error
	tried   atomic.Uint64
	at      atomic.Uint64 // end of what is known to be durable

	w        *window
	client   *wire.Client // nil: not connected
	log      *durable.Remote
	flying   chan flight
	landed   chan flight
	troubled time.Time // since when nothing has succeeded; zero: all is well
	backoff  rdma.Backoff
	waiting  []chan error // flushes
	head     []byte
}

// flight is one append on its way, and how it ended.
type flight struct {
	e    *entry
	call *wire.Call
	err  error
}

// open connects for the first time.
func (p *pipeline) open(ctx context.Context) error {
	length, err := p.connect(ctx)
	p.at.Store(length)
	if err != nil && p.client != nil {
		p.client.Close()
	}
	return err
}

// connect dials and learns the length.
func (p *pipeline) connect(ctx context.Context) (length uint64, err error) {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
	client, err := p.dial(ctx)
	if err != nil {
		return 0, err
	}
	p.client, p.log = client, durable.NewRemote(client)
	return p.stat(ctx)
}

func (p *pipeline) stat(ctx context.Context) (length uint64, err error) {
	i, err := p.log.Stat(ctx, p.shard)
	switch {
	case errors.Is(err, wire.ErrUnknownShard): // the first append creates it
		return 0, nil
	case err != nil:
		return 0, err
	case i.Sealed:
		return 0, fmt.Errorf("%w: %s at %d; append to another shard", durable.ErrSealed, p.shard, i.Length)
	}
	return i.Length, nil
}

func (p *pipeline) start(from uint64, fixed bool) {
	p.w = newWindow(from, p.inFlight, fixed)
	p.at.Store(from)
	p.in, p.flushes = make(chan *batch), make(chan chan error)
	p.quit, p.ended = make(chan struct{}), make(chan struct{})
	p.flying, p.landed = make(chan flight, maxFlying), make(chan flight, maxFlying)
	go p.run()
}

func (p *pipeline) send(b *batch) error {
	select {
	case p.in <- b:
		return nil
	case <-p.ended:
		return p.err
	}
}

func (p *pipeline) flush() error {
	c := make(chan error, 1)
	select {
	case p.flushes <- c:
	case <-p.ended:
		return p.err
	}
	select {
	case err := <-c:
		return err
	case <-p.ended:
		return p.err
	}
}

func (p *pipeline) length() uint64  { return p.at.Load() }
func (p *pipeline) retries() uint64 { return p.tried.Load() }

func (p *pipeline) readAt(ctx context.Context, pos uint64, b []byte) (int, error) {
	return p.log.ReadAt(ctx, p.shard, pos, b)
}

func (p *pipeline) seal(context.Context) error {
	return fmt.Errorf("%w: sealing needs --dir", errUsage)
}

// close ends the pipeline. What was not flushed may be lost.
func (p *pipeline) close(context.Context) error {
	if p.quit != nil {
		close(p.quit)
		<-p.ended
	}
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}

func (p *pipeline) run() {
	landing := make(chan struct{})
	go func() {
		defer close(landing)
		for f := range p.flying {
			_, f.err = f.call.Wait()
			p.landed <- f
		}
	}()
	p.err = p.work()
	if p.client != nil && p.w.flying > 0 {
		p.client.Close() // nobody waits for the answers
	}
	close(p.flying)
	<-landing
	close(p.ended)
}

// work ends with quit, or with the error that ends the pipeline.
func (p *pipeline) work() error {
	for {
		p.launch()
		if p.w.failure != nil && p.w.flying == 0 {
			if err := p.recover(); err != nil {
				return err
			}
			continue
		}
		if len(p.w.entries) == 0 {
			for _, c := range p.waiting {
				c <- nil
			}
			p.waiting = p.waiting[:0]
		}
		in := p.in
		if !p.w.room() {
			in = nil
		}
		select {
		case b := <-in:
			p.w.push(b)
		case f := <-p.landed:
			p.land(f)
		case c := <-p.flushes:
			p.waiting = append(p.waiting, c)
		case <-p.quit:
			return errClosedPipe
		}
	}
}

var errClosedPipe = errors.New("pipeline closed")

// launch sends what the window lets go.
func (p *pipeline) launch() {
	for e := p.w.send(); e != nil; e = p.w.send() {
		req := wire.Append{Shard: []byte(p.shard), Offset: e.off, Data: e.b.data}
		head, err := req.AppendTo(p.head[:0])
		var call *wire.Call
		if err == nil {
			p.head = head
			call, err = p.client.Start(time.Now().Add(attemptTimeout), wire.OpAppend, head, e.b.data, nil)
		}
		if err != nil { // not sent
			p.w.answer(e, err, false)
			continue
		}
		p.flying <- flight{e: e, call: call}
	}
}

// attemptTimeout bounds one try, so that a node that hangs is tried again too.
const attemptTimeout = 10 * time.Second

func (p *pipeline) land(f flight) {
	var refused *wire.Error
	known := errors.As(f.err, &refused) && refused.Status != wire.StatusDeadline
	if b := p.w.answer(f.e, f.err, f.err != nil && !known); b != nil {
		p.durable(b, f.e.off)
	}
}

func (p *pipeline) durable(b *batch, pos uint64) {
	p.troubled = time.Time{}
	p.backoff = rdma.Backoff{}
	p.at.Store(pos + uint64(len(b.data)))
	p.done(b, pos)
}

// recover finds out what the failure has left, as often as it takes, until there
// is something to send or the error is final. Nothing is flying.
func (p *pipeline) recover() error {
	for cause := p.w.failure; ; {
		offset := errors.Is(cause, wire.ErrOffset)
		if !offset && !passing(cause) {
			return errors.Join(cause, p.leave())
		}
		// Appends that have overtaken each other, or another writer, are no trouble,
		// unless it goes on without any success.
		if patient := offset && (p.troubled.IsZero() || p.w.alone); !patient {
			if p.troubled.IsZero() {
				p.troubled = time.Now()
			}
			if time.Since(p.troubled) > p.retryFor {
				return cause
			}
			if !offset {
				p.tried.Add(1)
				p.note(cause)
			}
			if !p.pause(p.backoff.Next(nil)) {
				return cause
			}
		} else if p.troubled.IsZero() {
			p.troubled = time.Now()
		}
		err := p.resolve()
		if gone := (*takenBack)(nil); errors.As(err, &gone) {
			p.note(err)
			return nil
		}
		if err == nil || !passing(err) {
			return err
		}
		cause = err
	}
}

// pause waits, unless the pipeline is closed meanwhile.
func (p *pipeline) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.quit:
		return false
	}
}

// resolve asks the node what is durable.
func (p *pipeline) resolve() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	var length uint64
	var err error
	if p.client == nil || p.client.Err() != nil {
		length, err = p.connect(ctx)
	} else {
		length, err = p.stat(ctx)
	}
	if err != nil {
		return err
	}
	return p.w.resolve(length, func(pos uint64, b []byte) error {
		n, err := p.log.ReadAt(ctx, p.shard, pos, b)
		if err == nil && n < len(b) {
			err = fmt.Errorf("%d of %d bytes at %d of %s: %w", n, len(b), pos, p.shard, os.ErrDeadlineExceeded)
		}
		return err
	}, p.durable)
}

// leave finds out, once, what is durable before an error ends the pipeline, so
// that what is reported as appended is all that is.
func (p *pipeline) leave() error {
	for _, e := range p.w.entries {
		if e.doubt || e.taken {
			if err := p.resolve(); err != nil && !passing(err) {
				return err
			}
			return nil
		}
	}
	return nil
}

// passing says whether to try again after err.
func passing(err error) bool { return away(err) || errors.Is(err, wire.ErrFull) }
