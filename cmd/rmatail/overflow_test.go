package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// stuck is a sink that takes a batch only when it is let.
type stuck struct {
	sink
	let    chan error
	closed chan struct{}
	got    []string
}

func (s *stuck) start(uint64, bool) {}
func (s *stuck) flush() error       { return nil }

func (s *stuck) send(b *batch) error {
	s.got = append(s.got, string(b.data))
	select {
	case err := <-s.let:
		return err
	case <-s.closed:
		return errClosedPipe
	}
}

func (s *stuck) close(context.Context) error {
	close(s.closed)
	return nil
}

func TestAFullQueueDropsWholeBatchesAndCountsThem(t *testing.T) {
	for _, c := range []struct {
		what          overflow
		dropped, kept string
	}{
		{dropNewest, "4 5 6", "0 1 2 3"},
		{dropOldest, "1 2 3", "0 4 5 6"},
	} {
		s := &stuck{let: make(chan error), closed: make(chan struct{})}
		var dropped []string
		q := newQueue(s, c.what, 3, func(b *batch) { dropped = append(dropped, string(b.data)) })
		q.start(0, false)
		for i := range 7 {
			if err := q.send(&batch{data: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // on its way
				eventually(t, "the first batch on its way", func() bool {
					q.mu.Lock()
					defer q.mu.Unlock()
					return q.mu.busy
				})
			}
		}
		go func() {
			for range 4 {
				s.let <- nil
			}
		}()
		if err := q.flush(); err != nil {
			t.Fatal(err)
		}
		if err := q.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(dropped, " "); got != c.dropped {
			t.Errorf("policy %d dropped %q, want %q", c.what, got, c.dropped)
		}
		if got := strings.Join(s.got, " "); got != c.kept {
			t.Errorf("policy %d kept %q, want %q", c.what, got, c.kept)
		}
	}
}

func TestAQueueHandsOnTheErrorOfItsSink(t *testing.T) {
	broken := errors.New("broken")
	s := &stuck{let: make(chan error, 1), closed: make(chan struct{})}
	s.let <- broken
	q := newQueue(s, dropNewest, 3, func(*batch) {})
	q.start(0, false)
	q.send(&batch{data: []byte("x")})
	if err := q.flush(); !errors.Is(err, broken) {
		t.Errorf("flush: %v", err)
	}
	if err := q.send(&batch{data: []byte("y")}); !errors.Is(err, broken) {
		t.Errorf("send: %v", err)
	}
	if err := q.close(t.Context()); err != nil {
		t.Error(err)
	}
}
