package wire

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// Callers that wait one after the other receive by themselves: no other goroutine is on the way of a reply.
func TestRealCallerReceives(t *testing.T) {
	c := dial(t, node(t, "tcp", serve), Options{})
	buf := make([]byte, 4096)
	turns := func() uint64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.turns
	}
	const reads = 200
	// The Client's goroutine may be leading still, and steps back after a few.
	eventually(t, "a caller that receives", func() bool {
		before := turns()
		for range reads {
			if _, err := readAt(t, c, soon(), 0, buf).Wait(); err != nil {
				t.Fatal(err)
			}
		}
		return turns()-before >= reads
	})
	if !bytes.Equal(buf, arena[:4096]) {
		t.Error("wrong bytes")
	}
}

// One caller leads for others. When its own reply has come, or its time is over, another one goes on, at whatever byte it left.
func TestRealLeadersTakeTurns(t *testing.T) {
	const n = 300000
	steps := make(chan []byte) // what the node is to send, in order
	c := dial(t, node(t, "tcp", func(p *peer) {
		var all []byte
		for range 3 {
			h, b := p.next()
			var reply bytes.Buffer
			var r Replies
			answer(&r, h, b)
			if err := r.Flush(&reply); err != nil {
				t.Error(err)
			}
			all = append(all, reply.Bytes()...)
		}
		for part := range steps {
			p.send(all[:len(part)])
			all = all[len(part):]
		}
		p.send(all)
		serve(p)
	}), Options{})
	bufs := [3][]byte{make([]byte, n), make([]byte, 100), make([]byte, n)}
	short := time.Now().Add(200 * time.Millisecond)
	var calls [3]*Call
	for i, deadline := range []time.Time{soon(), soon(), short} {
		calls[i] = readAt(t, c, deadline, uint64(i)*n, bufs[i])
	}
	results := [3]chan error{}
	wait := func(i int) {
		results[i] = make(chan error, 1)
		go func() {
			_, err := calls[i].Wait()
			results[i] <- err
		}()
	}
	wait(2) // leads, most likely, and gets only parts of another's reply
	steps <- make([]byte, HeaderLen+n/3)
	if err := await(t, results[2], "end of the first leader"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	wait(0)
	wait(1)
	steps <- make([]byte, n/3)
	close(steps)
	for i := range 2 {
		if err := await(t, results[i], "reply"); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bufs[i], arena[i*n:][:len(bufs[i])]) {
			t.Errorf("wrong bytes of reply %d", i)
		}
	}
	ping(t, c) // behind the reply that nobody wants any more
}

// A call whose reply has come in part, and whose leader has left, is given up at once; a lost connection settles it at once.
func TestRealNobodyLeadsInsideAReply(t *testing.T) {
	const n = 300000
	for _, loses := range []bool{false, true} {
		for range 10 {
			on := make(chan struct{})
			c := dial(t, node(t, "tcp", func(p *peer) {
				h, b := p.next()
				p.next()
				var reply bytes.Buffer
				var r Replies
				answer(&r, h, b)
				if err := r.Flush(&reply); err != nil {
					t.Error(err)
				}
				p.send(reply.Bytes()[:n/2])
				<-on
				if loses {
					_ = p.Conn.(*net.TCPConn).SetLinger(0) // a reset
					return
				}
				p.send(reply.Bytes()[n/2:])
				p.next() // it has been answered with silence
				serve(p)
			}), Options{})
			buf := make([]byte, n)
			cut := readAt(t, c, soon(), 0, buf)
			leader, err := c.Start(time.Now().Add(30*time.Millisecond), OpPing, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leader.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			eventually(t, "part of a reply", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return cut.receiving
			})
			if loses {
				close(on)
				if _, err := cut.Wait(); !errors.Is(err, ErrLost) {
					t.Fatalf("reply cut short: %v", err)
				}
				continue
			}
			cut.Abandon()
			for i := range buf {
				buf[i] = 0x55
			}
			close(on)
			again := readAt(t, c, soon(), 0, make([]byte, 10))
			_ = again // the node takes it, and does not answer
			ping(t, c)
			if got := bytes.Count(buf, []byte{0x55}); got != n {
				t.Fatalf("%d B of a reused buffer were overwritten", n-got)
			}
			again.Abandon()
		}
	}
}

// An end of the connection is noticed when nobody waits, also after callers have received for a while.
func TestRealIdleLossIsNoticed(t *testing.T) {
	leave := make(chan struct{})
	c := dial(t, node(t, "tcp", func(p *peer) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-leave
			_ = p.Conn.Close()
		}()
		serve(p)
		<-done
	}), Options{})
	buf := make([]byte, 100)
	for range 100 {
		if _, err := readAt(t, c, soon(), 0, buf).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	close(leave)
	await(t, c.Lost(), "loss")
}

// Many callers of all kinds at once, with deadlines that pass now and then: every reply goes to whom it belongs.
func TestRealManyLeaders(t *testing.T) {
	c := dial(t, node(t, "tcp", serve), Options{})
	var callers sync.WaitGroup
	for i := range 12 {
		callers.Go(func() {
			buf := make([]byte, 70000)
			for k := range 150 {
				off := (i*150 + k) * 4096 % (testArena - len(buf)) &^ 7
				size := 8 << (k % 14)
				if k%14 == 13 {
					size = len(buf)
				}
				deadline := soon()
				if k%10 == 9 {
					deadline = time.Now().Add(20 * time.Microsecond)
				}
				call, err := c.Start(deadline, OpReadArena, must(AppendReadArena(nil, []ArenaRead{{uint64(off), uint32(size)}})), nil, [][]byte{buf[:size]})
				if err == nil {
					switch {
					case i%4 == 1:
						for !call.Await(time.Now().Add(50 * time.Microsecond)) {
						}
					case i%4 == 2 && k%5 == 0:
						call.Abandon()
						continue
					}
					_, err = call.Wait()
				}
				switch {
				case err == nil && !bytes.Equal(buf[:size], arena[off:][:size]):
					t.Errorf("wrong bytes at %d (+%d)", off, size)
				case err != nil && (k%10 != 9 || !errors.Is(err, os.ErrDeadlineExceeded)):
					t.Errorf("%d B: %v", size, err)
				}
				if i%4 == 3 && k%7 == 0 {
					ping(t, c)
				}
			}
		})
	}
	callers.Wait()
	eventually(t, "no request counted as unanswered", func() bool { return idleSlots(c) == 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.sleepers != 0 || c.mu.others != 0 {
		t.Errorf("%d and %d callers still counted as waiting", c.mu.sleepers, c.mu.others)
	}
}
