package rdma

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSemaphoreIsOfOne has many take it at once, by trying and by waiting.
func TestSemaphoreIsOfOne(t *testing.T) {
	s := newSemaphore()
	inside, total := 0, 0 // guarded by s
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 2000 {
				for i%2 == 0 && !s.try() {
					if !s.take(nil) {
						t.Error("take without a stop gave up")
						return
					}
					break
				}
				if i%2 == 1 {
					s.take(nil)
				}
				if inside++; inside != 1 {
					t.Errorf("%d have it", inside)
				}
				inside--
				total++
				s.give()
			}
		})
	}
	all.Wait()
	if total != 8*2000 || s.taken.Load() || s.waiters.Load() != 0 {
		t.Errorf("taken %d times, taken now: %v, %d wait", total, s.taken.Load(), s.waiters.Load())
	}
}

// TestSemaphoreTokenIsPassedOn: who is woken and does not want it wakes another,
// and who stops waiting leaves nobody asleep.
func TestSemaphoreTokenIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSemaphore()
		if !s.try() || s.try() {
			t.Fatal("not of one")
		}
		stop := make(chan struct{})
		gave := make(chan bool, 2)
		go func() { gave <- s.take(stop) }()
		s.wait() // not by take: a waiter that is going to decline
		got := make(chan bool, 1)
		synctest.Wait()
		s.give()
		go func() {
			select {
			case <-s.free:
				s.pass()
				s.leave()
				got <- true
			case <-time.After(time.Second):
				s.leave()
				got <- false
			}
		}()
		if !<-gave {
			t.Error("the other waiter was left asleep")
		}
		<-got
		go func() { gave <- s.take(stop) }()
		synctest.Wait()
		close(stop)
		if <-gave {
			t.Error("taken twice")
		}
		s.give()
		if s.take(stop) {
			t.Error("taken after the stop")
		}
		if !s.try() {
			t.Error("not given back")
		}
	})
}
