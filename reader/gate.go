package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// store is the durable store as a Reader sees it: a directory, or a node that
// owns one.
type store interface {
	Stat(ctx context.Context, shard string) (durable.Info, error)
	ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error)
	List(ctx context.Context, after string, limit int) ([]durable.Entry, error)
}

// gate is the only way of a Cluster's Readers to durable bytes. It protects the
// store from a cache that was lost: a bounded number of reads at once, a byte
// rate, and one read for all Readers that miss the same bytes.
type gate struct {
	store store
	count *counters
	slots chan struct{}
	rate  int64 // bytes a second; 0: no cap
	most  int   // bytes of one read

	mu struct {
		sync.Mutex
		nextAt time.Time // token bucket: when the rate allows the next read
		shards map[shardKey]*missing
		kept   []block // of any shard, oldest first; at most blocksKept
	}
}

// shardKey names a shard for good: one that is made again under its name has
// another incarnation, and shares no bytes with the old one.
type shardKey struct {
	name        string
	incarnation uint64
}

// missing is a shard that Readers read from the store at present.
type missing struct {
	key    shardKey
	users  int
	flight chan struct{} // closed when the read under way has ended; nil: none
	flying time.Time     // since when there is one
	wanted []uint64      // positions of those that wait for it
	gone   uint64        // what begins below it is out of retention
}

// block is bytes of the durable store, never changed after they were read.
type block struct {
	key   shardKey
	from  uint64
	data  []byte
	until time.Time // when it is forgotten
}

const (
	// blockKept is how long a block serves the Readers that come a little later.
	blockKept  = time.Second
	blocksKept = 16 // bounds the memory of all: 16 MiB
	blockMax   = 1 << 20
	blockMin   = 64 << 10
	// rateBurst is how long one read may use up the byte rate, so that several
	// which wait for it each get their turn before they are asked to give up.
	rateBurst = time.Second / 2
)

func newGate(s store, cfg Config, count *counters) *gate {
	g := &gate{store: s, count: count, slots: make(chan struct{}, cfg.DurableConcurrency), rate: cfg.DurableBytesPerSecond}
	g.most = min(blockMax, cfg.Prefetch)
	if g.rate > 0 {
		g.most = int(min(int64(g.most), max(g.rate*int64(rateBurst)/int64(time.Second), 1)))
	}
	g.mu.shards = map[shardKey]*missing{}
	return g
}

// read returns bytes that begin at from, at least one and at most those below
// to (or what one read-ahead takes). The bytes are shared and live as long as
// they are referenced. err is nil with no bytes when the store has none there
// yet; ErrRecreated when the store now holds another shard under the name.
func (g *gate) read(ctx context.Context, k shardKey, from, to uint64) ([]byte, error) {
	m := g.enter(k)
	defer g.leave(m)
	for {
		g.mu.Lock()
		data, gone := g.find(k, from), from < m.gone
		if data != nil || gone {
			g.mu.Unlock()
			if gone {
				return nil, outOfRetention(k, from)
			}
			return data, nil
		}
		if m.flight == nil {
			m.flight, m.flying = make(chan struct{}), time.Now()
			first := m.first(from, uint64(g.most))
			g.mu.Unlock()
			return g.fetch(ctx, m, first, from, to)
		}
		wait := m.flight
		m.wanted = append(m.wanted, from)
		g.mu.Unlock()
		var err error
		select {
		case <-wait: // may have brought our bytes; else ours is the next read
		case <-ctx.Done():
			err = ctx.Err()
		}
		g.mu.Lock()
		if i := slices.Index(m.wanted, from); i >= 0 {
			m.wanted = slices.Delete(m.wanted, i, i+1)
		}
		g.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// first returns where a read begins that is for the bytes at from, and at most most
// long: at the first position that others wait for, as far as it brings from too.
// The lock is held.
func (m *missing) first(from, most uint64) uint64 {
	first := from
	for _, pos := range m.wanted {
		if pos >= m.gone && pos < first && from-pos < most-min(most/4, blockMin) {
			first = pos
		}
	}
	return first
}

// fetch reads from first on for all that wait, and returns what begins at from; the
// caller holds the shard's flight.
func (g *gate) fetch(ctx context.Context, m *missing, first, from, to uint64) (data []byte, err error) {
	var all []byte
	defer func() { g.landed(m, first, all) }()
	g.count.durables.Add(1)
	defer g.count.durables.Add(-1)
	if err := g.slot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-g.slots }()
	all, err = g.readAt(ctx, m, first, to)
	gone := errors.Is(err, wire.ErrOutOfRetention)
	if gone {
		g.learnFirst(ctx, m)
	}
	if first < from && (gone || err == nil && uint64(len(all)) <= from-first) { // it brought nothing of ours
		if first, err = g.again(m, from, gone); err == nil {
			all, err = g.readAt(ctx, m, first, to)
		}
	}
	return all[min(from-first, uint64(len(all))):], err
}

// slot waits for one of the reads at once.
func (g *gate) slot(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	defer g.held(time.Now())
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// held counts that a limit has held a read back since a time.
func (g *gate) held(since time.Time) { g.count.durableHeld.Add(int64(time.Since(since))) }

// waits returns for how long the read of a shard's bytes has waited that is under way.
func (g *gate) waits(k shardKey, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.mu.shards[k]; m != nil && m.flight != nil {
		return max(now.Sub(m.flying), 0)
	}
	return 0
}

// learnFirst asks the store what it keeps when bytes have turned out to be gone, so
// that those who wait for others that are need not be told one by one.
func (g *gate) learnFirst(ctx context.Context, m *missing) {
	i, err := g.store.Stat(ctx, m.key.name)
	if err != nil || i.Incarnation != m.key.incarnation {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m.gone = max(m.gone, i.First)
}

// again returns where the second read begins that is for the bytes at from: where
// others wait, too, if it was for want of what is gone that the first one failed.
func (g *gate) again(m *missing, from uint64, gone bool) (first uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case from < m.gone:
		return from, outOfRetention(m.key, from)
	case gone:
		return m.first(from, uint64(g.most)), nil
	}
	return from, nil
}

func outOfRetention(k shardKey, pos uint64) error {
	return fmt.Errorf("%w: position %d of %s", wire.ErrOutOfRetention, pos, k.name)
}

// readAt reads from a position on, at most to, or what one read-ahead takes.
func (g *gate) readAt(ctx context.Context, m *missing, from, to uint64) ([]byte, error) {
	size := int(min(max(to-from, blockMin), uint64(g.most)))
	if err := g.pace(ctx, size); err != nil {
		return nil, err
	}
	p := make([]byte, size)
	began := time.Now()
	n, err := g.store.ReadAt(ctx, m.key.name, from, p)
	g.count.times[FromDurable].Add(time.Since(began))
	g.refund(size - n)
	if n == 0 {
		if errors.Is(err, wire.ErrOutOfRetention) {
			g.mu.Lock()
			m.gone = max(m.gone, from+1)
			g.mu.Unlock()
		}
		return nil, err
	}
	g.count.read(FromDurable, 1, n)
	// A name is all that a store is asked by, and a shard may have been made again
	// under it: only if it is ours after the read, the bytes were ours.
	i, err := g.store.Stat(ctx, m.key.name)
	if err != nil {
		return nil, err
	}
	if i.Incarnation != m.key.incarnation {
		return nil, fmt.Errorf("%s: %w", m.key.name, ErrRecreated)
	}
	if n <= size/2 {
		return slices.Clone(p[:n]), nil // what is lent may be held for long
	}
	return p[:n:n], nil
}

// find returns kept bytes that begin at from. The lock is held.
func (g *gate) find(k shardKey, from uint64) []byte {
	now := time.Now()
	for _, b := range g.mu.kept {
		if b.key == k && from >= b.from && from < b.from+uint64(len(b.data)) && now.Before(b.until) {
			return b.data[from-b.from:]
		}
	}
	return nil
}

// landed ends the flight, and keeps what it brought for the others.
func (g *gate) landed(m *missing, from uint64, data []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(m.flight)
	m.flight = nil
	if len(data) == 0 {
		return
	}
	if len(g.mu.kept) == blocksKept {
		g.mu.kept = slices.Delete(g.mu.kept, 0, 1)
	}
	g.mu.kept = append(g.mu.kept, block{m.key, from, data, time.Now().Add(blockKept)})
}

// pace waits until the byte rate allows n more. Who could not be served before
// ctx ends is told so at once, and takes nothing from those who can.
func (g *gate) pace(ctx context.Context, n int) error {
	if g.rate == 0 {
		return nil
	}
	g.mu.Lock()
	now := time.Now()
	at := latest(g.mu.nextAt, now)
	if end, ok := ctx.Deadline(); ok && at.After(end) {
		g.mu.Unlock()
		return fmt.Errorf("%w: the next read is due in %v", errDurableRate, at.Sub(now))
	}
	g.mu.nextAt = at.Add(g.cost(n))
	g.mu.Unlock()
	if !at.After(now) {
		return nil
	}
	defer g.held(now)
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		g.refund(n)
		return errors.Join(ctx.Err(), errDurableRate)
	}
}

func (g *gate) cost(n int) time.Duration {
	return time.Duration(float64(n) / float64(g.rate) * float64(time.Second))
}

// refund gives back what was asked of the rate and not read.
func (g *gate) refund(n int) {
	if g.rate == 0 || n == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.nextAt = g.mu.nextAt.Add(-g.cost(n))
}

var errDurableRate = errors.New("durable read waited for the byte rate (Config.DurableBytesPerSecond)")

func (g *gate) enter(k shardKey) *missing {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.mu.shards[k]
	if m == nil {
		m = &missing{key: k}
		g.mu.shards[k] = m
	}
	m.users++
	return m
}

// leave forgets a shard that nobody reads from the store any more, and old blocks.
// Some may stay after the last read of all, until the next one finds them old.
func (g *gate) leave(m *missing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(g.mu.shards, m.key)
	}
	now := time.Now()
	g.mu.kept = slices.DeleteFunc(g.mu.kept, func(b block) bool { return !now.Before(b.until) })
}
