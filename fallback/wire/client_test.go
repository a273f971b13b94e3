package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRealHello(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		c := dial(t, node(t, network, serve), Options{Name: "test"})
		if c.Hello() != testHello {
			t.Errorf("%s: hello %+v", network, c.Hello())
		}
		ping(t, c)
		if c.Err() != nil {
			t.Errorf("%s: %v", network, c.Err())
		}
	}
}

func TestRealReplies(t *testing.T) {
	c := dial(t, node(t, "tcp", serve), Options{})
	// Three slices of dst, one of them empty, for two reads.
	dst := [][]byte{make([]byte, 100), {}, make([]byte, 200000)}
	head := must(AppendReadArena(nil, []ArenaRead{{5, 100}, {70000, 200000}}))
	call, err := c.Start(soon(), OpReadArena, head, nil, dst)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := call.Wait(); p != nil || err != nil {
		t.Fatalf("%d B, %v", len(p), err)
	}
	if !bytes.Equal(dst[0], arena[5:105]) || !bytes.Equal(dst[2], arena[70000:270000]) {
		t.Error("wrong bytes")
	}
	// Without dst.
	got, err := c.Call(context.Background(), OpReadArena, must(AppendReadArena(nil, []ArenaRead{{9, 1 << 20}})), nil)
	if err != nil || !bytes.Equal(got, arena[9:][:1<<20]) {
		t.Errorf("%d B, %v", len(got), err)
	}
	// A tail that is larger than any buffer, and an empty reply.
	tail := bytes.Repeat([]byte("t"), MaxAppend)
	a := Append{Shard: []byte("a/0000"), Offset: NoOffset, Data: tail}
	if got, err = c.Call(context.Background(), OpAppend, must(a.AppendTo(nil)), tail); err != nil || len(got) != 16 {
		t.Errorf("%d B, %v", len(got), err)
	}
	if got, err = c.Call(context.Background(), OpPut, must(goldenPut.AppendTo(nil)), goldenPut.Data); err != nil || len(got) != 0 {
		t.Errorf("%d B, %v", len(got), err)
	}
	// A refusal, with and without dst; the connection goes on.
	for _, dst := range [][][]byte{nil, {make([]byte, 3)}} {
		call, err := c.Start(soon(), OpStat, must(AppendStat(nil, "web/0001")), nil, dst)
		if err != nil {
			t.Fatal(err)
		}
		_, err = call.Wait()
		var e *Error
		if !errors.Is(err, ErrUnknownShard) || !errors.As(err, &e) || e.Arg0 != 7 || e.Message != "\x08web/0001" {
			t.Errorf("refusal: %v", err)
		}
	}
	ping(t, c)
}

// The node answers in an order of its own: every reply must find its request.
func TestRealAnyOrder(t *testing.T) {
	const n = 200
	c := dial(t, node(t, "tcp", func(p *peer) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 5 {
			type req struct {
				h Header
				p []byte
			}
			var reqs []req
			for range n {
				h, b := p.next()
				reqs = append(reqs, req{h, b})
			}
			rng.Shuffle(n, func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
			var r Replies
			for _, q := range reqs {
				answer(&r, q.h, q.p)
			}
			if err := r.Flush(p); err != nil {
				t.Error(err)
			}
		}
		_, _, _ = p.Next()
	}), Options{})
	for range 5 {
		var calls []*Call
		dst := make([][]byte, n)
		for i := range n {
			dst[i] = make([]byte, 1+i*37)
			calls = append(calls, readAt(t, c, soon(), uint64(i)*4096, dst[i]))
		}
		for i, call := range calls {
			if _, err := call.Wait(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(dst[i], arena[i*4096:][:len(dst[i])]) {
				t.Fatalf("read %d has another one's bytes", i)
			}
		}
	}
}

func TestRealManyCallers(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		c := dial(t, node(t, network, serve), Options{})
		var wg sync.WaitGroup
		var reads atomic.Int64
		for g := range 512 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 9))
				buf := make([]byte, 16<<10)
				for range 20 {
					n := 1 + rng.IntN(len(buf))
					off := rng.Uint64N(testArena - uint64(n))
					call, err := c.Start(soon(), OpReadArena, must(AppendReadArena(nil, []ArenaRead{{off, uint32(n)}})), nil, [][]byte{buf[:n]})
					if err == nil {
						_, err = call.Wait()
					}
					if err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(buf[:n], arena[off:][:n]) {
						t.Error("wrong bytes")
						return
					}
					reads.Add(1)
				}
			})
		}
		wg.Wait()
		if reads.Load() != 512*20 {
			t.Errorf("%d reads", reads.Load())
		}
		eventually(t, "no request counted as unanswered", func() bool { return idleSlots(c) == 0 })
	}
}

func idleSlots(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.outstanding + c.mu.pendBytes
}

// The deadline passes, the caller reuses its buffer, the reply comes late: the buffer must not change, the connection goes on.
func TestRealLateReply(t *testing.T) {
	late := make(chan struct{})
	c := dial(t, node(t, "tcp", func(p *peer) {
		h, b := p.next()
		<-late
		var r Replies
		answer(&r, h, b)
		if err := r.Flush(p); err != nil {
			t.Error(err)
		}
		serve(p)
	}), Options{})
	buf := make([]byte, 100000)
	_, err := readAt(t, c, time.Now().Add(30*time.Millisecond), 0, buf).Wait()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("late reply: %v", err)
	}
	for i := range buf {
		buf[i] = 0x55
	}
	close(late)
	ping(t, c)
	if n := bytes.Count(buf, []byte{0x55}); n != len(buf) {
		t.Errorf("%d B of a reused buffer were overwritten", len(buf)-n)
	}
	eventually(t, "no request counted as unanswered", func() bool { return idleSlots(c) == 0 })
}

// The node stops in the middle of a payload that is landing in dst: Wait still ends by its deadline, dst is the caller's again, and when
// the node goes on, so does the connection.
func TestRealStallInsideAReply(t *testing.T) {
	for name, give := range map[string]func(*Call) error{
		"wait":    func(call *Call) error { _, err := call.Wait(); return err },
		"abandon": func(call *Call) error { call.Abandon(); return os.ErrDeadlineExceeded },
	} {
		for _, dsts := range []int{0, 1, 4} {
			on, half := make(chan struct{}), make(chan struct{})
			const n = 400000
			c := dial(t, node(t, "tcp", func(p *peer) {
				h, b := p.next()
				var reply bytes.Buffer
				var r Replies
				answer(&r, h, b)
				if err := r.Flush(&reply); err != nil {
					t.Error(err)
				}
				p.send(reply.Bytes()[:n/2])
				close(half)
				<-on
				p.send(reply.Bytes()[n/2:])
				serve(p)
			}), Options{})
			buf := make([]byte, n)
			var dst [][]byte
			for i := range dsts {
				dst = append(dst, buf[i*n/dsts:(i+1)*n/dsts])
			}
			begun := time.Now()
			call, err := c.Start(begun.Add(100*time.Millisecond), OpReadArena, must(AppendReadArena(nil, []ArenaRead{{0, n}})), nil, dst)
			if err != nil {
				t.Fatal(err)
			}
			<-half
			if dsts > 0 {
				eventually(t, "first bytes in dst", func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return call.receiving
				})
			}
			if err := give(call); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s, %d slices: %v", name, dsts, err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s took %s", name, took)
			}
			for i := range buf {
				buf[i] = 0x55
			}
			close(on)
			ping(t, c)
			if got := bytes.Count(buf, []byte{0x55}); got != n {
				t.Errorf("%s, %d slices: %d B of a reused buffer were overwritten", name, dsts, n-got)
			}
		}
	}
}

// The node stops reading while large requests are being written: Waits end by their deadlines, their tails are the callers' again
// (they scribble over them), and when the node goes on it gets every frame as it was started.
func TestRealStallInsideARequest(t *testing.T) {
	on := make(chan struct{})
	type seen struct {
		n    int
		same bool
	}
	got := make(chan seen, 1000)
	c := dial(t, node(t, "tcp", func(p *peer) {
		<-on
		for {
			h, b, err := p.Next()
			if err != nil {
				if !ended(err) {
					t.Errorf("node: %v", err)
				}
				return
			}
			if h.Op == OpAppend {
				a, err := ParseAppend(b)
				if err != nil {
					t.Error(err)
					return
				}
				got <- seen{len(a.Data), bytes.Count(a.Data, a.Data[:1]) == len(a.Data) && a.Data[0] == byte(a.Offset)}
			}
			p.send(AppendReply(nil, h, 0))
		}
	}), Options{MaxPending: 64 << 20})
	const callers = 20 // 20 MiB: more than both ends' socket buffers take
	var wg sync.WaitGroup
	begun := time.Now()
	var sent atomic.Int64
	for i := range callers {
		wg.Go(func() {
			tail := bytes.Repeat([]byte{byte(i)}, MaxAppend)
			a := Append{Shard: []byte("a/0000"), Offset: uint64(i), Data: tail}
			call, err := c.Start(begun.Add(time.Duration(50+10*i)*time.Millisecond), OpAppend, must(a.AppendTo(nil)), tail, nil)
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				return
			}
			sent.Add(1)
			if i%4 == 3 {
				call.Abandon()
			} else if _, err := call.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("call %d: %v", i, err)
			}
			for j := range tail {
				tail[j] = 0xee
			}
		})
	}
	wg.Wait()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("calls with deadlines of 50 to 240 ms took %s", took)
	}
	close(on)
	for range sent.Load() {
		if s := await(t, got, "append"); s.n != MaxAppend || !s.same {
			t.Errorf("the node got %d B, as started: %v", s.n, s.same)
		}
	}
	ping(t, c)
	eventually(t, "no request or byte still counted", func() bool { return idleSlots(c) == 0 })
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

func TestRealCallEndsWithItsContext(t *testing.T) {
	got := make(chan struct{}, 3)
	c := dial(t, node(t, "tcp", func(p *peer) {
		for {
			if _, _, err := p.Next(); err != nil {
				return
			}
			got <- struct{}{}
		}
	}), Options{Timeout: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-got
		cancel()
	}()
	if _, err := c.Call(ctx, OpPing, nil, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.Call(ctx, OpPing, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err := c.Call(context.Background(), OpPing, nil, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("default timeout: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, OpPing, nil, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("context deadline: %v", err)
	}
}

func TestRealStartRefuses(t *testing.T) {
	c := dial(t, node(t, "tcp", serve), Options{})
	if _, err := c.Start(soon(), OpPing, []byte("x"), nil, nil); !errors.Is(err, ErrBadRequest) {
		t.Errorf("payload of a ping: %v", err)
	}
	if _, err := c.Start(soon(), OpPut, make([]byte, 32), make([]byte, 4097), nil); !errors.Is(err, ErrBadRequest) {
		t.Errorf("long put: %v", err)
	}
	if _, err := c.Start(time.Now(), OpPing, nil, nil, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("late start: %v", err)
	}
	ping(t, c)
}

func TestRealBudgetTravels(t *testing.T) {
	budgets := make(chan time.Duration, 1)
	c := dial(t, node(t, "tcp", func(p *peer) {
		h, _ := p.next()
		budgets <- h.Budget
		p.send(AppendReply(nil, h, 0))
		serve(p)
	}), Options{})
	call, err := c.Start(time.Now().Add(patience), OpPing, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Wait(); err != nil {
		t.Fatal(err)
	}
	if b := await(t, budgets, "budget"); b > patience || b < patience/2 {
		t.Errorf("budget %s of %s", b, patience)
	}
}

// Requests started together leave in one write.
func TestRealQueueCoalesces(t *testing.T) {
	addr := node(t, "tcp", serve)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingConn{Conn: conn}
	c, err := NewClient(context.Background(), counted, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := counted.writes.Load()
	bufs := make([]byte, 100*4096)
	var calls []*Call
	for i := range 100 {
		head := must(AppendReadArena(nil, []ArenaRead{{uint64(i) * 4096, 4096}}))
		call, err := c.Queue(soon(), OpReadArena, head, nil, [][]byte{bufs[i*4096:][:4096]})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	if n := counted.writes.Load() - before; n != 0 {
		t.Errorf("%d writes before the flush", n)
	}
	for _, call := range calls { // the first Wait flushes
		if _, err := call.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted.writes.Load() - before; n != 1 {
		t.Errorf("%d writes for 100 requests", n)
	}
	if !bytes.Equal(bufs, arena[:len(bufs)]) {
		t.Error("wrong bytes")
	}
}

type countingConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
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

// No allocation per pipelined read, with deadlines that are armed each time, on either side.
func TestRealReadsAllocateNothing(t *testing.T) {
	c := dial(t, node(t, "tcp", serve), Options{})
	const depth = 16
	head := must(AppendReadArena(nil, []ArenaRead{{0, 4096}, {8192, 4096}}))
	buf := make([]byte, depth*8192)
	dst := make([][][]byte, depth)
	for i := range dst {
		dst[i] = [][]byte{buf[i*8192:][:8192]}
	}
	calls := make([]*Call, depth)
	round := func() {
		deadline := time.Now().Add(patience)
		for i := range calls {
			var err error
			if calls[i], err = c.Start(deadline, OpReadArena, head, nil, dst[i]); err != nil {
				t.Fatal(err)
			}
		}
		for _, call := range calls {
			if _, err := call.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 && !raceEnabled {
		t.Errorf("%v allocations for %d reads", n, depth)
	}
}

// Everything at once: callers with deadlines short and long, reads and appends, a node that answers out of order, late, or in pieces.
// Whatever a caller is told is right, and what it was given back stays its own.
func TestRealChaos(t *testing.T) {
	c := dial(t, node(t, "tcp", chaos), Options{MaxOutstanding: 64, MaxPending: 1 << 20})
	stop := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	var good, late atomic.Int64
	for g := range 48 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 77))
			buf := make([]byte, 128<<10)
			for time.Now().Before(stop) {
				deadline := time.Now().Add(time.Duration(rng.IntN(8000)) * time.Microsecond)
				if rng.IntN(4) == 0 {
					deadline = soon()
				}
				err := oneChaosCall(c, rng, deadline, buf)
				switch {
				case err == nil:
					good.Add(1)
				case errors.Is(err, os.ErrDeadlineExceeded):
					late.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if good.Load() == 0 || late.Load() == 0 {
		t.Errorf("%d good, %d late calls: both kinds are wanted", good.Load(), late.Load())
	}
	t.Logf("%d good, %d late calls", good.Load(), late.Load())
	ping(t, c)
	eventually(t, "no request counted as unanswered", func() bool { return idleSlots(c) == 0 })
}

func oneChaosCall(c *Client, rng *rand.Rand, deadline time.Time, buf []byte) error {
	n := 1 + rng.IntN(len(buf))
	if rng.IntN(3) == 0 {
		tail := buf[:n]
		mark := byte(rng.Uint32())
		for i := range tail {
			tail[i] = mark
		}
		a := Append{Shard: []byte("a/0000"), Offset: uint64(mark), Data: tail}
		call, err := c.Start(deadline, OpAppend, must(a.AppendTo(nil)), tail, nil)
		if err != nil {
			return err
		}
		_, err = call.Wait()
		for i := range tail {
			tail[i] = ^mark
		}
		return err
	}
	off := rng.Uint64N(testArena - uint64(n))
	call, err := c.Start(deadline, OpReadArena, must(AppendReadArena(nil, []ArenaRead{{off, uint32(n)}})), nil, [][]byte{buf[:n/2], buf[n/2 : n]})
	if err != nil {
		return err
	}
	if rng.IntN(10) == 0 {
		call.Abandon()
		err = os.ErrDeadlineExceeded
	} else if _, err = call.Wait(); err == nil && !bytes.Equal(buf[:n], arena[off:][:n]) {
		return fmt.Errorf("wrong bytes of a read of %d at %d", n, off)
	}
	return err
}

// chaos serves like serve, but in a random order, with pauses, and in pieces.
func chaos(p *peer) {
	rng := rand.New(rand.NewPCG(3, 4))
	type req struct {
		h Header
		p []byte
	}
	var held []req
	for {
		h, b, err := p.Next()
		if err != nil {
			return
		}
		if h.Op == OpAppend {
			a, err := ParseAppend(b)
			if err != nil || bytes.Count(a.Data, []byte{byte(a.Offset)}) != len(a.Data) {
				p.t.Errorf("append arrived with other bytes than it was started with (%v)", err)
			}
			b = nil
		}
		held = append(held, req{h, append([]byte(nil), b...)})
		if p.Ready() && len(held) < 20 {
			continue
		}
		rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		var r Replies
		var out bytes.Buffer
		for _, q := range held {
			answer(&r, q.h, q.p)
		}
		held = held[:0]
		_ = r.Flush(&out)
		for out.Len() > 0 {
			if rng.IntN(3) == 0 {
				<-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond)
			}
			if _, err := p.Write(out.Next(1 + rng.IntN(300000))); err != nil {
				return
			}
		}
	}
}
