package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// hasStore refuses durable operations on a node without a directory.
func (s *Server) hasStore() error {
	if s.store != nil {
		return nil
	}
	return &wire.Error{Status: wire.StatusNoStore, Message: "this node is a cache alone; use one that was started with a durable directory (--dir)"}
}

func (c *conn) stat(ctx context.Context, h wire.Header, p []byte) error {
	if err := c.s.hasStore(); err != nil {
		return err
	}
	name, err := wire.ParseStat(p)
	if err != nil {
		return err
	}
	shard, err := parseShard(name)
	if err != nil {
		return err
	}
	if c.mayRead(shard) != nil {
		if err := c.mayAppend(shard); err != nil {
			return err
		}
	}
	info, err := c.s.store.Stat(ctx, shard.String())
	if err != nil {
		return err
	}
	c.answer(h, shardInfo(info).AppendTo(nil), nil)
	return nil
}

func shardInfo(i durable.Info) wire.ShardInfo {
	w := wire.ShardInfo{Incarnation: i.Incarnation, First: i.First, Length: i.Length}
	if i.Sealed {
		w.Flags |= wire.ShardSealed
	}
	return w
}

// readDurable holds two things: a place at the disk while it reads, and its
// bytes of memory until the client has them.
func (c *conn) readDurable(ctx context.Context, h wire.Header, p []byte) error {
	if err := c.s.hasStore(); err != nil {
		return err
	}
	req, err := wire.ParseReadDurable(p)
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(net.ErrClosed) })() // for a client that has gone, do not read
	n := int(req.Max)
	if err := c.client.durable.take(ctx, n); err != nil {
		return fmt.Errorf("memory for a durable read of %d B, of %d for this client: %w", n, c.s.cfg.Limits.ClientDurableBytes, err)
	}
	defer c.client.durable.give(n)
	if err := c.s.durableBytes.take(ctx, n); err != nil {
		return fmt.Errorf("memory for a durable read of %d B, of %d: %w", n, c.s.cfg.Limits.DurableBytes, err)
	}
	defer c.s.durableBytes.give(n)
	buf := c.s.payloads.get(n)[:n]
	defer c.s.payloads.put(buf)
	n, err = c.s.readAt(ctx, shard.String(), req.Pos, buf)
	if err != nil {
		return err
	}
	c.s.counters.durableReads.Add(1)
	c.s.counters.durableReadBytes.Add(uint64(n))
	c.answer(h, buf[:n], nil)
	return nil
}

// readAt reads from the store when one of the places at the disk is free.
func (s *Server) readAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error) {
	s.counters.durableWaiting.Add(1)
	select {
	case s.disk <- struct{}{}:
		s.counters.durableWaiting.Add(-1)
		defer func() { <-s.disk }()
	case <-ctx.Done():
		s.counters.durableWaiting.Add(-1)
		return 0, fmt.Errorf("one of %d places for durable reads: %w", cap(s.disk), ctx.Err())
	}
	began := time.Now()
	n, err := s.store.ReadAt(ctx, shard, pos, p)
	s.counters.durableTimes.Add(time.Since(began))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (c *conn) list(ctx context.Context, h wire.Header, p []byte) error {
	if err := c.s.hasStore(); err != nil {
		return err
	}
	req, err := wire.ParseList(p)
	if err != nil {
		return err
	}
	entries, err := c.visible(ctx, string(req.After), int(req.Limit))
	if err != nil {
		return err
	}
	out := make([]wire.ListEntry, len(entries))
	for i, e := range entries {
		out[i] = wire.ListEntry{Shard: []byte(e.Shard), ShardInfo: shardInfo(e.Info)}
	}
	reply, err := wire.AppendListReply(nil, out)
	if err != nil {
		return err
	}
	c.answer(h, reply, nil)
	return nil
}
