package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// clients are consumers of a peer, each with a connection of its own, and code that
// speaks its protocol directly: no library that one peer might have better than
// another.
type clients struct {
	s     spec
	conns []*counted
	meter
}

func newClients(ctx context.Context, s spec) (*clients, error) {
	c := &clients{s: s}
	for range s.Consumers {
		conn, err := dial(ctx, s.Addr, &c.meter)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *clients) follow(ctx context.Context, consumer int, s *sink) error {
	conn := c.conns[consumer]
	defer conn.closeWith(ctx)()
	switch c.s.Program {
	case RedisStreams:
		return followRedisStreams(conn, c.s, s)
	case RedisGet:
		return followRedisGet(ctx, conn, c.s, s)
	case JetStream:
		return followJetStream(conn, c.s, consumer, s)
	case Nginx:
		return followNginx(ctx, conn, c.s, s)
	case Memcached:
		return followMemcached(ctx, conn, c.s, s)
	case Plain:
		return followPlain(conn, c.s, s)
	}
	return fmt.Errorf("%w: program %d", ErrConfig, c.s.Program)
}

func (c *clients) close() error {
	for _, conn := range c.conns {
		conn.Close()
	}
	return nil
}

// acks bounds what a producer has under way: records that a peer has not answered
// for yet. Answers are read by a goroutine of their own.
type acks struct {
	room    chan struct{}
	reading sync.WaitGroup
	failed  chan struct{} // closed when reading ends early
	err     error         // why, then
}

// acksMost is how many records may be under way.
const acksMost = 4096

// newAcks has read called for each record's answer until it fails.
func newAcks(read func() error) *acks {
	a := &acks{room: make(chan struct{}, acksMost), failed: make(chan struct{})}
	a.reading.Go(func() {
		for {
			if err := read(); err != nil {
				a.err = err
				close(a.failed)
				return
			}
			<-a.room
		}
	})
	return a
}

// add waits for room for one more.
func (a *acks) add(ctx context.Context) error {
	select {
	case a.room <- struct{}{}:
		return nil
	default:
	}
	select {
	case a.room <- struct{}{}:
		return nil
	case <-a.failed:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settled reports whether nothing is under way.
func (a *acks) settled() (bool, error) {
	select {
	case <-a.failed:
		return false, a.err
	default:
		return len(a.room) == 0, nil
	}
}
