package producer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// redialPause is how long a failed dial stands for the callers after it: many
// Appenders may share one RemoteCache, and all try at their heartbeats.
const redialPause = 200 * time.Millisecond

// RemoteCache is the cache of a node elsewhere, over the TCP protocol: for a
// producer that opens the durable store itself. It connects when it is needed,
// and again after the connection was lost. Any number of callers at once.
type RemoteCache struct {
	dial func(context.Context) (*wire.Client, error)

	current atomic.Pointer[wire.Client]
	// turn (capacity 1) is the lock of all below, and of replacing current.
	turn   chan struct{}
	failed error     // of the last dial
	again  time.Time // when the next dial may be tried
	closed bool
}

// NewRemoteCache returns a RemoteCache that connects by dial, which must obey
// its context; wire.Dial does.
func NewRemoteCache(dial func(context.Context) (*wire.Client, error)) *RemoteCache {
	return &RemoteCache{dial: dial, turn: make(chan struct{}, 1)}
}

// Put sends one piece of a chunk and waits for the node's answer.
func (r *RemoteCache) Put(ctx context.Context, p layout.Put) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	call, err := queuePut(ctx, c, p)
	if err != nil {
		return err
	}
	_, err = call.Wait() // sends it, too
	return err
}

// PutAll sends many pieces before it waits for the first answer. errs has the
// length of puts and receives the error of each.
func (r *RemoteCache) PutAll(ctx context.Context, puts []layout.Put, errs []error) {
	c, err := r.client(ctx)
	calls := make([]*wire.Call, len(puts))
	for i := range puts {
		if err == nil {
			calls[i], errs[i] = queuePut(ctx, c, puts[i])
		} else {
			errs[i] = err
		}
	}
	for i, call := range calls {
		if call != nil {
			_, errs[i] = call.Wait()
		}
	}
}

// queuePut queues a put, so that several leave in one write.
func queuePut(ctx context.Context, c *wire.Client, p layout.Put) (*wire.Call, error) {
	req := wire.Put{ShardHash: p.Shard, Chunk: p.Chunk, CRC: p.CRC, From: uint16(p.From), Data: p.Data}
	var b [32]byte
	head, err := req.AppendTo(b[:0])
	if err != nil {
		return nil, err
	}
	return c.Queue(deadline(ctx), wire.OpPut, head, p.Data, nil)
}

// Publish moves the shard's published end on the node.
func (r *RemoteCache) Publish(ctx context.Context, p layout.Publication) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	e := p.Entry
	req := wire.Publish{
		Shard: []byte(p.Shard.String()), Incarnation: e.Incarnation, Length: e.Length,
		TailCRC: e.TailCRC, HeartbeatMS: e.HeartbeatMS,
	}
	if e.Flags&layout.FlagSealed != 0 {
		req.Flags |= wire.ShardSealed
	}
	head, err := req.AppendTo(make([]byte, 0, 64))
	if err != nil {
		return err
	}
	call, err := c.Start(deadline(ctx), wire.OpPublish, head, nil, nil)
	if err != nil {
		return err
	}
	_, err = call.Wait()
	return err
}

// deadline is that of ctx; zero, the client's default, if it has none.
func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// client returns the live connection, or makes one.
func (r *RemoteCache) client(ctx context.Context) (*wire.Client, error) {
	if c := r.current.Load(); alive(c) {
		return c, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("connection to the cache: %w", ctx.Err())
	}
	old := r.current.Load()
	switch {
	case r.closed:
		return nil, ErrClosed
	case alive(old):
		return old, nil // another caller has dialled meanwhile
	case r.failed != nil && time.Now().Before(r.again):
		return nil, r.failed
	}
	if old != nil {
		r.current.Store(nil)
		old.Close() // lost already: its error is known to whoever called it
	}
	c, err := r.dial(ctx)
	r.failed, r.again = err, time.Now().Add(redialPause)
	if err != nil {
		return nil, fmt.Errorf("connection to the cache: %w", err)
	}
	r.current.Store(c)
	return c, nil
}

func alive(c *wire.Client) bool {
	if c == nil {
		return false
	}
	select {
	case <-c.Lost():
		return false
	default:
		return true
	}
}

// Close ends the connection; calls under way fail, later ones return ErrClosed.
func (r *RemoteCache) Close() error {
	// An open connection goes first, so that nobody waits on it with the turn.
	var errs []error
	if c := r.current.Load(); c != nil {
		errs = append(errs, c.Close())
	}
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.closed = true
	if c := r.current.Swap(nil); c != nil {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
