package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// sink takes the records of one shard in order.
type sink interface {
	// append returns when the record is acknowledged, with the shard's new end.
	append(ctx context.Context, pos uint64, p []byte) (end uint64, err error)
	close() error
}

// appenderSink is an Appender in this process, opened again when it ends.
type appenderSink struct {
	open func(ctx context.Context) (*producer.Appender, error)
	a    *producer.Appender
}

func (s *appenderSink) append(ctx context.Context, pos uint64, p []byte) (uint64, error) {
	if s.a == nil {
		a, err := s.open(ctx)
		if err != nil {
			return 0, err
		}
		s.a = a
	}
	k, err := s.a.AppendAt(ctx, pos, p)
	if err == nil {
		_, err = k.Wait(ctx)
	}
	if err == nil {
		return pos + uint64(len(p)), nil
	}
	if errors.Is(err, wire.ErrOffset) && !errors.Is(err, producer.ErrFenced) {
		return 0, err // it goes on
	}
	return 0, errors.Join(err, s.close())
}

func (s *appenderSink) close() error {
	if s.a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.a.Close(ctx)
	s.a = nil
	return err
}

// nodeSink appends through the node that owns the store.
type nodeSink struct {
	addr  string
	shard layout.Shard
	c     *wire.Client
}

func (s *nodeSink) append(ctx context.Context, pos uint64, p []byte) (uint64, error) {
	if s.c == nil {
		c, err := wire.Dial(ctx, s.addr, wire.Options{Name: "chaos"})
		if err != nil {
			return 0, err
		}
		s.c = c
	}
	_, end, err := durable.NewRemote(s.c).Append(ctx, s.shard.String(), pos, p)
	if err != nil && !errors.Is(err, wire.ErrOffset) {
		return 0, errors.Join(err, s.close())
	}
	return end, err
}

func (s *nodeSink) close() error {
	if s.c == nil {
		return nil
	}
	err := s.c.Close()
	s.c = nil
	return err
}
