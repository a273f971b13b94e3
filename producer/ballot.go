package producer

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// acquireTries bounds how often Acquire begins anew because another writer was
// faster.
const acquireTries = 3

// Acquire takes the lease of a shard: the next sequence above all that a quorum of
// the metadata replicas has seen, granted by a quorum of them. Every publication
// under an older ballot is refused by those from then on. Errors match wire.ErrLease
// if another writer holds it, and claims Wait or is faster again and again; else
// they say why there is no quorum.
func (c *ReplicaCache) Acquire(shard layout.Shard, claim Claim) (layout.Ballot, error) {
	var err error
	for range acquireTries {
		var held wire.LeaseReply
		if held, err = c.query(shard); err != nil {
			return layout.Ballot{}, err
		}
		switch {
		case claim == Wait && held.Left > 0:
			return layout.Ballot{}, heldBy(held)
		case held.Ballot.Sequence == math.MaxUint64:
			return layout.Ballot{}, fmt.Errorf("no ballot of %v is above the held one: %w", shard, heldBy(held))
		}
		var b [8]byte
		rand.Read(b[:]) // never fails: crypto/rand
		next := layout.Ballot{Sequence: held.Ballot.Sequence + 1, Nonce: binary.LittleEndian.Uint64(b[:])}
		_, err = c.lease(shard, wire.Lease{Action: wire.LeaseAcquire, Ballot: wire.Ballot(next), TTL: c.cfg.LeaseTTL, Owner: []byte(c.cfg.Owner)})
		if !errors.Is(err, wire.ErrLease) {
			return next, err
		}
	}
	return layout.Ballot{}, err
}

// Release gives the lease of a shard back, so that who comes next need not wait
// for its end. Best effort.
func (c *ReplicaCache) Release(shard layout.Shard, b layout.Ballot) {
	if _, err := c.lease(shard, wire.Lease{Action: wire.LeaseRelease, Ballot: wire.Ballot(b)}); err != nil {
		c.cfg.Logger.Info("a lease was not given back, and expires", "shard", shard, "err", err)
	}
}

// query returns the highest ballot that a quorum knows, and the longest that is
// left of any lease.
func (c *ReplicaCache) query(shard layout.Shard) (held wire.LeaseReply, err error) {
	replies, err := c.lease(shard, wire.Lease{Action: wire.LeaseQuery})
	for _, r := range replies {
		left := max(held.Left, r.Left)
		if layout.Ballot(r.Ballot).Compare(layout.Ballot(held.Ballot)) > 0 {
			held = r
		}
		held.Left = left
	}
	return held, err
}

// lease asks the metadata replicas of the shard's page, and returns what those
// have said that answered before a quorum had.
func (c *ReplicaCache) lease(shard layout.Shard, req wire.Lease) (replies []wire.LeaseReply, err error) {
	r := c.round(nil, wire.OpLease)
	defer r.release()
	r.name = append(r.name[:0], shard.String()...)
	req.Shard = r.name
	r.lease = req
	if r.head, err = req.AppendTo(r.head); err != nil {
		return nil, err
	}
	s := r.page(c.top.Load(), shard, strict)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range s.all {
		if s.ok&(1<<i) != 0 {
			replies = append(replies, r.mu.replies[i])
		}
	}
	if s.outcome() == failed {
		return nil, fmt.Errorf("lease of %v: %w", shard, s.fault(r.op, c.cfg.Timeout))
	}
	return replies, nil
}

// replied keeps a node's answer, and returns the error that it stands for: the
// node may have held a greater ballot than it was to grant.
func (r *round) replied(t task, reply wire.LeaseReply) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.replies[t.replica] = reply
	if r.lease.Action == wire.LeaseAcquire && reply.Ballot != r.lease.Ballot {
		return heldBy(reply)
	}
	return nil
}

// heldBy is the refusal of who is not the holder.
func heldBy(r wire.LeaseReply) error {
	e := &wire.Error{Status: wire.StatusLease, Arg0: r.Ballot.Sequence, Arg1: r.Ballot.Nonce}
	if len(r.Owner) > 0 {
		e.Message = fmt.Sprintf("owner %q", r.Owner)
	}
	return e
}
