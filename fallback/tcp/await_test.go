package tcp

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// Await leaves when it is told to, any number of times, and the late reply lands all the same.
func TestRealAwait(t *testing.T) {
	reply := make(chan struct{})
	conn := path(t, dial(t, func(p *peer) {
		var r wire.Replies
		for {
			h, payload, err := p.Next()
			if err != nil {
				return
			}
			if _, ok := <-reply; !ok {
				continue
			}
			answer(&r, h, payload)
			if r.Flush(p) != nil {
				return
			}
		}
	}), Options{MaxBatch: 4 << 20})
	b, got := batch(t, conn, 4<<20, 1<<20, 0, 5000) // two requests
	if settled, err := b.Await(soon()); !settled || !errors.Is(err, ErrState) {
		t.Fatalf("before Post: %v, %v", settled, err)
	}
	if err := b.Post(soon()); err != nil {
		t.Fatal(err)
	}
	left := func() {
		t.Helper()
		for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, 3 * time.Millisecond} {
			if settled, err := b.Await(time.Now().Add(d)); settled || err != nil {
				t.Fatalf("%v, %v", settled, err)
			}
		}
	}
	left()
	reply <- struct{}{} // the first part
	left()
	reply <- struct{}{}
	if settled, err := b.Await(soon()); !settled || err != nil {
		t.Fatalf("%v, %v", settled, err)
	}
	for i, off := range []int{0, 5000} {
		if !bytes.Equal(got[i], arena[off:][:1<<20]) {
			t.Fatalf("wrong bytes of read %d", i)
		}
	}
	b.Reset()
	close(reply) // never again
	b.Add(0, 100)
	start := time.Now()
	if err := b.Post(start.Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if settled, err := b.Await(start.Add(time.Hour)); !settled || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("past the deadline: %v, %v", settled, err)
	}
	if d := time.Since(start); d < 50*time.Millisecond {
		t.Fatalf("the deadline passed after %v", d)
	}
	b.Release()
}
