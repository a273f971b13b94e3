package server

import (
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// arenaNode is an arena as a cache, for the node's own appenders and for producers
// elsewhere: its refusals have the protocol's words.
type arenaNode struct{ arena *chunkstore.Arena }

// Put stores a piece of a chunk, or all of it if the arena lacks its prefix and
// the put has Whole.
func (c arenaNode) Put(p layout.Put) error {
	err := c.arena.Put(p)
	if errors.Is(err, chunkstore.ErrPrefix) {
		if whole, ok := p.FromStart(); ok {
			err = c.arena.Put(whole)
		}
	}
	if err != nil {
		return refusal(err)
	}
	return nil
}

// Publish moves a shard's published end.
func (c arenaNode) Publish(p layout.Publication) error {
	if err := c.arena.Publish(p); err != nil {
		return refusal(err)
	}
	return nil
}

// Lease asks for, takes or gives back the lease of a shard.
func (c arenaNode) Lease(req wire.Lease) (wire.LeaseReply, error) {
	shard, err := parseShard(req.Shard)
	if err != nil {
		return wire.LeaseReply{}, err
	}
	leases, b := c.arena.Leases(), layout.Ballot(req.Ballot)
	var l chunkstore.Lease
	switch req.Action {
	case wire.LeaseQuery:
		l = leases.Query(shard)
	case wire.LeaseAcquire:
		l = leases.Acquire(shard, b, string(req.Owner), req.TTL)
	case wire.LeaseRelease:
		l = leases.Release(shard, b)
	default:
		return wire.LeaseReply{}, fmt.Errorf("lease action %d: %w", req.Action, wire.ErrBadRequest)
	}
	return wire.LeaseReply{Ballot: wire.Ballot(l.Ballot), Left: l.Left, Owner: []byte(l.Owner)}, nil
}

// needPrefix is the common refusal, made once: a put costs no allocation.
var needPrefix = &wire.Error{Status: wire.StatusNeedPrefix}

func refusal(err error) *wire.Error {
	var held *chunkstore.LeaseError
	switch {
	case errors.Is(err, chunkstore.ErrPrefix):
		return needPrefix
	case errors.As(err, &held):
		e := &wire.Error{Status: wire.StatusLease, Arg0: held.Held.Ballot.Sequence, Arg1: held.Held.Ballot.Nonce}
		if held.Held.Owner != "" {
			e.Message = fmt.Sprintf("owner %q", held.Held.Owner)
		}
		return e
	case errors.Is(err, chunkstore.ErrBadPut), errors.Is(err, chunkstore.ErrBadPublication):
		return &wire.Error{Status: wire.StatusBadRequest, Message: err.Error()}
	case errors.Is(err, chunkstore.ErrClosed):
		return errClosing
	}
	return &wire.Error{Status: wire.StatusInternal, Message: err.Error()}
}
