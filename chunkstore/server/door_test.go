package server

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// The door takes connections at its rate, however long nobody came before.
func TestDoorKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(Limits{Accepts: 1000}.withDefaults())
		time.Sleep(time.Hour)
		began, taken, rests := time.Now(), 0, 0
		for time.Since(began) < time.Second {
			if rest := d.rest(time.Now()); rest > 0 {
				rests++
				time.Sleep(rest)
				continue
			}
			taken++
		}
		if taken < 1000 || taken > 1000+2*doorBatch || rests > taken/doorBatch+1 {
			t.Errorf("%d connections in a second with %d rests, want 1000 and as many at once as %d", taken, rests, 2*doorBatch)
		}
	})
}

// One address has its share, and others have theirs beside it; who is gone is
// forgotten.
func TestDoorByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(Limits{AddressAccepts: 10, Strangers: 20}.withDefaults())
		a, b := "192.0.2.1", "192.0.2.2"
		admitted := func(from string, n int) (yes int) {
			for range n {
				if d.admits(from, time.Now()) {
					yes++
				}
			}
			return yes
		}
		if n := admitted(a, 100); n != 20 {
			t.Errorf("%d of 100 at once were admitted, want 20", n)
		}
		if n := admitted(b, 5); n != 5 {
			t.Errorf("%d of 5 from another address were admitted", n)
		}
		time.Sleep(time.Second)
		if n := admitted(a, 100); n != 10 {
			t.Errorf("%d of 100 were admitted after a second, want 10", n)
		}
		time.Sleep(time.Minute)
		if admitted(b, 1); len(d.from) != 1 {
			t.Errorf("%d addresses are remembered, want 1", len(d.from))
		}
	})
}

// What comes faster from an address than it may is reset at once, another address is
// served, and clients that are there do not notice.
func TestRealDoor(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.AddressAccepts, c.Limits.Strangers = 1, 10 })
	good := dial(t, s)
	reset := 0
	for range 40 {
		nc, err := net.DialTimeout("tcp", s.Addr().String(), patience)
		if err != nil {
			reset++ // faster than the call has returned
			continue
		}
		nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := nc.Read(make([]byte, 1)); err != nil && !err.(net.Error).Timeout() {
			reset++
		}
		nc.Close()
	}
	if reset < 25 {
		t.Errorf("%d of 40 connections at once were reset, from an address that may have 10", reset)
	}
	if _, err := good.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("a client that was there before: %v", err)
	}
	eventually(t, "refusals are counted", func() bool { return s.Stats().ConnectionsRefused == uint64(reset) })
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	nc, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Skip("this host has one loopback address alone:", err)
	}
	defer nc.Close()
	greet(t, nc)
}
