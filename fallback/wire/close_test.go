package wire

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Close with requests in the middle of the socket and behind it: every caller is told, at once.
func TestRealCloseWithAFullSocket(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold) // before the node is waited for
	c := dial(t, node(t, "tcp", func(*peer) { <-hold }), Options{MaxPending: 64 << 20})
	errs := make(chan error, 64)
	started := 0
	start := func() {
		tail := make([]byte, MaxAppend)
		a := Append{Shard: []byte("a/0000"), Data: tail}
		call, err := c.Start(soon(), OpAppend, must(a.AppendTo(nil)), tail, nil)
		if err != nil {
			t.Fatal(err)
		}
		started++
		go func() {
			_, err := call.Wait()
			errs <- err
		}()
	}
	flushing := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.flushing
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for stuck := 0; stuck < 100; { // milliseconds that one write has lasted
		if !flushing() {
			stuck = 0
			start()
		}
		<-tick.C
		stuck++
	}
	start()
	start()
	c.mu.Lock()
	if c.mu.pend.size < 2*MaxAppend {
		t.Errorf("%d B behind the write that is stuck: the test wants two requests there", c.mu.pend.size)
	}
	c.mu.Unlock()
	begun := time.Now()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for range started {
		if err := await(t, errs, "call"); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrLost) {
			t.Errorf("after close: %v", err)
		}
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("callers were told after %s", took)
	}
}

// The flusher's role may be handed over just before the connection ends: the goroutine that gets it still lets go of the tails.
func TestHandOverAtTheEnd(t *testing.T) {
	near, far := net.Pipe()
	_ = near.Close()
	_ = far.Close()
	for range 64 { // the goroutine may notice either first
		c := &Client{conn: near, lost: make(chan struct{}), wake: make(chan struct{}, 1)}
		call := c.newCall()
		call.tailBusy, call.lost = true, ErrLost
		c.writing.add(Header{Op: OpAppend}, nil, []byte("x"), call)
		c.writing.seal()
		c.mu.flushing, c.mu.err = true, ErrLost
		c.wake <- struct{}{}
		close(c.lost)
		c.ended.Add(1)
		c.write()
		if !call.settled {
			t.Fatal("the tail was not let go of")
		}
	}
}

func TestRealClose(t *testing.T) {
	got := make(chan struct{}, 1)
	c := dial(t, node(t, "tcp", func(p *peer) {
		p.next()
		got <- struct{}{}
		_, _, _ = p.Next()
	}), Options{MaxOutstanding: 1})
	flying := readAt(t, c, soon(), 0, make([]byte, 10))
	await(t, got, "request")
	stuck := make(chan error, 1)
	go func() {
		_, err := c.Start(soon(), OpPing, nil, nil, nil)
		stuck <- err
	}()
	eventually(t, "a waiting start", func() bool { return waiting(c) == 1 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, c.Lost(), "loss")
	_, flew := flying.Wait()
	_, late := c.Start(soon(), OpPing, nil, nil, nil)
	for name, err := range map[string]error{"in flight": flew, "waiting": <-stuck, "after": late, "Err": c.Err()} {
		if !errors.Is(err, ErrLost) || !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
