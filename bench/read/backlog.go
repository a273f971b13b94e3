package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// backlog reads shards from the first to the last whole chunk with package reader.
type backlog struct {
	cluster *reader.Cluster
	readers []*reader.Reader
	at      int
	end     uint64
	from    reader.Source
	ctx     context.Context
	cancel  context.CancelFunc
}

func newBacklog(ctx context.Context, n *node, t Transport, device string) (b *backlog, err error) {
	b = &backlog{end: n.bytes - partBytes}
	b.ctx, b.cancel = context.WithCancel(ctx)
	cfg := reader.Config{Server: n.listen, RDMA: rdma.DefaultConfig()}
	cfg.RDMA.Device = device
	switch t {
	case SHM:
		cfg.Transport, b.from = reader.SHM, reader.FromSHM
	case RDMA:
		cfg.Transport, b.from = reader.RDMA, reader.FromRDMA
	case TCP:
		cfg.Transport, b.from = reader.TCP, reader.FromTCP
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if b.cluster, err = reader.Open(starting, cfg); err != nil {
		return nil, err
	}
	for _, s := range n.shards {
		r, err := b.cluster.Reader(starting, s.String(), reader.Earliest())
		if err != nil {
			return nil, err
		}
		b.readers = append(b.readers, r)
	}
	return b, nil
}

// step delivers the next bytes. Those of the partial chunk do not count.
func (b *backlog) step(time.Time) (int, error) {
	r := b.readers[b.at]
	if r.Position() >= b.end {
		return 0, nil
	}
	got, err := r.Next(b.ctx)
	if err != nil {
		return 0, err
	}
	if got.Source != b.from {
		return 0, fmt.Errorf("%w: bytes at %d came from %s, want %s", errMissing, got.Position, got.Source, b.from)
	}
	return int(min(r.Position(), b.end)-got.Position) / layout.ChunkSize, nil
}

// rewind goes on with the next shard.
func (b *backlog) rewind(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(b.ctx, deadline)
	defer cancel()
	if err := b.readers[b.at].Seek(ctx, reader.At(0)); err != nil {
		return err
	}
	b.at = (b.at + 1) % len(b.readers)
	return nil
}

func (b *backlog) drain() error { return nil }

func (b *backlog) close() error {
	b.cancel()
	var errs []error
	for _, r := range b.readers {
		errs = append(errs, r.Close())
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.Close())
	}
	return errors.Join(errs...)
}
