package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// store is the durable store, here or through its node.
type store interface {
	Stat(ctx context.Context, shard string) (durable.Info, error)
	List(ctx context.Context, after string, limit int) ([]durable.Entry, error)
	ReadAt(ctx context.Context, shard string, pos uint64, p []byte) (int, error)
	Close() error
}

// openStore opens the directory if there is one, else it connects to the node: of a
// cluster, the one that owns the store.
func openStore(ctx context.Context, p *process, f storeFlags) (store, error) {
	if err := errors.Join(f.check(), p.know(f.Cluster)); err != nil {
		return nil, err
	}
	dir, addr := f.Dir, f.address()
	if f.Cluster != "" && dir == "" {
		described, err := file.Load(f.Cluster)
		if err != nil {
			return nil, err
		}
		dir, addr = storeOf(described)
	}
	if dir != "" {
		return durable.Open(dir, durable.Options{ReadOnly: true, Logger: p.quiet})
	}
	c, err := dial(ctx, p, addr)
	if err != nil {
		return nil, err
	}
	return remoteStore{durable.NewRemote(c), c}, nil
}

// remoteStore owns its connection.
type remoteStore struct {
	*durable.Remote
	client *wire.Client
}

func (s remoteStore) Close() error { return s.client.Close() }

// dial connects to a node.
func dial(ctx context.Context, p *process, addr string) (*wire.Client, error) {
	return wire.Dial(ctx, addr, wire.Options{Name: "rmatail", Credentials: p.credentials(), Logger: p.quiet}) // its errors name the node
}

// away says whether err is the kind that passes when the node is back.
func away(err error) bool {
	for _, passing := range []error{wire.ErrLost, durable.ErrUnknownOutcome, wire.ErrBusy, wire.ErrClosing, wire.ErrDeadline,
		os.ErrDeadlineExceeded, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
