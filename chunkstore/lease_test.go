package chunkstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

var leaseShard = layout.Shard{Stream: "logs", Number: 3}

func ballot(sequence, nonce uint64) layout.Ballot {
	return layout.Ballot{Sequence: sequence, Nonce: nonce}
}

func TestLeaseGrants(t *testing.T) {
	clk := newClock()
	l := NewLeases(10, 10*time.Second, clk.now)
	want := func(what string, got Lease, b layout.Ballot, owner string, left time.Duration) {
		t.Helper()
		if got != (Lease{b, owner, left}) {
			t.Errorf("%s: %+v, want %v of %q for %v", what, got, b, owner, left)
		}
	}
	want("nothing yet", l.Query(leaseShard), layout.Ballot{}, "", 0)
	want("first", l.Acquire(leaseShard, ballot(5, 2), "a", time.Second), ballot(5, 2), "a", time.Second)
	clk.advance(300 * time.Millisecond)
	want("another shard", l.Query(layout.Shard{Stream: "logs", Number: 4}), layout.Ballot{}, "", 0)
	want("smaller sequence", l.Acquire(leaseShard, ballot(4, 9), "b", time.Minute), ballot(5, 2), "a", 700*time.Millisecond)
	want("smaller nonce", l.Acquire(leaseShard, ballot(5, 1), "b", time.Minute), ballot(5, 2), "a", 700*time.Millisecond)
	want("the same renews", l.Acquire(leaseShard, ballot(5, 2), "a", time.Second), ballot(5, 2), "a", time.Second)
	want("greater nonce", l.Acquire(leaseShard, ballot(5, 3), "c", 2*time.Second), ballot(5, 3), "c", 2*time.Second)
	want("release of a displaced one", l.Release(leaseShard, ballot(5, 2)), ballot(5, 3), "c", 2*time.Second)
	clk.advance(3 * time.Second)
	want("expired, still a fence", l.Acquire(leaseShard, ballot(5, 2), "a", time.Second), ballot(5, 3), "c", 0)
	want("renewed after expiry", l.Acquire(leaseShard, ballot(5, 3), "c", time.Second), ballot(5, 3), "c", time.Second)
	want("released, still a fence", l.Release(leaseShard, ballot(5, 3)), ballot(5, 3), "c", 0)
	want("query", l.Query(leaseShard), ballot(5, 3), "c", 0)
}

func TestLeaseAdmits(t *testing.T) {
	clk := newClock()
	l := NewLeases(10, 10*time.Second, clk.now)
	admit := func(what string, b layout.Ballot, want error) {
		t.Helper()
		if err := l.Admit(leaseShard, b); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	left := func(what string, want time.Duration) {
		t.Helper()
		if got := l.Query(leaseShard).Left; got != want {
			t.Errorf("%s: %v left, want %v", what, got, want)
		}
	}
	admit("no lease, nobody has one", layout.Ballot{}, nil)
	l.Acquire(leaseShard, ballot(2, 2), "new", 5*time.Second)
	admit("no lease, somebody has one", layout.Ballot{}, ErrLease)
	admit("older", ballot(1, 9), ErrLease)
	if err := l.Admit(leaseShard, ballot(1, 9)); err == nil || !strings.Contains(err.Error(), `"new" under ballot 2.2`) {
		t.Errorf("the refusal does not name the newer writer: %v", err)
	}
	clk.advance(4 * time.Second)
	admit("held", ballot(2, 2), nil)
	left("a publication renews for the lease's own time", 5*time.Second)
	clk.advance(5 * time.Second)
	left("expired", 0)
	admit("no lease, the held one has expired", layout.Ballot{}, nil)
	left("a writer without a lease renews nothing", 0)
	admit("older than an expired one", ballot(2, 1), ErrLease)
	admit("the expired one itself", ballot(2, 2), nil)
	left("is alive again", 5*time.Second)
	admit("newer, never acquired here", ballot(3, 1), nil)
	if got := l.Query(leaseShard); got != (Lease{ballot(3, 1), "", 10 * time.Second}) {
		t.Errorf("learnt from a publication: %+v", got)
	}
	admit("displaced by it", ballot(2, 2), ErrLease)
	l.Release(leaseShard, ballot(3, 1))
	admit("no lease, the held one was released", layout.Ballot{}, nil)
}

// The one that was renewed the longest ago is forgotten, however it was renewed.
func TestLeasesAreBounded(t *testing.T) {
	clk := newClock()
	l := NewLeases(3, time.Second, clk.now)
	shard := func(n uint32) layout.Shard { return layout.Shard{Stream: "s", Number: n} }
	for n := range uint32(3) {
		l.Acquire(shard(n), ballot(1, 1), "", time.Second)
	}
	if err := l.Admit(shard(0), ballot(1, 1)); err != nil { // order: 1, 2, 0
		t.Fatal(err)
	}
	l.Acquire(shard(1), ballot(1, 1), "", time.Second) // order: 2, 0, 1
	if err := l.Admit(shard(3), ballot(7, 7)); err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{true, true, false, true} {
		if known := l.Query(shard(uint32(n))).Ballot != (layout.Ballot{}); known != want {
			t.Errorf("lease of shard %d known: %v", n, known)
		}
	}
	for n := range uint32(100) {
		l.Acquire(shard(n%5), ballot(1, uint64(n)), "", time.Second)
	}
	if known, forgotten := l.Count(); known != 3 || forgotten < 90 {
		t.Errorf("%d known, %d forgotten", known, forgotten)
	}
}

// A refused publication leaves no trace in the arena, not even a page.
func TestPublishUnderABallot(t *testing.T) {
	clk := newClock()
	a := newArena(t, Config{Clock: clk.now})
	look, _ := newConsumer(a.Bytes())
	publish := func(length, incarnation uint64, b layout.Ballot) error {
		return a.Publish(layout.Publication{Shard: leaseShard, Entry: layout.Entry{Length: length, Incarnation: incarnation}, Ballot: b})
	}
	a.Leases().Acquire(leaseShard, ballot(2, 0), "new", time.Minute)
	if err := publish(100, 1, ballot(1, 0)); !errors.Is(err, ErrLease) {
		t.Fatalf("older ballot: %v", err)
	}
	if s := a.Stats(); s.Pages.Used != 0 || s.Poisoned != 1 || s.Leases != 1 {
		t.Errorf("%+v", s)
	}
	if err := publish(50, 2, ballot(2, 0)); err != nil {
		t.Fatal(err)
	}
	for _, b := range []layout.Ballot{{}, ballot(1, 0)} {
		if err := publish(100, 1, b); !errors.Is(err, ErrLease) {
			t.Errorf("ballot %v: %v", b, err)
		}
	}
	if e, ok := look.entry(leaseShard, 2); !ok || e.Length != 50 {
		t.Errorf("published %+v", e)
	}
}
