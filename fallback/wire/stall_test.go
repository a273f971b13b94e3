package wire

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
			var scribble sync.WaitGroup
			over := make(chan struct{})
			scribble.Go(func() { // the slices themselves are the caller's again, too
				for {
					select {
					case <-over:
						return
					default:
						for i := range dst {
							dst[i] = buf
						}
						runtime.Gosched()
					}
				}
			})
			close(on)
			ping(t, c)
			close(over)
			scribble.Wait()
			if got := bytes.Count(buf, []byte{0x55}); got != n {
				t.Errorf("%s, %d slices: %d B of a reused buffer were overwritten", name, dsts, n-got)
			}
		}
	}
}

// The node stops reading while large requests are being written: Waits end by their deadlines, their tails are the callers' again
// (they scribble over them), and when the node goes on it gets every frame as it was started.
func TestRealStallInsideARequest(t *testing.T) { stallInsideARequest(t, "tcp") }

func stallInsideARequest(t *testing.T, network string) {
	on := make(chan struct{})
	type seen struct {
		n    int
		same bool
	}
	got := make(chan seen, 1000)
	c := dial(t, node(t, network, func(p *peer) {
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
	}), Options{MaxPending: 64 << 20, Credentials: credentialsFor(network)})
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
