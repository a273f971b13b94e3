package chunkstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Lease is what a node knows of who writes a shard.
type Lease struct {
	// Ballot is the highest that was granted or seen; zero: none.
	Ballot layout.Ballot
	// Owner is who acquired it, for people; empty if the ballot is known from a
	// publication only.
	Owner string
	// Left is what remains until it expires. 0: it has expired, was released, or
	// there is none. The ballot stays all the same, and fences smaller ones.
	Left time.Duration
}

// LeaseError refuses a publication: another writer has the shard. It matches
// ErrLease.
type LeaseError struct {
	Shard layout.Shard
	Held  Lease
}

// Error says who holds the lease.
func (e *LeaseError) Error() string {
	owner := "another writer"
	if e.Held.Owner != "" {
		owner = fmt.Sprintf("%q", e.Held.Owner)
	}
	return fmt.Sprintf("%v: shard %v is written by %s under ballot %d.%x", ErrLease, e.Shard, owner, e.Held.Ballot.Sequence, e.Held.Ballot.Nonce)
}

// Is matches ErrLease.
func (e *LeaseError) Is(target error) bool { return target == ErrLease }

// Leases are the writers' leases that one node holds, at most a number of them:
// beyond it the one that was renewed the longest ago is forgotten, as a restart
// forgets them all, and learnt again from its writer's next publication. Methods
// may be called at once.
type Leases struct {
	max   int
	ttl   time.Duration // of a ballot that was learnt from a publication
	clock func() time.Time
	mu    struct {
		sync.Mutex
		held map[layout.Shard]*lease
		// latest and oldest are the ends of the list by the time of renewal.
		latest, oldest *lease
		forgotten      uint64
	}
}

// lease is one shard's.
type lease struct {
	shard        layout.Shard
	ballot       layout.Ballot
	owner        string
	ttl          time.Duration
	until        time.Time
	newer, older *lease
}

// NewLeases returns room for at least one lease. ttl is the time to live of those
// that are learnt from a publication.
func NewLeases(most int, ttl time.Duration, clock func() time.Time) *Leases {
	l := &Leases{max: max(most, 1), ttl: ttl, clock: clock}
	l.mu.held = make(map[layout.Shard]*lease)
	return l
}

// Query returns the lease of a shard.
func (l *Leases) Query(shard layout.Shard) Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state(shard)
}

// Acquire gives the lease to b, which must not be zero, or renews it, unless the
// held ballot is greater. It returns what is held then: b is granted if it is b.
func (l *Leases) Acquire(shard layout.Shard, b layout.Ballot, owner string, ttl time.Duration) Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.mu.held[shard]
	if h == nil || h.ballot.Compare(b) <= 0 {
		h = l.renew(h, shard)
		h.ballot, h.owner, h.ttl, h.until = b, owner, ttl, l.clock().Add(ttl)
	}
	return l.state(shard)
}

// Release ends the lease of b, if it is the held one, and returns what is held.
func (l *Leases) Release(shard layout.Shard, b layout.Ballot) Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.mu.held[shard]; h != nil && h.ballot == b {
		h.until = time.Time{}
	}
	return l.state(shard)
}

// Admit decides about a publication under b: nil, or a *LeaseError. A ballot that
// is not below the held one renews the lease; a greater one becomes the held one.
// The zero ballot is admitted while nobody holds the lease, and changes nothing.
func (l *Leases) Admit(shard layout.Shard, b layout.Ballot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, now := l.mu.held[shard], l.clock()
	switch {
	case b == layout.Ballot{}:
		if h != nil && h.until.After(now) {
			return &LeaseError{shard, l.state(shard)}
		}
		return nil
	case h != nil && b.Compare(h.ballot) < 0:
		return &LeaseError{shard, l.state(shard)}
	case h == nil || h.ballot != b:
		h = l.renew(h, shard)
		h.ballot, h.owner, h.ttl = b, "", l.ttl
	default:
		l.renew(h, shard)
	}
	h.until = now.Add(h.ttl)
	return nil
}

// Count returns how many leases are known, and how many were forgotten for want
// of room.
func (l *Leases) Count() (known int, forgotten uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.held), l.mu.forgotten
}

// state is what is held of a shard. The caller holds mu, as in all below.
func (l *Leases) state(shard layout.Shard) Lease {
	h := l.mu.held[shard]
	if h == nil {
		return Lease{}
	}
	return Lease{Ballot: h.ballot, Owner: h.owner, Left: max(h.until.Sub(l.clock()), 0)}
}

// renew makes h, or a new lease if it is nil, the latest of the list.
func (l *Leases) renew(h *lease, shard layout.Shard) *lease {
	switch {
	case h == nil:
		if len(l.mu.held) >= l.max {
			old := l.mu.oldest
			l.unlink(old)
			delete(l.mu.held, old.shard)
			l.mu.forgotten++
		}
		h = &lease{shard: shard}
		l.mu.held[shard] = h
	case h == l.mu.latest:
		return h
	default:
		l.unlink(h)
	}
	h.older, h.newer = l.mu.latest, nil
	if h.older != nil {
		h.older.newer = h
	} else {
		l.mu.oldest = h
	}
	l.mu.latest = h
	return h
}

func (l *Leases) unlink(h *lease) {
	if h.newer != nil {
		h.newer.older = h.older
	} else {
		l.mu.latest = h.older
	}
	if h.older != nil {
		h.older.newer = h.newer
	} else {
		l.mu.oldest = h.newer
	}
}
