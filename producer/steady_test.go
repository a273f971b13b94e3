package producer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// seats is a queue without an Appender, with batches of one record.
type seats struct {
	*queue
	t    *testing.T
	all  []*seat
	acks []Ack
}

func newSeats(t *testing.T, n, room, records int) *seats {
	t.Helper()
	cfg := Config{Shard: testShard, Logger: slog.New(slog.DiscardHandler), Limits: Limits{QueueRecords: room, BatchRecords: 1, Linger: -1}.withDefaults()}
	s := &seats{t: t}
	for i := range n {
		s.all = append(s.all, newSeat(layout.Shard{Stream: "logs", Number: uint32(i)}))
		if i > 0 {
			cfg.More = append(cfg.More, Target{Shard: s.all[i].shard})
		}
	}
	s.queue = newQueue(cfg, newMetrics(nil))
	for range records {
		k, err := s.put(t.Context(), wire.NoOffset, []byte("x"), noWait)
		if err != nil {
			t.Fatal(err)
		}
		s.acks = append(s.acks, k)
	}
	return s
}

// takes has a seat take the next batch, if there is one.
func (s *seats) takes(i int) bool {
	b, _, _ := s.next(s.all[i], time.Now())
	return b != nil
}

// lands has a seat bring it through, and says whether it is to give way then.
func (s *seats) lands(i int, err error) (yields bool) {
	return s.landed(s.all[i], 0, err, time.Millisecond, time.Now())
}

// resolved counts the records whose Acks have resolved.
func (s *seats) resolved() (n int) {
	for _, k := range s.acks {
		select {
		case <-k.Done():
			n++
		default:
		}
	}
	return n
}

func (s *seats) want(what string, yields, wantYields bool, resolved int) {
	s.t.Helper()
	if n := s.resolved(); yields != wantYields || n != resolved {
		s.t.Errorf("%s: gives way %v, want %v; %d Acks resolved, want %d", what, yields, wantYields, n, resolved)
	}
}

// The first seat that takes a batch goes on without giving way while batches wait,
// and leaves its Acks to the next seat that lands. The others give way.
func TestOneSeatIsSteady(t *testing.T) {
	s := newSeats(t, 3, 16, 9)
	defer s.late.Stop()
	for i := range 3 {
		s.takes(i)
	}
	s.want("first", s.lands(0, nil), false, 0)
	s.takes(0)
	s.want("first again", s.lands(0, nil), false, 0)
	s.takes(0)
	s.want("second", s.lands(1, nil), true, 3)
	s.want("third", s.lands(2, nil), true, 4)
	s.want("first, alone on its way", s.lands(0, nil), false, 5) // nobody is there to resolve its Acks
	s.takes(1)
	s.takes(0)
	s.takes(2)
	s.want("first, one batch waits", s.lands(0, nil), true, 6)
	s.lands(1, nil)
	s.takes(1)
	if s.takes(0) || s.mu.watch.steady != nil {
		t.Error("a seat is steady with nothing to write")
	}
	s.lands(1, nil)
	s.lands(2, nil)
	s.want("all", true, true, 9)
}

// Acks that were left to another seat resolve all the same: when somebody waits for
// them, when nothing more is to be written, when too many are left, and in time when
// the other seats hang.
func TestAcksOfTheSteadySeatResolve(t *testing.T) {
	held := func(t *testing.T) *seats {
		s := newSeats(t, 2, 64, 40)
		s.takes(0)
		s.takes(1)
		s.want("first", s.lands(0, nil), false, 0)
		return s
	}
	t.Run("Flush", func(t *testing.T) {
		s := held(t)
		defer s.late.Stop()
		s.hurry()
		s.want("asked for", true, true, 1)
	})
	t.Run("nothing waits", func(t *testing.T) {
		s := held(t)
		defer s.late.Stop()
		s.end(ErrClosed, refuse)
		if s.takes(0) {
			t.Fatal("took what was refused")
		}
		s.want("all but the one on its way", true, true, 39)
	})
	t.Run("many", func(t *testing.T) {
		s := held(t)
		defer s.late.Stop()
		for range heldMost - 1 {
			s.takes(0)
			s.want("next", s.lands(0, nil), false, 0)
		}
		s.takes(0)
		s.want("one too many", s.lands(0, nil), false, heldMost+1)
	})
	t.Run("others hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := held(t)
			time.Sleep(lateAck - time.Microsecond)
			synctest.Wait()
			s.want("too early", true, true, 0)
			time.Sleep(time.Microsecond)
			synctest.Wait()
			s.want("in time", true, true, 1)
			s.takes(0)
			s.lands(0, nil)
			time.Sleep(lateAck)
			synctest.Wait()
			s.want("again", true, true, 2)
		})
	})
}

// A failed write is told at once, and ends the steadiness.
func TestFailureOfTheSteadySeat(t *testing.T) {
	s := newSeats(t, 2, 16, 8)
	s.takes(0)
	s.takes(1)
	s.want("failed", s.lands(0, errors.New("disk on fire")), true, 1)
	if s.mu.watch.steady != nil {
		t.Error("still steady")
	}
}

// The only seat gives way after each batch: its producers come back then.
func TestOnlySeatIsNotSteady(t *testing.T) {
	s := newSeats(t, 1, 16, 8)
	for i := range 8 {
		s.takes(0)
		s.want("batch", s.lands(0, nil), true, i+1)
	}
}

// A blocked producer is let in when half of the queue is free, and not for each
// batch before; by the steady seat only when the queue is nearly empty.
func TestBlockedProducersAreLetInByHalves(t *testing.T) {
	for seat, after := range map[int]int{1: 4, 0: 6} {
		synctest.Test(t, func(t *testing.T) {
			s := newSeats(t, 2, 8, 8)
			s.takes(0)
			if k, err := s.put(t.Context(), wire.NoOffset, []byte("x"), noWait); err != nil {
				t.Fatal(err, k)
			}
			let := make(chan struct{})
			go func() {
				if _, err := s.put(context.Background(), wire.NoOffset, []byte("x"), mayWait); err != nil {
					t.Error(err)
				}
				close(let)
			}()
			synctest.Wait()
			s.lands(0, nil)
			for taken := 1; taken <= after; taken++ {
				s.takes(seat)
				s.lands(seat, nil)
				synctest.Wait()
				select {
				case <-let:
					if taken < after {
						t.Errorf("seat %d: let in after %d batches of 8, want %d", seat, taken, after)
					}
				default:
					if taken == after {
						t.Errorf("seat %d: not let in after %d batches of 8", seat, taken)
						s.end(ErrClosed, refuse)
					}
				}
			}
			<-let
			s.late.Stop()
		})
	}
}

// What the steady seat leaves to others costs no memory of its own: a batch costs
// what its Acks point to, whoever resolves them.
func TestSteadySeatHardlyAllocates(t *testing.T) {
	s := newSeats(t, 2, 64, 0)
	defer s.late.Stop()
	const batches = 100
	n := testing.AllocsPerRun(10, func() {
		for range batches {
			for range 4 {
				if _, err := s.put(context.Background(), wire.NoOffset, []byte("x"), noWait); err != nil {
					t.Fatal(err)
				}
			}
			s.takes(0)
			s.takes(1)
			s.lands(0, nil)
			s.takes(0)
			s.lands(1, nil)
			s.takes(1)
			s.lands(0, nil)
			s.lands(1, nil)
		}
	})
	if n > 4*3*batches+10 {
		t.Errorf("%v allocations for %d batches", n, 4*batches)
	}
}
