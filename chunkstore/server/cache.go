package server

import (
	"context"
	"errors"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// arenaCache is the arena as the cache of the node's own appenders and of
// producers elsewhere: its refusals have the protocol's words.
type arenaCache struct{ arena *chunkstore.Arena }

// Put implements producer.Cache. An arena never waits.
func (c arenaCache) Put(_ context.Context, p layout.Put) error { return c.put(p) }

// Publish implements producer.Cache.
func (c arenaCache) Publish(_ context.Context, p layout.Publication) error { return c.publish(p) }

func (c arenaCache) put(p layout.Put) error {
	if err := c.arena.Put(p); err != nil {
		return refusal(err)
	}
	return nil
}

func (c arenaCache) publish(p layout.Publication) error {
	if err := c.arena.Publish(p); err != nil {
		return refusal(err)
	}
	return nil
}

// needPrefix is the common refusal, made once: a put costs no allocation.
var needPrefix = &wire.Error{Status: wire.StatusNeedPrefix}

func refusal(err error) *wire.Error {
	switch {
	case errors.Is(err, chunkstore.ErrPrefix):
		return needPrefix
	case errors.Is(err, chunkstore.ErrBadPut), errors.Is(err, chunkstore.ErrBadPublication):
		return &wire.Error{Status: wire.StatusBadRequest, Message: err.Error()}
	case errors.Is(err, chunkstore.ErrClosed):
		return errClosing
	}
	return &wire.Error{Status: wire.StatusInternal, Message: err.Error()}
}
