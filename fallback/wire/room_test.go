package wire

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
)

func idleSlots(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.outstanding + c.mu.pendBytes
}

// Room for requests is bounded: Start waits for it, in order, and for its deadline at most.
func TestRealOutstandingIsBounded(t *testing.T) {
	const most = 4
	release := make(chan struct{})
	c := dial(t, node(t, "tcp", func(p *peer) {
		var r Replies
		for range most {
			h, _ := p.next()
			r.Reply(h, nil)
		}
		<-release
		if err := r.Flush(p); err != nil {
			t.Error(err)
		}
		serve(p)
	}), Options{MaxOutstanding: most})
	for range most {
		call, err := c.Start(time.Now().Add(10*time.Millisecond), OpPing, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	// Given-up requests count: a stopped node collects no more than `most`.
	begun := time.Now()
	_, err := c.Start(begun.Add(30*time.Millisecond), OpPing, nil, nil, nil)
	if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took < 30*time.Millisecond || took > 5*time.Second {
		t.Fatalf("%v after %s", err, took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancelled := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, OpPing, nil, nil)
		cancelled <- err
	}()
	eventually(t, "a waiting start", func() bool { return waiting(c) == 1 })
	cancel()
	if err := await(t, cancelled, "cancelled call"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	done := make(chan error, 3*most)
	for range cap(done) {
		go func() {
			call, err := c.Start(soon(), OpPing, nil, nil, nil)
			if err == nil {
				_, err = call.Wait()
			}
			done <- err
		}()
	}
	eventually(t, "waiting starts", func() bool { return waiting(c) == cap(done) })
	c.mu.Lock()
	if c.mu.others != cap(done) {
		t.Errorf("%d of %d starts that wait for room count as waiting for a reply: who stops leading would leave them alone", c.mu.others, cap(done))
	}
	c.mu.Unlock()
	close(release)
	for range cap(done) {
		if err := await(t, done, "waiting start"); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "no request counted as unanswered", func() bool { return idleSlots(c) == 0 })
}

func waiting(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for call := c.mu.waiting.head; call != nil; call = call.next {
		n++
	}
	return n
}

func TestRealPendingIsBounded(t *testing.T) {
	release := make(chan struct{})
	c := dial(t, node(t, "tcp", func(p *peer) {
		<-release
		serve(p)
	}), Options{MaxPending: 1 << 10})
	// One request above the bound always fits; the socket's buffers take a few more.
	tail := make([]byte, MaxAppend)
	a := Append{Shard: []byte("a/0000"), Data: tail}
	head := must(a.AppendTo(nil))
	var calls []*Call
	var err error
	for err == nil {
		var call *Call
		if call, err = c.Start(time.Now().Add(200*time.Millisecond), OpAppend, head, tail, nil); err == nil {
			calls = append(calls, call)
		}
		if len(calls) > 64 {
			t.Fatal("64 MiB pending with a bound of 1 KiB")
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || len(calls) == 0 {
		t.Errorf("after %d calls: %v", len(calls), err)
	}
	c.mu.Lock()
	if c.mu.pendBytes > MaxAppend+1<<10 {
		t.Errorf("%d B pending", c.mu.pendBytes)
	}
	c.mu.Unlock()
	for _, call := range calls {
		call.Abandon()
	}
	close(release)
	ping(t, c)
}

// A Start that waits for bytes to leave goes on when they have left, not only when a reply comes.
func TestRealPendingDrains(t *testing.T) {
	release := make(chan struct{})
	once := sync.OnceFunc(func() { close(release) })
	defer once()
	const last = 6
	c := dial(t, node(t, "tcp", func(p *peer) {
		<-release
		var r Replies
		for n := 0; n < last; { // nothing is answered before all of them have come
			h, b, err := p.Next()
			if err != nil {
				return
			}
			if a, err := ParseAppend(b); err != nil || a.Offset == 7 {
				r.Reply(h, nil)
				n++
			}
		}
		if err := r.Flush(p); err != nil {
			t.Error(err)
		}
	}), Options{MaxPending: 1 << 20})
	tail := make([]byte, MaxAppend)
	start := func(deadline time.Time, offset uint64) (*Call, error) {
		a := Append{Shard: []byte("a/0000"), Data: tail, Offset: offset}
		return c.Start(deadline, OpAppend, must(a.AppendTo(nil)), tail, nil)
	}
	var calls []*Call
	for {
		call, err := start(time.Now().Add(200*time.Millisecond), 0)
		if err != nil {
			break // the socket takes no more
		}
		calls = append(calls, call)
	}
	for _, call := range calls {
		call.Abandon()
	}
	done := make(chan error, last)
	for range last {
		go func() {
			call, err := start(soon(), 7)
			if err == nil {
				_, err = call.Wait()
			}
			done <- err
		}()
	}
	eventually(t, "waiting starts", func() bool { return waiting(c) > 1 })
	once()
	for range last {
		if err := await(t, done, "reply"); err != nil {
			t.Error(err)
		}
	}
}
