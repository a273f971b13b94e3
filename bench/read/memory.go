package read

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// memory is one way to read the arena, and batch a set of reads, as package reader
// has them.
type memory interface {
	newBatch(size int) (batch, error)
	Close() error
}

type batch interface {
	Add(offset uint64, n int) []byte
	Post(deadline time.Time) error
	Wait() error
	Reset()
	Release()
}

type (
	shmMemory  struct{ *local.Conn }
	rdmaMemory struct{ *rdma.Conn }
	tcpMemory  struct{ *tcp.Conn }
)

func (m shmMemory) newBatch(size int) (batch, error)  { return asBatch(m.NewBatch(size)) }
func (m rdmaMemory) newBatch(size int) (batch, error) { return asBatch(m.NewBatch(size)) }
func (m tcpMemory) newBatch(size int) (batch, error)  { return asBatch(m.NewBatch(size)) }

// asBatch keeps a nil pointer from becoming a non-nil interface.
func asBatch[B batch](b B, err error) (batch, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// doer is a batch that posts and waits by one call to the device.
type doer interface {
	Do(deadline time.Time) error
}

// twice is Do of a batch that has none.
type twice struct{ batch }

func (b twice) Do(deadline time.Time) error {
	if err := b.Post(deadline); err != nil {
		return err
	}
	return b.Wait()
}

// asDoer is asked once a batch: asking takes longer than a short read.
func asDoer(b batch) doer {
	if d, ok := b.(doer); ok {
		return d
	}
	return twice{b}
}

// path is a connection of one reader: a memory, and the connection to the node
// that it hangs on.
type path struct {
	memory
	client *wire.Client
}

// connect makes a path over a transport.
func connect(ctx context.Context, n *node, t Transport, device string) (*path, error) {
	client, err := n.dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p := &path{client: client}
	switch t {
	case SHM:
		var m *local.Conn
		if m, err = local.Dial(ctx, client.Hello().ShmPath, client.Hello().Epoch); err == nil {
			p.memory = shmMemory{m}
		}
	case RDMA:
		var m *rdma.Conn
		if m, err = connectRDMA(ctx, client, device); err == nil {
			p.memory = rdmaMemory{m}
		}
	case TCP:
		p.memory = tcpMemory{tcp.New(client, tcp.Options{})}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", t, err), client.Close())
	}
	return p, nil
}

func connectRDMA(ctx context.Context, client *wire.Client, device string) (*rdma.Conn, error) {
	addr, err := netip.ParseAddrPort(client.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	cfg := rdma.DefaultConfig()
	cfg.Device = device
	cfg.BufferBytes = maxInFlight << 20
	d, err := rdma.Prepare(cfg, addr.Addr().Unmap())
	if err != nil {
		return nil, err
	}
	answer, err := client.Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d.Finish(ctx, answer)
}

func (p *path) close() error { return errors.Join(p.Close(), p.client.Close()) }
