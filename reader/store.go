package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// openStore returns the durable store: the directory of the configuration, else
// that of the cluster, else the node that has one. A directory of the cluster that
// this host cannot open is no error while a node serves it.
func (c *Cluster) openStore(view *cluster.View) (store, error) {
	dir := c.cfg.Dir
	if dir == "" && view != nil {
		dir = view.Store.Dir
	}
	if dir == "" {
		return nodeStore{c}, nil
	}
	var err error
	c.dir, err = durable.Open(dir, durable.Options{Logger: c.cfg.Logger, ReadOnly: true})
	switch {
	case err == nil:
		return c.dir, nil
	case c.cfg.Dir == "" && view.Store.Node != "":
		c.cfg.Logger.Warn("durable directory of the cluster not opened, reading through the node that has it", "dir", dir, "node", view.Store.Node, "err", err)
		return nodeStore{c}, nil
	}
	return nil, err
}

// errNoStore is returned when no durable store can be reached: the node that
// owns it is away and no directory is set.
var errNoStore = errors.New("no durable store in reach: the node that has it is away and no directory is set (Config.Dir, --dir)")

// nodeStore is the durable store behind a node: the one that the cluster names,
// else any that has one.
type nodeStore struct{ c *Cluster }

func (n nodeStore) remote() (*durable.Remote, error) {
	ro := n.c.roster.Load()
	if ro == nil {
		return nil, errNoStore
	}
	named := ro.view.Store.Node
	for _, p := range ro.peers {
		client := p.client.Load()
		switch {
		case named != "" && p.name != named:
		case client == nil:
		case named != "" || client.Hello().Features&wire.FeatureDurable != 0:
			return durable.NewRemote(client), nil
		}
	}
	if named != "" {
		return nil, fmt.Errorf("node %s: %w", named, errNoStore)
	}
	return nil, errNoStore
}

func (n nodeStore) Stat(ctx context.Context, shard string) (durable.Info, error) {
	r, err := n.remote()
	if err != nil {
		return durable.Info{}, err
	}
	return r.Stat(ctx, shard)
}

func (n nodeStore) ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error) {
	r, err := n.remote()
	if err != nil {
		return 0, err
	}
	return r.ReadAt(ctx, shard, pos, p)
}

func (n nodeStore) List(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
	r, err := n.remote()
	if err != nil {
		return nil, err
	}
	return r.List(ctx, after, limit)
}
