package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma/local"
)

// mapped is a node's arena, mapped, with the tables read by hand.
type mapped struct {
	c *local.Conn
	g layout.Geometry
}

func mapNode(ctx context.Context, socket string) (*mapped, error) {
	c, err := local.Dial(ctx, socket, 0)
	if err != nil {
		return nil, err
	}
	m := &mapped{c: c}
	b := make([]byte, layout.HeaderSize)
	if err := m.read(0, b); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	h, err := layout.ParseHeader(b)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	m.g = h.Geometry
	return m, nil
}

// read copies a range of the arena. Any number of goroutines at once.
func (m *mapped) read(at uint64, to []byte) error {
	b, err := m.c.NewBatch(len(to))
	if err != nil {
		return err
	}
	defer b.Release()
	p := b.Add(at, len(to))
	if p == nil {
		return fmt.Errorf("%w: %d bytes at %d of the arena", ErrConfig, len(to), at)
	}
	if err := errors.Join(b.Post(time.Time{}), b.Wait()); err != nil {
		return err
	}
	copy(to, p)
	return nil
}

// find waits until a key is in one of its two sets.
func (m *mapped) find(ctx context.Context, key layout.Hash, number uint64, sets [2]uint32, at func(uint32) uint64) (index uint32, err error) {
	b := make([]byte, layout.SetSize)
	err = pollUntil(ctx, func() (bool, error) {
		for _, set := range sets {
			if err := m.read(at(set), b); err != nil {
				return false, err
			}
			if way, _, ok := layout.FindIdentity(b, key, number); ok {
				index = set*layout.Ways + uint32(way)
				return true, nil
			}
		}
		return false, nil
	})
	return index, err
}

// entry returns where a shard's entry is.
func (m *mapped) entry(ctx context.Context, s layout.Shard) (uint64, error) {
	stream, page := layout.StreamHash(s.Stream), s.Page()
	index, err := m.find(ctx, stream, page, m.g.PageSetsOf(stream, page), m.g.PageSet)
	return m.g.PageSlot(index) + uint64(s.EntryOffset()), err
}

// extent returns where the bytes of an extent are.
func (m *mapped) extent(ctx context.Context, shard layout.Hash, extent uint64) (uint64, error) {
	index, err := m.find(ctx, shard, extent, m.g.ExtentSetsOf(shard, extent), m.g.ExtentSet)
	return m.g.ExtentSlot(index), err
}

func (m *mapped) close() error { return m.c.Close() }
