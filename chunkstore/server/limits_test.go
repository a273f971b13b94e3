package server

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/fallback/wire"
)

// One client's connections are counted over all of them; another client's are not
// among them.
func TestRealConnectionsOfAClient(t *testing.T) {
	a := serveAccess(t, nil, map[string]auth.Grant{"greedy": {Read: auth.Patterns{"*"}}, "modest": {Read: auth.Patterns{"*"}}}, func(c *Config) { c.Limits.ClientConnections = 2 })
	first, _ := a.as("greedy"), a.as("greedy")
	if _, err := a.try("greedy"); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("a third connection: %v", err)
	}
	a.as("modest")
	first.Close()
	eventually(t, "a place is free", func() bool {
		c, err := a.try("greedy")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Connections that say nothing use up their own share: others come in, and known
// ones stay.
func TestRealStrangers(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Strangers, c.Limits.Handshake = 3, time.Hour })
	good := dial(t, s)
	silent := make([]net.Conn, 3)
	for i := range silent {
		silent[i] = rawDial(t, s)
	}
	eventually(t, "they are counted", func() bool { return s.Stats().Connections == 4 })
	closedByPeer(t, rawDial(t, s))
	if _, err := good.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Error(err)
	}
	greet(t, silent[0]) // no stranger any more
	dial(t, s)
	silent[1].Close()
	eventually(t, "a place is free", func() bool { return s.Stats().Connections <= 4 })
	dial(t, s)
}

func TestRealQueuePairLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		greedy int // how many of one client are accepted
		modest error
	}{
		"of a client": {Limits{ClientQueuePairs: 3, QueuePairs: 8}, 3, nil},
		"of all":      {Limits{QueuePairsTotal: 3, QueuePairs: 8}, 3, wire.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			var open atomic.Int64
			a := &access{t: t, tokens: secretFile(t, "tokens", "x "+tokenOf("x"))}
			a.write(map[string]auth.Grant{"greedy": {}, "modest": {}})
			cfg := testConfig(t)
			cfg.RDMAMode, cfg.Limits = RDMARequire, c.limits
			cfg.Guard = openGuard(t, auth.Settings{Tokens: a.tokens}, auth.Options{})
			a.Server = serveParts(t, cfg, withExport(fakeExport{connect: func([]byte) ([]byte, io.Closer, error) {
				open.Add(1)
				return []byte("answer"), counted{&open}, nil
			}}, nil))
			one, two := a.as("greedy"), a.as("greedy")
			for i := range c.greedy + 2 {
				conn := one
				if i%2 == 1 {
					conn = two
				}
				_, err := conn.Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil)
				if (err == nil) != (i < c.greedy) || err != nil && !errors.Is(err, wire.ErrBusy) {
					t.Errorf("queue pair %d: %v", i+1, err)
				}
			}
			if n := open.Load(); n != int64(c.greedy) {
				t.Errorf("%d queue pairs are open", n)
			}
			if _, err := a.as("modest").Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil); !errors.Is(err, c.modest) {
				t.Errorf("another client: %v, want %v", err, c.modest)
			}
			one.Close()
			two.Close()
			eventually(t, "places are free", func() bool { return a.Stats().QueuePairs <= 1 })
			if _, err := a.as("greedy").Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil); err != nil {
				t.Errorf("after the end of the others: %v", err)
			}
		})
	}
}

// A client that asks for more than its rate is slowed down, on all its connections
// together; another one is not.
func TestRealRequestsPerSecond(t *testing.T) {
	const rate = 200
	a := serveAccess(t, nil, map[string]auth.Grant{"greedy": {Read: auth.Patterns{"*"}}, "modest": {Read: auth.Patterns{"*"}}}, func(c *Config) { c.Limits.RequestsPerSecond = rate })
	clients := []*wire.Client{a.as("greedy"), a.as("greedy")}
	began, done := time.Now(), make(chan error, len(clients))
	const each = 60
	for _, c := range clients {
		go func() {
			var err error
			for range each {
				if _, e := c.Call(t.Context(), wire.OpPing, nil, nil); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	slowest, modest := time.Duration(0), a.as("modest")
	for range 10 {
		one := time.Now()
		if _, err := modest.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
			t.Error(err)
		}
		slowest = max(slowest, time.Since(one))
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(began)
	// The burst is a tenth of a second's.
	if least := time.Duration(len(clients)*each-rate/10-2) * time.Second / rate; took < least {
		t.Errorf("%d requests at %d a second took %v, want %v or more", len(clients)*each, rate, took, least)
	}
	if a.counters.paced.Load() == 0 {
		t.Error("no request has waited")
	}
	t.Logf("%d requests of one client took %v; slowest of another: %v", len(clients)*each, took, slowest)
}

// Appends of one client that wait are bounded over its connections; what exceeds the
// bound is refused, and what waits is not forgotten.
func TestClientBytes(t *testing.T) {
	var cs clients
	limits := &Limits{ClientConnections: 2, ClientDurableBytes: 1 << 20}
	c, err := cs.enter("x", limits)
	if err != nil {
		t.Fatal(err)
	}
	if !c.take(10, 4) {
		t.Error("a first request may have any size")
	}
	if c.take(1, 10) {
		t.Error("over the limit")
	}
	c.give(10)
	if !c.take(4, 10) || !c.take(6, 10) || c.take(1, 10) {
		t.Error("ten bytes are not ten bytes")
	}
	if _, err := cs.enter("x", limits); err != nil {
		t.Error(err)
	}
	cs.leave(c)
	cs.leave(c)
	if len(cs.mu.byName) != 0 {
		t.Error("who is gone is remembered")
	}
}

// The config refuses limits that let nothing through.
func TestLimitsOfClients(t *testing.T) {
	for _, l := range []Limits{{Strangers: -1}, {ClientConnections: -1}, {ClientQueuePairs: -1}, {ClientBytes: 100}, {ClientDurableBytes: 100}, {ClientWaits: -1}, {QueuePairsTotal: -1}, {RequestsPerSecond: -1}} {
		cfg := Config{Listen: "127.0.0.1:0", Limits: l}
		if err := cfg.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
