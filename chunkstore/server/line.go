package server

import (
	"context"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// lines are the appends of one connection, one line for each shard: they enter the
// shard's queue in the order in which they came, and are answered in it. What
// other connections append goes into the same queue, and shares its flushes.
type lines struct {
	sync.Mutex
	byShard map[layout.Shard]*line // those whose goroutine runs
}

// line is run by one goroutine as long as there is something in it.
type line struct {
	c       *conn
	shard   layout.Shard
	queued  []*appendRequest // not yet in the shard's queue; guarded by lines
	pending []*appendRequest // in it, or refused; the goroutine's
	wake    chan struct{}    // capacity 1: queued has something
}

// appendRequest is one append on its way through a line.
type appendRequest struct {
	h        wire.Header
	payload  []byte
	off      uint64
	data     []byte // in payload
	deadline time.Time
	begun    begun
}

// append puts a request into its line.
func (c *conn) append(h wire.Header, p []byte) error {
	if err := c.s.hasStore(); err != nil {
		return err
	}
	req, err := wire.ParseAppend(p)
	if err != nil {
		return err
	}
	shard, err := parseShard(req.Shard)
	if err != nil {
		return err
	}
	if err := c.mayAppend(shard); err != nil {
		return err
	}
	if err := c.admit(len(p)); err != nil {
		return err
	}
	r := &appendRequest{h: h, off: req.Offset, deadline: time.Now().Add(c.s.allowed(h.Budget))}
	r.payload = append(c.s.payloads.get(len(p)), p...)
	r.data = r.payload[len(p)-len(req.Data):]
	if !c.enter(shard, r) {
		c.release(r.payload)
		return errClosing
	}
	return nil
}

// enter adds a request to its line, and starts its goroutine if it has none.
func (c *conn) enter(shard layout.Shard, r *appendRequest) bool {
	c.lines.Lock()
	defer c.lines.Unlock()
	if l := c.lines.byShard[shard]; l != nil {
		l.queued = append(l.queued, r)
		select {
		case l.wake <- struct{}{}:
		default:
		}
		return true
	}
	l := &line{c: c, shard: shard, queued: []*appendRequest{r}, wake: make(chan struct{}, 1)}
	c.work.Add(1)
	if !c.s.work.start(l.run) {
		c.work.Done()
		return false
	}
	if c.lines.byShard == nil {
		c.lines.byShard = make(map[layout.Shard]*line)
	}
	c.lines.byShard[shard] = l
	return true
}

// run ends when the line is empty. An append of a client that has gone still ends
// as it would have: what bounds it is the node's life, not the connection's.
func (l *line) run() {
	defer l.c.work.Done()
	if err := l.c.guarded(l.serve); err != nil {
		l.c.nc.Close() // a panic: nobody knows what was answered
		l.abandon()
	}
}

func (l *line) serve() error {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		r, empty := l.take()
		switch {
		case empty:
			return nil
		case r != nil:
			l.begin(r)
			l.answer()
			continue
		}
		timer.Reset(time.Until(l.pending[0].deadline))
		select {
		case <-l.pending[0].begun.ack.Done():
		case <-l.wake:
		case <-timer.C:
		case <-l.c.s.life.Done():
		}
		timer.Stop()
		l.answer()
	}
}

// take returns the next request, and whether nothing is left at all: the line has
// left the connection's then.
func (l *line) take() (r *appendRequest, empty bool) {
	l.c.lines.Lock()
	defer l.c.lines.Unlock()
	if len(l.queued) > 0 {
		r = l.queued[0]
		l.queued = l.queued[1:]
		return r, false
	}
	l.queued = nil
	if len(l.pending) > 0 {
		return nil, false
	}
	delete(l.c.lines.byShard, l.shard)
	return nil, true
}

// begin puts a request into the shard's queue; it waits for room there.
func (l *line) begin(r *appendRequest) {
	l.pending = append(l.pending, r)
	ctx, cancel := context.WithDeadline(l.c.s.life, r.deadline)
	defer cancel()
	r.begun = l.c.s.appenders.begin(ctx, l.shard, r.off, r.data)
}

// answer answers what is settled, from the oldest on, with one write.
func (l *line) answer() {
	n := 0
	for n < len(l.pending) && l.pending[n].settled(l.c.s.life) {
		n++
	}
	if n == 0 {
		return
	}
	if err := l.write(l.pending[:n]); err != nil {
		l.c.in.stop()
	}
	clear(l.pending[:n])
	l.pending = l.pending[:copy(l.pending, l.pending[n:])]
}

// write answers settled requests.
func (l *line) write(settled []*appendRequest) error {
	c := l.c
	c.write.Lock()
	defer c.write.Unlock()
	for _, r := range settled {
		l.reply(r)
	}
	return c.flushLocked(&c.write.out)
}

// settled reports whether there is something to answer.
func (r *appendRequest) settled(life context.Context) bool {
	if r.begun.err != nil {
		return true
	}
	select {
	case <-r.begun.ack.Done():
		return true
	default:
		return life.Err() != nil || !time.Now().Before(r.deadline)
	}
}

// reply gathers the answer to a settled request, unless the client has gone, and
// ends the request. The right to write is held.
func (l *line) reply(r *appendRequest) {
	c := l.c
	ctx := c.s.life
	if !time.Now().Before(r.deadline) { // else nothing is waited for
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.deadline)
		defer cancel()
	}
	pos, err := c.s.appenders.end(ctx, r.begun)
	n := len(r.data)
	if err == nil {
		c.s.counters.appends.Add(1)
		c.s.counters.appendBytes.Add(uint64(n))
	}
	c.release(r.payload)
	r.begun.place, r.payload = nil, nil
	switch {
	case c.life.Err() != nil:
	case err != nil:
		c.s.counters.refused(err)
		c.write.out.Error(r.h, err)
	default:
		var b [16]byte
		c.write.out.Reply(r.h, wire.Appended{Pos: pos, End: pos + uint64(n)}.AppendTo(b[:0]))
	}
}

// abandon gives back what the requests of a line hold that will not be answered.
func (l *line) abandon() {
	c := l.c
	c.lines.Lock()
	rest := append(l.pending, l.queued...)
	delete(c.lines.byShard, l.shard)
	c.lines.Unlock()
	for _, r := range rest {
		if r == nil || r.payload == nil { // answered already
			continue
		}
		if r.begun.place != nil {
			c.s.appenders.release(r.begun.place)
		}
		c.release(r.payload)
	}
}
