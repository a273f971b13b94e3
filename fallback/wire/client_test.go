package wire

import (
	"bytes"
	"context"
	"errors"
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
