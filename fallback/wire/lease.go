package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Ballot names one writer of a shard among all that have been. Ballots are ordered by Sequence, then by Nonce; the zero Ballot is that
// of a writer without a lease.
type Ballot struct {
	Sequence uint64 // 0 only in the zero Ballot
	Nonce    uint64 // random, so that two writers that chose the same sequence are told apart
}

func (b Ballot) check(bad error) error {
	if b.Sequence == 0 && b.Nonce != 0 {
		return fmt.Errorf("ballot of sequence 0 with nonce %x: %w", b.Nonce, bad)
	}
	return nil
}

// LeaseAction is what a Lease request wants.
type LeaseAction uint8

const (
	// LeaseQuery changes nothing.
	LeaseQuery LeaseAction = 1
	// LeaseAcquire takes the lease, or renews it: granted if the ballot is not below the held one. The reply's ballot is then the
	// request's, else the held one: being refused is a good reply.
	LeaseAcquire LeaseAction = 2
	// LeaseRelease ends the lease if the ballot is the held one, which still refuses smaller ones.
	LeaseRelease LeaseAction = 3
)

// MaxLease is the longest time to live of a lease.
const MaxLease = 10 * time.Minute

const (
	leaseOffTTL    = 16
	leaseOffAction = 20
	leaseFixed     = 21

	leaseReplyOffLeft = 16
	leaseReplyFixed   = 20
)

var _ = [1]struct{}{}[leaseOffAction+1-leaseFixed]

// Lease asks for, takes or gives back the writer's lease of a shard on one node.
type Lease struct {
	Action LeaseAction
	Ballot Ballot        // not zero in LeaseAcquire
	TTL    time.Duration // LeaseAcquire: 1 ms to MaxLease, in whole milliseconds on the wire, rounded up
	Owner  []byte        // LeaseAcquire: who, for people; at most MaxName bytes
	Shard  []byte        // canonical name, 1 to MaxShard bytes
}

// AppendTo appends l's payload to dst.
func (l *Lease) AppendTo(dst []byte) ([]byte, error) {
	if err := l.check(); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint64(dst, l.Ballot.Sequence)
	dst = binary.LittleEndian.AppendUint64(dst, l.Ballot.Nonce)
	dst = binary.LittleEndian.AppendUint32(dst, budgetMillis(l.TTL))
	dst = append(dst, byte(l.Action))
	dst, err := appendStr(dst, "owner", l.Owner, 0, MaxName)
	if err != nil {
		return dst, err
	}
	return appendStr(dst, "shard name", l.Shard, 1, MaxShard)
}

func (l *Lease) check() error {
	if err := l.Ballot.check(ErrBadRequest); err != nil {
		return err
	}
	switch {
	case l.Action < LeaseQuery || l.Action > LeaseRelease:
		return fmt.Errorf("lease action %d, needs 1 to 3: %w", l.Action, ErrBadRequest)
	case l.TTL < 0 || l.TTL > MaxLease:
		return fmt.Errorf("lease of %s, at most %s: %w", l.TTL, MaxLease, ErrBadRequest)
	case l.Action == LeaseAcquire && (l.TTL == 0 || l.Ballot == Ballot{}):
		return fmt.Errorf("lease of %s under ballot %d, needs both: %w", l.TTL, l.Ballot.Sequence, ErrBadRequest)
	}
	return nil
}

// ParseLease reads a Lease request; Owner and Shard are parts of b.
func ParseLease(b []byte) (Lease, error) {
	if err := atLeast(b, "lease", leaseFixed, ErrBadRequest); err != nil {
		return Lease{}, err
	}
	l := Lease{
		Ballot: Ballot{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])},
		TTL:    time.Duration(binary.LittleEndian.Uint32(b[leaseOffTTL:])) * time.Millisecond,
		Action: LeaseAction(b[leaseOffAction]),
	}
	if err := l.check(); err != nil {
		return Lease{}, err
	}
	var err error
	if l.Owner, b, err = takeStr(b[leaseFixed:], "owner", 0, MaxName, ErrBadRequest); err != nil {
		return Lease{}, err
	}
	if l.Shard, err = lastStr(b, "shard name", 1, MaxShard, ErrBadRequest); err != nil {
		return Lease{}, err
	}
	return l, nil
}

// LeaseReply is what a node holds after a Lease request.
type LeaseReply struct {
	Ballot Ballot // the highest that the node has granted or seen; zero: none
	// Left is what remains of the lease by the node's clock, in whole milliseconds on the wire, rounded up. 0: nobody holds it.
	Left  time.Duration
	Owner []byte // as it was acquired; empty when the node knows the ballot from a publication only
}

// AppendTo appends r's payload to dst.
func (r *LeaseReply) AppendTo(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, r.Ballot.Sequence)
	dst = binary.LittleEndian.AppendUint64(dst, r.Ballot.Nonce)
	dst = binary.LittleEndian.AppendUint32(dst, budgetMillis(r.Left))
	return appendStr(dst, "owner", r.Owner, 0, MaxName)
}

// ParseLeaseReply reads the reply to a Lease; Owner is a part of b.
func ParseLeaseReply(b []byte) (LeaseReply, error) {
	if err := atLeast(b, "lease reply", leaseReplyFixed, ErrMalformed); err != nil {
		return LeaseReply{}, err
	}
	r := LeaseReply{
		Ballot: Ballot{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])},
		Left:   time.Duration(binary.LittleEndian.Uint32(b[leaseReplyOffLeft:])) * time.Millisecond,
	}
	if err := r.Ballot.check(ErrMalformed); err != nil {
		return LeaseReply{}, err
	}
	var err error
	if r.Owner, err = lastStr(b[leaseReplyFixed:], "owner", 0, MaxName, ErrMalformed); err != nil {
		return LeaseReply{}, err
	}
	return r, nil
}
