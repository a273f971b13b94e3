package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	repairPause = 100 * time.Millisecond // after a failure
	repairRead  = 2 * time.Second        // bounds one read of the store
)

// errStale is why a gap is not repaired: its bytes are not needed any more, or
// not to be had.
var errStale = errors.New("not to be repaired")

// repairer puts what nodes have missed, extent by extent. The nodes that live get
// its time in equal parts: one that is slow holds up nobody but itself. It is the
// one goroutine's.
type repairer struct {
	c     *ReplicaCache
	limit *limiter
	// spent is the least that was spent on a node, when one was picked last: who has
	// had nothing to repair for a while has not saved time up.
	spent time.Duration
	buf   [layout.ExtentSize]byte
	puts  []layout.Put
}

// rouse tells repair that there may be something to do.
func (c *ReplicaCache) rouse() {
	select {
	case c.work <- struct{}{}:
	default:
	}
}

// repair closes the gaps of the nodes, until Close. It also forgets shards that
// nobody has put to for the time to live.
func (c *ReplicaCache) repair() {
	defer c.ended.Done()
	w := &repairer{c: c, limit: newLimiter(max(c.cfg.RepairBytesPerSecond, 1), 4*layout.ExtentSize, time.Now())}
	sweep := time.NewTicker(max(c.cfg.TTL/4, time.Millisecond))
	defer sweep.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-c.life.Done():
			return
		case <-sweep.C:
			c.forget(time.Now())
		case <-c.work:
		case <-again.C:
		}
		if err := w.pass(); err != nil && c.life.Err() == nil {
			c.cfg.Logger.Info("repair of a node waits", "err", err, "again_in", repairPause)
			again.Reset(repairPause)
		}
	}
}

// forget drops the shards that nothing was put to for the time to live.
func (c *ReplicaCache) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard, s := range c.mu.shards {
		if s.bury(now) {
			delete(c.mu.shards, shard)
		}
	}
}

// pass repairs until no node that lives has a gap, or has one and has failed a
// moment ago. Its error is the last of a node or of the store: what is left waits
// for another pass.
func (w *repairer) pass() (err error) {
	for w.c.life.Err() == nil {
		n, g, ok := w.pick(time.Now())
		if !ok {
			return err
		}
		from, forgone, stepErr := w.step(n, g)
		n.closed(g, from, forgone)
		if stepErr != nil {
			err = stepErr
			n.postpone(g) // others may have better luck
			n.turn.after = time.Now().Add(repairPause)
		}
	}
	return err
}

// pick returns the node that is repaired next, of those that may be: the one that
// the least time was spent on.
func (w *repairer) pick(now time.Time) (next *node, g gap, ok bool) {
	for _, n := range w.c.top.Load().nodes {
		if now.Before(n.turn.after) {
			continue
		}
		if h, has := n.gap(); has {
			n.turn.spent = max(n.turn.spent, w.spent)
			if !ok || n.turn.spent < next.turn.spent {
				next, g, ok = n, h, true
			}
		}
	}
	if ok {
		w.spent = next.turn.spent
	}
	return next, g, ok
}

// step repairs the first extent of a gap, and returns up to where it is closed
// then, and how many bytes of that were given up.
func (w *repairer) step(n *node, g gap) (from, forgone uint64, err error) {
	c := w.c
	if c.cfg.Store == nil || c.cfg.RepairBytesPerSecond < 0 {
		return g.to, g.to - g.from, nil
	}
	now := time.Now()
	young, end, ok := g.s.window(now, w.reach(n, now))
	if !ok || young >= g.to {
		return g.to, g.to - g.from, nil
	}
	if young > g.from {
		forgone, g.from = young-g.from, young
	}
	g.to = min(g.to, end)
	if from, ok = w.next(n, g); !ok {
		return g.to, forgone, nil
	}
	at := from &^ (layout.ChunkSize - 1)
	to := min(g.to, (layout.Extent(at)+1)*layout.ExtentSize)
	if !w.wait(w.limit.take(int(to-at), now)) {
		return from, forgone, nil
	}
	began := time.Now()
	err = w.extent(n, g.s, at, to)
	n.turn.spent += max(time.Since(began), time.Microsecond)
	switch {
	case errors.Is(err, errStale):
		return to, forgone + to - at, nil
	case err != nil:
		return from, forgone, err
	}
	n.count.repaired.Add(to - at)
	return to, forgone, nil
}

// next returns the first position of a gap that the node has to hold, and whether
// there is one.
func (w *repairer) next(n *node, g gap) (from uint64, ok bool) {
	top := w.c.top.Load()
	index, known := top.view.Node(n.name)
	if !known {
		return g.from, false
	}
	var set cluster.Replicas
	for from = g.from; from < g.to; from = (layout.Extent(from) + 1) * layout.ExtentSize {
		top.view.Extent(g.s.hash, layout.Extent(from), &set)
		if !slices.Contains(set.Full(), uint16(index)) {
			continue
		}
		if g.had != nil {
			g.had.Extent(g.s.hash, layout.Extent(from), &set)
			if slices.Contains(set.Full(), g.hadAs) {
				continue
			}
		}
		return from, true
	}
	return from, false
}

// extent puts [from, to) of one extent, from a chunk's start on, to one node.
func (w *repairer) extent(n *node, s *recent, from, to uint64) error {
	p := w.buf[:to-from]
	if err := w.read(s, from, p); err != nil {
		return err
	}
	w.puts = w.puts[:0]
	for at := from; at < to; at += layout.ChunkSize {
		data := p[at-from : min(at+layout.ChunkSize, to)-from]
		w.puts = append(w.puts, layout.Put{
			Shard: s.hash, Incarnation: s.incarnation, Chunk: layout.Chunk(at), Data: data,
			CRC: layout.ExtendCRC(layout.SeedCRC(s.hash, layout.Chunk(at)), data),
		})
	}
	return w.c.only(n, s, w.puts)
}

// only puts to one node.
func (c *ReplicaCache) only(n *node, s *recent, puts []layout.Put) error {
	top := c.top.Load()
	index, ok := top.view.Node(n.name)
	if !ok {
		return errStale
	}
	r := c.round(s, wire.OpPut)
	defer r.release()
	r.repairs = true
	r.place(top, puts)
	r.mu.Lock()
	for i := range r.mu.slots {
		r.mu.slots[i] = slot{replicas: replicas{nodes: [cluster.MaxReplicas]uint16{uint16(index)}, full: 1, all: 1}, quorum: 1}
	}
	r.mu.Unlock()
	r.send(top)
	r.await(top)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.mu.slots {
		if v := &r.mu.slots[i]; v.outcome() != taken {
			return v.fault(r.op, c.cfg.Timeout)
		}
	}
	return nil
}

// read fills p from the store, and makes sure that the bytes are those of the
// shard as it was when they were put: one that was made anew has others.
func (w *repairer) read(s *recent, pos uint64, p []byte) error {
	ctx, cancel := context.WithTimeout(w.c.life, repairRead)
	defer cancel()
	store := w.c.cfg.Store
	for n := 0; n < len(p); {
		k, err := store.ReadAt(ctx, s.name, pos+uint64(n), p[n:])
		switch {
		case errors.Is(err, wire.ErrOutOfRetention), errors.Is(err, wire.ErrUnknownShard), errors.Is(err, wire.ErrBeyond):
			return fmt.Errorf("%w: %w", errStale, err)
		case err != nil && k == 0:
			return fmt.Errorf("repair reads %v at %d: %w", s.shard, pos, err)
		case k == 0:
			return fmt.Errorf("%w: %v ends at %d, before %d", errStale, s.shard, pos+uint64(n), pos+uint64(len(p)))
		}
		n += k
	}
	// Looked at after the read: no incarnation comes back.
	info, err := store.Stat(ctx, s.name)
	switch {
	case errors.Is(err, wire.ErrUnknownShard):
		return fmt.Errorf("%w: %w", errStale, err)
	case err != nil:
		return fmt.Errorf("repair looks at %v: %w", s.shard, err)
	case s.shard.Hash(info.Incarnation) != s.hash:
		s.kill()
		return fmt.Errorf("%w: %v was made anew", errStale, s.shard)
	}
	return nil
}

// wait sleeps, unless the cache is closed.
func (w *repairer) wait(d time.Duration) bool {
	if d <= 0 {
		return w.c.life.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.c.life.Done():
		return false
	}
}
