package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// shardOf names a shard of a stream.
func shardOf(stream string, number int) layout.Shard {
	return layout.Shard{Stream: stream, Number: uint32(number)}
}

// appends is a producer that appends through our node, which stores the bytes and
// publishes them. One append is on its way at a time.
type appends struct {
	w     *wire.Client
	store *durable.Remote
	names []string
	ends  []uint64
}

func newAppends(ctx context.Context, s spec) (*appends, error) {
	w, err := wire.Dial(ctx, s.Addr, wire.Options{Name: "bench-producer"})
	if err != nil {
		return nil, err
	}
	a := &appends{w: w, store: durable.NewRemote(w), ends: make([]uint64, s.Shards)}
	for i := range s.Shards {
		a.names = append(a.names, shardOf(s.Stream, i).String())
	}
	return a, nil
}

func (a *appends) send(ctx context.Context, shard int, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_, end, err := a.store.Append(ctx, a.names[shard], a.ends[shard], b)
	a.ends[shard] = end
	return err
}

func (a *appends) close() error {
	a.w.Close()
	return nil
}

// readers are consumers with package reader. Over tcp each one is a Cluster of its
// own, with a connection of its own, as the consumers of the peers are; otherwise
// those of a process share its Cluster.
type readers struct {
	s        spec
	clusters []*reader.Cluster
}

func newReaders(ctx context.Context, s spec) (*readers, error) {
	r := &readers{s: s}
	n := 1
	cfg := reader.Config{Server: s.Addr, RDMA: rdma.DefaultConfig(), PollMin: s.Poll, PollMax: s.Poll}
	cfg.RDMA.Device = s.Device
	switch s.Program {
	case SHM:
		cfg.Transport = reader.SHM
	case RDMA:
		cfg.Transport = reader.RDMA
	case TCP:
		cfg.Transport = reader.TCP
		n = s.Consumers
	}
	for range n {
		c, err := reader.Open(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.clusters = append(r.clusters, c)
	}
	return r, nil
}

func (r *readers) follow(ctx context.Context, consumer int, s *sink) error {
	c := r.clusters[consumer%len(r.clusters)]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	for shard := range r.s.Shards {
		one, err := r.open(ctx, c, shard)
		if err != nil {
			cancel(err)
			break
		}
		running.Go(func() {
			defer one.Close()
			if err := r.tail(ctx, one, shard, s); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

func (r *readers) open(ctx context.Context, c *reader.Cluster, shard int) (*reader.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return c.Reader(ctx, shardOf(r.s.Stream, shard).String(), reader.At(0))
}

func (r *readers) tail(ctx context.Context, one *reader.Reader, shard int, s *sink) error {
	for {
		b, err := one.Next(ctx)
		if err != nil {
			return err
		}
		if err := s.take(shard, b.Data); err != nil {
			return err
		}
	}
}

func (r *readers) traffic() (t traffic) {
	for _, c := range r.clusters {
		s := c.Stats()
		t.Moved += s.Bytes
		t.Requests += s.Requests
		t.Pages += s.PageReads
		for _, from := range []reader.Source{reader.FromSHM, reader.FromRDMA, reader.FromTCP} {
			t.Data += s.Reads[from.String()]
		}
		t.Durable += s.DeliveredBy[reader.FromDurable.String()]
	}
	return t
}

func (r *readers) close() error {
	errs := make([]error, len(r.clusters))
	var all sync.WaitGroup
	for i, c := range r.clusters {
		all.Go(func() { errs[i] = c.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// naiveCrowd are consumers over shared memory that do as a chunk cache invites
// to: they poll the length and, when it has moved, read the chunks again that the
// news touch, whole. Nothing is proven.
type naiveCrowd struct {
	s         spec
	node      *mapped
	shards    []uint64 // offsets of the entries
	hashes    []layout.Hash
	reads     atomic.Uint64
	bytes     atomic.Uint64
	extentsOf sync.Map // of shard and extent, to the offset of its slot
}

type extentKey struct {
	shard  int
	extent uint64
}

func newNaive(ctx context.Context, s spec) (*naiveCrowd, error) {
	w, err := wire.Dial(ctx, s.Addr, wire.Options{Name: "bench-naive"})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	node, err := mapNode(ctx, s.Socket)
	if err != nil {
		return nil, err
	}
	n := &naiveCrowd{s: s, node: node}
	store := durable.NewRemote(w)
	for i := range s.Shards {
		shard := shardOf(s.Stream, i)
		info, err := store.Stat(ctx, shard.String())
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		at, err := node.entry(ctx, shard)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", shard, err), n.close())
		}
		n.shards, n.hashes = append(n.shards, at), append(n.hashes, shard.Hash(info.Incarnation))
	}
	return n, nil
}

func (n *naiveCrowd) follow(ctx context.Context, _ int, s *sink) error {
	at := make([]uint64, n.s.Shards)
	var chunk [layout.ChunkSize]byte
	var word [layout.EntrySize]byte
	for {
		for shard, offset := range n.shards {
			if err := n.read(offset, word[:]); err != nil {
				return err
			}
			entry := layout.ParseEntry(word[:], 0)
			for entry.Valid(n.hashes[shard]) && at[shard] < entry.Length {
				number := layout.Chunk(at[shard])
				slot, err := n.slot(ctx, shard, layout.Extent(at[shard]))
				if err != nil {
					return err
				}
				if err := n.read(slot+number*layout.ChunkSize%layout.ExtentSize, chunk[:]); err != nil {
					return err
				}
				end := min(entry.Length, (number+1)*layout.ChunkSize)
				if err := s.take(shard, chunk[at[shard]%layout.ChunkSize:][:end-at[shard]]); err != nil {
					return err
				}
				at[shard] = end
			}
		}
		if err := pause(ctx, n.s.Poll); err != nil {
			return nil
		}
	}
}

func (n *naiveCrowd) read(offset uint64, to []byte) error {
	n.reads.Add(1)
	n.bytes.Add(uint64(len(to)))
	return n.node.read(offset, to)
}

func (n *naiveCrowd) slot(ctx context.Context, shard int, extent uint64) (uint64, error) {
	key := extentKey{shard, extent}
	if at, ok := n.extentsOf.Load(key); ok {
		return at.(uint64), nil
	}
	at, err := n.node.extent(ctx, n.hashes[shard], extent)
	if err == nil {
		n.extentsOf.Store(key, at)
	}
	return at, err
}

func (n *naiveCrowd) traffic() traffic {
	return traffic{Moved: n.bytes.Load(), Requests: n.reads.Load()}
}

func (n *naiveCrowd) close() error { return n.node.close() }

// pollUntil tries until it is done, or ctx ends.
func pollUntil(ctx context.Context, try func() (done bool, err error)) error {
	for {
		done, err := try()
		if done || err != nil {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
