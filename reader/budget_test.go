package reader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFabricBudgetServesInOrder: who wants much is not overtaken for ever by those
// that want little; who leaves holds up nobody.
func TestFabricBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: 100}
		var mu sync.Mutex
		var order []string
		want := func(name string, n int64, patience time.Duration, served bool) {
			go func() {
				if got := b.wait(n, time.Now().Add(patience), nil); got != served {
					t.Errorf("%s: served %v", name, got)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}()
			synctest.Wait()
		}
		if !b.try(60) || !b.try(40) || b.try(1) {
			t.Fatal("100 of 100, and not one more")
		}
		want("large", 90, time.Hour, true)
		want("impatient", 5, time.Second, false)
		want("small", 10, time.Hour, true)
		b.give(60)
		synctest.Wait()
		if len(order) != 0 || b.try(10) {
			t.Fatalf("overtaken by %v", order)
		}
		<-time.After(2 * time.Second)
		b.give(40)
		synctest.Wait()
		if len(order) != 3 || order[0] != "impatient" {
			t.Fatalf("%v", order)
		}
		b.give(100)
		if !b.try(1000) || b.try(1) {
			t.Fatal("more than the limit is to be had when all is free, and then nothing")
		}
		b.give(1000)
		want("huge", 1000, time.Hour, true)
		stop := make(chan struct{})
		close(stop)
		if b.wait(1, time.Now().Add(time.Hour), stop) {
			t.Fatal("served after the end")
		}
		b.give(1000)
		if b.mu.used != 0 || len(b.mu.waiting) != 0 {
			t.Fatalf("%d bytes used, %d wait", b.mu.used, len(b.mu.waiting))
		}
	})
}
