package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// clusterReplicas are the nodes of one key.
type clusterReplicas = cluster.Replicas

// fillStore is the durable store as a filler sees it.
type fillStore interface {
	Stat(ctx context.Context, shard string) (durable.Info, error)
	ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error)
}

// clusterStore is the durable store of the node's cluster: the node's own, else the
// directory that all hosts share, else that of the node that has one. Any number of
// goroutines may use it.
type clusterStore struct {
	s *Server

	mu struct {
		sync.Mutex
		closed bool
		path   string // of dir
		dir    *durable.Dir
		addr   string // of client
		client *wire.Client
		// failed is when the other node was not reached: it is not dialled again at once.
		failed time.Time
		err    error
	}
}

const (
	fillDial = time.Second
	fillRest = time.Second
)

func (c *clusterStore) Stat(ctx context.Context, shard string) (durable.Info, error) {
	s, err := c.store(ctx)
	if err != nil {
		return durable.Info{}, err
	}
	return s.Stat(ctx, shard)
}

func (c *clusterStore) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error) {
	if c.s.store != nil {
		return c.s.readAt(ctx, shard, pos, p)
	}
	s, err := c.store(ctx)
	if err != nil {
		return 0, err
	}
	return s.ReadAt(ctx, shard, pos, p)
}

// store returns where the bytes are.
func (c *clusterStore) store(ctx context.Context) (fillStore, error) {
	view := c.s.view()
	switch {
	case c.s.store != nil:
		return c.s.store, nil
	case view.Store.Dir != "":
		return c.directory(view.Store.Dir)
	}
	if i, ok := view.Node(view.Store.Node); ok {
		return c.remote(ctx, view.Nodes[i].Addr)
	}
	return nil, &wire.Error{Status: wire.StatusNoStore, Message: "the cluster's description has no durable store to fill from"}
}

var errStoreClosed = errors.New("store for read-through is closed")

func (c *clusterStore) directory(path string) (fillStore, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, errStoreClosed
	}
	if c.mu.dir != nil && c.mu.path == path {
		return c.mu.dir, nil
	}
	dir, err := durable.Open(path, durable.Options{Logger: c.s.log, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if c.mu.dir != nil {
		c.s.log.Info("read-through has another directory", "dir", path, "was", c.mu.path)
		if err := c.mu.dir.Close(); err != nil {
			c.s.log.Warn("directory was not closed cleanly", "dir", c.mu.path, "err", err)
		}
	}
	c.mu.path, c.mu.dir = path, dir
	return dir, nil
}

// remote returns the store of another node. The lock is held while it is dialled:
// all that want it wait for the same.
func (c *clusterStore) remote(ctx context.Context, addr string) (fillStore, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, errStoreClosed
	}
	if c.mu.client != nil && c.mu.addr == addr && c.mu.client.Err() == nil {
		return durable.NewRemote(c.mu.client), nil
	}
	if c.mu.addr == addr && time.Since(c.mu.failed) < fillRest {
		return nil, c.mu.err
	}
	if c.mu.client != nil {
		c.mu.client.Close()
		c.mu.client = nil
	}
	ctx, cancel := context.WithTimeout(ctx, fillDial)
	defer cancel()
	client, err := wire.Dial(ctx, addr, wire.Options{Name: "rmatail-fill", Credentials: c.s.cfg.Credentials})
	c.mu.addr = addr
	if err != nil {
		c.mu.failed, c.mu.err = time.Now(), fmt.Errorf("node with the durable store: %w", err)
		return nil, c.mu.err
	}
	c.mu.client = client
	return durable.NewRemote(client), nil
}

// Close ends what was opened.
func (c *clusterStore) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	var errs []error
	if c.mu.client != nil {
		errs = append(errs, c.mu.client.Close())
	}
	if c.mu.dir != nil {
		errs = append(errs, c.mu.dir.Close())
	}
	c.mu.client, c.mu.dir = nil, nil
	return errors.Join(errs...)
}
