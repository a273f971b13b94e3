package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
