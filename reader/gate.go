package reader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
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
	slots chan struct{}
	rate  int64 // bytes a second; 0: no cap

	mu struct {
		sync.Mutex
		nextAt time.Time // token bucket: when the rate allows the next read
		shards map[string]*missing
	}
}

// missing is what the Readers of one shard share.
type missing struct {
	users  int
	flight chan struct{} // closed when the read under way has ended; nil: none
	block  block         // of the last read
	until  time.Time     // when the block is forgotten
}

// block is bytes of the durable store, never changed after they were read.
type block struct {
	from uint64
	data []byte
}

const (
	// blockKept is how long the last block of a shard serves the Readers that
	// come a little later; what it holds is bounded by blockMax a shard.
	blockKept = time.Second
	blockMax  = 1 << 20
	blockMin  = 64 << 10
)

func newGate(s store, concurrency int, rate int64) *gate {
	g := &gate{store: s, slots: make(chan struct{}, concurrency), rate: rate}
	g.mu.shards = map[string]*missing{}
	return g
}

// read returns bytes that begin at from, at least one and at most those below
// to (or what one read-ahead takes). The bytes are shared and live as long as
// they are referenced. err is nil with no bytes when the store has none there
// yet.
func (g *gate) read(ctx context.Context, shard string, from, to uint64) ([]byte, error) {
	m := g.enter(shard)
	defer g.leave(shard, m)
	for {
		g.mu.Lock()
		if b := m.block; from >= b.from && from < b.from+uint64(len(b.data)) && time.Now().Before(m.until) {
			g.mu.Unlock()
			return b.data[from-b.from:], nil
		}
		wait := m.flight
		if wait == nil {
			m.flight = make(chan struct{})
		}
		g.mu.Unlock()
		if wait == nil {
			return g.fetch(ctx, shard, m, from, to)
		}
		select {
		case <-wait: // may have brought our bytes; else ours is the next read
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetch reads for all; the caller holds the shard's flight.
func (g *gate) fetch(ctx context.Context, shard string, m *missing, from, to uint64) (data []byte, err error) {
	defer func() {
		g.mu.Lock()
		if len(data) > 0 {
			m.block, m.until = block{from, data}, time.Now().Add(blockKept)
		}
		close(m.flight)
		m.flight = nil
		g.mu.Unlock()
	}()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p := make([]byte, min(max(to-from, blockMin), blockMax))
	if err := g.pace(ctx, len(p)); err != nil {
		return nil, err
	}
	n, err := g.store.ReadAt(ctx, shard, from, p)
	if n > 0 {
		err = nil
	}
	return p[:n:n], err
}

// pace waits until the byte rate allows n more. The bucket holds one read.
func (g *gate) pace(ctx context.Context, n int) error {
	if g.rate == 0 {
		return nil
	}
	g.mu.Lock()
	now := time.Now()
	at := latest(g.mu.nextAt, now)
	g.mu.nextAt = at.Add(time.Duration(float64(n) / float64(g.rate) * float64(time.Second)))
	g.mu.Unlock()
	if !at.After(now) {
		return nil
	}
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), errDurableRate)
	}
}

var errDurableRate = errors.New("durable read waited for the byte rate (Config.DurableBytesPerSecond)")

func (g *gate) enter(shard string) *missing {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.mu.shards[shard]
	if m == nil {
		m = &missing{}
		g.mu.shards[shard] = m
	}
	m.users++
	return m
}

// leave forgets a shard that nobody reads from the store and whose block is old.
// One user's block may stay after its last read: at most blockMax, and only
// until the next call for any shard finds it old.
func (g *gate) leave(shard string, m *missing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.users--
	now := time.Now()
	for name, m := range g.mu.shards {
		if m.users == 0 && !now.Before(m.until) {
			delete(g.mu.shards, name)
		}
	}
}
