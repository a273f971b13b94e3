package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// filler reads extents that readers miss from the durable store into the arena:
// once for all that ask for one at a time, a few extents at once, and no more bytes
// a second than it may. Any number of goroutines may use it.
type filler struct {
	cache producer.LocalNode
	store fillStore
	rate  int64 // bytes a second
	clock func() time.Time
	slots chan struct{}

	fills, bytes atomic.Uint64

	mu struct {
		sync.Mutex
		nextAt  time.Time // when the rate allows the next read
		flights map[fillKey]*filling
		recent  []*filling // done, oldest first
	}
}

type fillKey struct {
	shard               layout.Shard
	incarnation, extent uint64
}

// filling is the filling of one extent. Its result is set before done is closed.
type filling struct {
	key  fillKey
	done chan struct{}
	end  uint64
	err  error
	at   time.Time // when it was done
}

const (
	// fillsAtOnce bounds the extents that are read at once, and with them memory.
	fillsAtOnce = 8
	// fillBurst is for how long fills may use up the rate; more are refused.
	fillBurst = 250 * time.Millisecond
	// fillKept is for how long those that ask again get the answer of before: they
	// had looked at the arena before it was filled. At most fillsKept are known.
	fillKept  = time.Second
	fillsKept = 256
)

func newFiller(cache producer.LocalNode, store fillStore, rate int64, clock func() time.Time) *filler {
	f := &filler{cache: cache, store: store, rate: rate, clock: clock, slots: make(chan struct{}, fillsAtOnce)}
	f.mu.flights = map[fillKey]*filling{}
	return f
}

// startFiller makes what answers Fill, if the node is to.
func (s *Server) startFiller() error {
	if s.cfg.ReadThrough == 0 {
		return nil
	}
	store := &clusterStore{s: s}
	s.filler = newFiller(localCache{s}, store, s.cfg.ReadThrough, s.cfg.Clock)
	s.closers.add("store for read-through", store.Close)
	return nil
}

func (c *conn) fill(ctx context.Context, h wire.Header, p []byte) error {
	if c.s.filler == nil {
		return &wire.Error{Status: wire.StatusBadRequest, Message: "this node fills nothing; see its setting for read-through"}
	}
	req, err := wire.ParseFill(p)
	if err != nil {
		return err
	}
	shard, err := parseShard(req.Shard)
	if err != nil {
		return err
	}
	if err := c.mayRead(shard); err != nil {
		return err
	}
	if req.Extent > maxExtent {
		return fmt.Errorf("extent %d: %w", req.Extent, wire.ErrBadRequest)
	}
	if !c.s.places(shard.Hash(req.Incarnation), req.Extent) {
		return &wire.Error{Status: wire.StatusBadRequest, Message: fmt.Sprintf("extent %d of %v has its replicas at other nodes", req.Extent, shard)}
	}
	end, err := c.s.filler.fill(ctx, fillKey{shard, req.Incarnation, req.Extent})
	if err != nil {
		return err
	}
	c.answer(h, wire.Filled{End: end}.AppendTo(nil), nil)
	return nil
}

// maxExtent keeps positions from wrapping.
const maxExtent = 1<<64/layout.ExtentSize - 2

// places reports whether the cluster's description puts an extent on this node.
func (s *Server) places(h layout.Hash, extent uint64) bool {
	view := s.view()
	self, ok := view.Node(s.cfg.Node)
	if !ok {
		return false
	}
	var set clusterReplicas
	view.Extent(h, extent, &set)
	return slices.Contains(set.Full(), uint16(self))
}

// fill returns the position up to which the arena has the extent's bytes.
func (f *filler) fill(ctx context.Context, k fillKey) (end uint64, err error) {
	for {
		f.mu.Lock()
		if r := f.known(k); r != nil {
			f.mu.Unlock()
			return r.end, nil
		}
		r := f.mu.flights[k]
		lead := r == nil
		if lead {
			r = &filling{key: k, done: make(chan struct{})}
			f.mu.flights[k] = r
		}
		f.mu.Unlock()
		if lead {
			f.lead(ctx, r)
			return r.end, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("extent %d of %v: %w", k.extent, k.shard, ctx.Err())
		}
		if !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, context.DeadlineExceeded) {
			return r.end, r.err
		}
		// Who led has given up, and somebody else leads.
	}
}

// known returns a filling of the extent that was done a moment ago. The lock is held.
func (f *filler) known(k fillKey) *filling {
	now := f.clock()
	f.mu.recent = slices.DeleteFunc(f.mu.recent, func(r *filling) bool { return now.Sub(r.at) >= fillKept })
	for _, r := range f.mu.recent {
		if r.key == k {
			return r
		}
	}
	return nil
}

// lead fills for all that wait.
func (f *filler) lead(ctx context.Context, r *filling) {
	r.err = errors.New("fill was not ended") // of a panic
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.flights, r.key)
		if r.err == nil {
			r.at = f.clock()
			if len(f.mu.recent) == fillsKept {
				f.mu.recent = slices.Delete(f.mu.recent, 0, 1)
			}
			f.mu.recent = append(f.mu.recent, r)
		}
		close(r.done)
	}()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		r.err = fmt.Errorf("one of %d places for fills: %w", fillsAtOnce, ctx.Err())
		return
	}
	r.end, r.err = f.read(ctx, r.key)
}

// read copies an extent from the store to the arena.
func (f *filler) read(ctx context.Context, k fillKey) (end uint64, err error) {
	if !f.pace(layout.ExtentSize) {
		return 0, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("read-through is at its limit of %d bytes a second", f.rate)}
	}
	from := k.extent * layout.ExtentSize
	p := make([]byte, layout.ExtentSize)
	n, err := f.store.ReadAt(ctx, k.shard.String(), from, p)
	f.refund(len(p) - n)
	if n == 0 && err != nil {
		return 0, err
	}
	// A store is asked by name, and the shard may have been made again under it: only
	// if it is the one asked for after the read, the bytes were its.
	info, err := f.store.Stat(ctx, k.shard.String())
	if err != nil {
		return 0, err
	}
	if info.Incarnation != k.incarnation {
		return 0, &wire.Error{Status: wire.StatusUnknownShard, Message: fmt.Sprintf("%v was made again under its name", k.shard)}
	}
	h := k.shard.Hash(k.incarnation)
	for at := 0; at < n; at += layout.ChunkSize {
		data := p[at:min(at+layout.ChunkSize, n)]
		chunk := layout.Chunk(from + uint64(at))
		err := f.cache.Put(k.shard, layout.Put{Shard: h, Chunk: chunk, CRC: layout.ExtendCRC(layout.SeedCRC(h, chunk), data), Data: data})
		if err != nil {
			return 0, fmt.Errorf("chunk %d of %v: %w", chunk, k.shard, err)
		}
	}
	f.fills.Add(1)
	f.bytes.Add(uint64(n))
	return from + uint64(n), nil
}

// pace reports whether the rate allows n bytes now.
func (f *filler) pace(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	if f.mu.nextAt.Before(now) {
		f.mu.nextAt = now
	}
	if f.mu.nextAt.Sub(now) >= fillBurst {
		return false
	}
	f.mu.nextAt = f.mu.nextAt.Add(f.cost(n))
	return true
}

// refund gives back what was not read.
func (f *filler) refund(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.nextAt = f.mu.nextAt.Add(-f.cost(n))
}

func (f *filler) cost(n int) time.Duration {
	return time.Duration(float64(n) / float64(f.rate) * float64(time.Second))
}
