package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// TestRxeMTU: the smaller active MTU of both ends is used.
func TestRxeMTU(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for _, s := range []rxeSide{from, to} {
		before := readFile(t, "/sys/class/net/"+s.netdev+"/mtu")
		ip(t, "link", "set", s.netdev, "mtu", "1500")
		c, r, err := tryConnect(t, from.config(t), e, nil)
		if err != nil {
			t.Error(err)
		} else {
			if c.Path.MTU != 1024 {
				t.Errorf("%s has MTU 1500: path MTU %d", s.netdev, c.Path.MTU)
			}
			readOK(t, c, e, 77, 65536)
			closeConn(t, c)
			r.Close()
		}
		ip(t, "link", "set", s.netdev, "mtu", before)
	}
	c := connect(t, from.config(t), e)
	if c.Path.MTU != 4096 {
		t.Errorf("path MTU %d", c.Path.MTU)
	}
	readOK(t, c, e, 77, 65536)
}

// TestRxeReadAtomic: READs in flight are what both ends can do.
func TestRxeReadAtomic(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	for _, c := range []struct{ asked, got int }{{1, 1}, {4, 4}, {0, defaultReadAtomic}, {255, 128}} {
		cfg := from.config(t)
		cfg.ReadAtomic = c.asked
		conn, r, err := tryConnect(t, cfg, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		own, err := conn.e.q.(*verbsQueue).qp.Query()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := r.qp.Query()
		if err != nil {
			t.Fatal(err)
		}
		if conn.Path.Reads != c.got || own.MaxRdAtomic != c.got || peer.MaxDestRdAtomic != c.got || peer.State != ibverbs.RTR || own.State != ibverbs.RTS {
			t.Errorf("asked for %d: path %d, requester %+v, responder %+v", c.asked, conn.Path.Reads, own, peer)
		}
		if peer.Access != ibverbs.AccessRemoteRead || own.Access != 0 {
			t.Errorf("rights: requester %d, responder %d", own.Access, peer.Access)
		}
		readOK(t, conn, e, 0, 65536)
		// Far more READs are posted at once than may be in flight.
		b := newBatch(t, conn, MaxReads*64)
		for i := range MaxReads {
			plan(t, b, uint64(i)*64, 64)
		}
		if err := b.Do(soon()); err != nil {
			t.Errorf("%d reads at once, %d in flight: %v", MaxReads, c.got, err)
		}
		b.Release()
		closeConn(t, conn)
		r.Close()
	}
}

// TestRxeKeysOfEachDevice: a memory that is exported on two devices has a key of each. A
// peer gets that of the device which its connection goes through, whichever was
// registered first; another device's opens nothing.
func TestRxeKeysOfEachDevice(t *testing.T) {
	sides := [2]rxeSide{}
	sides[0], sides[1] = requireRxe(t)
	pool := NewPool(nil)
	all := DefaultConfig()
	all.Pool = pool
	e := newRxeExport(t, all, 1<<20)
	if s := e.Stats(); s.Devices < 2 || s.MRs != s.Devices {
		t.Fatalf("%+v", s)
	}
	keys := [2]uint32{}
	e.mu.Lock()
	for i, s := range sides {
		keys[i] = e.mu.devices[s.device].mr.RKey()
	}
	e.mu.Unlock()
	for i, to := range sides {
		from := sides[1-i]
		dial := func(change func(*answer)) (*Conn, *Responder) {
			d, err := Prepare(from.config(t), to.addr)
			if err != nil {
				t.Fatal(err)
			}
			reply, r, err := e.Accept(t.Context(), d.Offer(), to.addr, from.addr)
			if err != nil {
				t.Fatal(errors.Join(err, d.Close()))
			}
			a, err := parseAnswer(reply)
			if err != nil {
				t.Fatal(err)
			}
			if a.gid != GIDFrom(to.addr) || a.rkey != keys[i] {
				t.Errorf("to %v: by %v, with the key of the device: %v", to.addr, a.gid, a.rkey == keys[i])
			}
			change(&a)
			c, err := d.Finish(t.Context(), appendAnswer(nil, a))
			if err != nil {
				t.Fatal(err)
			}
			return c, r
		}
		c, r := dial(func(*answer) {})
		readOK(t, c, e, 4096, 4096)
		closeConn(t, c)
		r.Close()
		if keys[0] == keys[1] {
			continue // each device numbers its keys by itself
		}
		c, r = dial(func(a *answer) { a.rkey = keys[1-i] })
		failsWith(t, c, 2*time.Second, StaleHandle, ibverbs.RemAccessErr)
		closeConn(t, c)
		r.Close()
	}
}

// TestRxeUnreachablePeer: the kernel looks for a host that is not there for about
// a second; callers are back at their deadline.
func TestRxeUnreachablePeer(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	nobody := netip.MustParseAddr("10.9.0.200")
	d, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	offer, err := parseOffer(d.Offer())
	if err != nil {
		t.Fatal(err)
	}
	offer.gid = GIDFrom(nobody)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, _, err = e.Accept(ctx, appendEndpoint(nil, kindOffer, offer), to.addr, from.addr)
	if !errors.Is(err, context.DeadlineExceeded) || Decide(err) != Retryable {
		t.Errorf("responder: %v", err)
	}
	t.Logf("responder after %v: %v", time.Since(start).Round(time.Millisecond), err)

	reply, r, err := e.Accept(t.Context(), d.Offer(), to.addr, from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, err := parseAnswer(reply)
	if err != nil {
		t.Fatal(err)
	}
	a.gid = GIDFrom(nobody)
	start = time.Now()
	_, err = d.Finish(t.Context(), appendAnswer(nil, a)) // no deadline: the kernel's answer
	var m *ibverbs.ModifyError
	if !errors.As(err, &m) || m.To != ibverbs.RTR || m.Hint == "" || Decide(err) != Retryable {
		t.Errorf("requester: %v", err)
	}
	t.Logf("requester after %v: %v", time.Since(start).Round(time.Millisecond), err)
	eventually(t, 10*time.Second, "late queue pair freed", func() error {
		if s := e.Stats(); s.QPs != 1 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// TestRxeStaleAnswer: an answer to another offer is refused before it does harm.
func TestRxeStaleAnswer(t *testing.T) {
	from, to := requireRxe(t)
	e := newRxeExport(t, to.config(t), 1<<20)
	first, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	reply, r, err := e.Accept(t.Context(), first.Offer(), to.addr, from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := first.Finish(t.Context(), reply); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish after Close: %v", err)
	}
	second, err := Prepare(from.config(t), to.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Finish(t.Context(), reply); !errors.Is(err, ErrStaleAnswer) || Decide(err) != StaleHandle {
		t.Errorf("late answer: %v", err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
