package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/fallback/tcp"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	readBytes = 4096
	// patience bounds one read: 5,500 lines for each of the clients before it.
	patience = time.Minute
)

// load is a number of clients with one read under way each.
type load struct {
	clients []*client
	running sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelCauseFunc
	counted atomic.Bool // reads that begin now are counted
}

type client struct {
	w    *wire.Client
	conn *tcp.Conn
	b    *tcp.Batch
	took []time.Duration
}

func startLoad(ctx context.Context, addr string, n int) (*load, error) {
	l := &load{}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	for range n {
		c, err := newClient(ctx, addr)
		if err != nil {
			l.cancel(err)
			l.end()
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	for i, c := range l.clients {
		l.running.Go(func() {
			if err := c.run(l, uint64(i)); err != nil {
				l.cancel(err)
			}
		})
	}
	return l, nil
}

func newClient(ctx context.Context, addr string) (*client, error) {
	w, err := wire.Dial(ctx, addr, wire.Options{Name: "bench"})
	if err != nil {
		return nil, err
	}
	c := &client{w: w, conn: tcp.New(w, tcp.Options{})}
	if c.b, err = c.conn.NewBatch(readBytes); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) run(l *load, i uint64) error {
	for n := i; l.ctx.Err() == nil; n++ {
		counted := l.counted.Load()
		began := time.Now()
		c.b.Reset()
		c.b.Add(n*readBytes%(arenaBytes/2), readBytes)
		if err := c.b.Post(began.Add(patience)); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := c.b.Wait(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if counted && l.counted.Load() {
			c.took = append(c.took, time.Since(began))
		}
	}
	return nil
}

func (c *client) close() {
	if c.b != nil {
		c.b.Release()
	}
	_ = c.conn.Close()
	_ = c.w.Close()
}

// end stops the clients, each after its read, and returns how long reads took.
func (l *load) end() (took []time.Duration) {
	l.cancel(nil)
	l.running.Wait()
	for _, c := range l.clients {
		took = append(took, c.took...)
		c.close()
	}
	return took
}

// pause waits, unless a client has failed or the context has ended.
func (l *load) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}
