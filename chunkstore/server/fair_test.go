package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/auth/testca"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// rawAs is a connection of a client, so that a test can misbehave in its name.
func (a *access) rawAs(name string) net.Conn {
	a.t.Helper()
	nc := rawDial(a.t, a.Server)
	p, err := wire.HelloRequest{Version: wire.Version, Name: "raw", Token: tokenOf(name)}.AppendTo(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	send(a.t, nc, wire.Header{Op: wire.OpHello}, p)
	if h, _ := receive(a.t, nc); h.Status != wire.StatusOK {
		a.t.Fatalf("hello answered with %v", h.Status)
	}
	return nc
}

func greedyAndModest() map[string]auth.Grant {
	return map[string]auth.Grant{"greedy": {Read: auth.Patterns{"*"}}, "modest": {Read: auth.Patterns{"*"}, Append: auth.Patterns{"*"}}}
}

// A client that asks for durable bytes and does not take them holds its own part of the
// memory for that, and the others read on.
func TestRealDurableBytesOfAClient(t *testing.T) {
	a := serveAccess(t, nil, greedyAndModest(), func(c *Config) { c.Limits.DurableBytes, c.Limits.Write = 4<<20, time.Hour })
	store := durable.NewRemote(a.as("modest"))
	shard := shardOf("logs")
	const size = 1 << 20
	appendPattern(t, store, shard, 0, size)
	req := encode(t, &wire.ReadDurable{Shard: []byte(shard.String()), Max: size})
	for range 2 {
		nc := a.rawAs("greedy")
		for id := range 40 { // more than fits the sockets' buffers
			send(t, nc, wire.Header{Op: wire.OpReadDurable, ID: uint64(id) + 1, Budget: time.Minute}, req)
		}
	}
	eventually(t, "the greedy one has what it can have", func() bool {
		used, _ := a.durableBytes.state(4 << 20)
		return used == 2<<20 && a.Stats().InFlight > 30
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	if n, err := store.ReadAt(ctx, shard.String(), 0, make([]byte, size)); n != size {
		t.Errorf("another client reads %d bytes, %v", n, err)
	}
}

// A client that waits for news everywhere leaves places for others.
func TestRealWaitsOfAClient(t *testing.T) {
	a := serveAccess(t, nil, greedyAndModest(), func(c *Config) { c.Limits.AllWaits = 6 })
	m := a.main()
	at := m.waits.first
	req := encode(t, &wire.AwaitArena{Wait: 10 * time.Second, Words: []wire.ArenaWord{{Off: at, Value: 0}}, Reads: []wire.ArenaRead{{Off: at, N: 8}}})
	one, two := a.as("greedy"), a.as("greedy")
	wait := func(c *wire.Client) {
		t.Helper()
		if _, err := c.Start(time.Now().Add(patience), wire.OpAwaitArena, req, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	wait(one)
	wait(two)
	wait(one)
	eventually(t, "three wait", func() bool { return a.Stats().Waiting == 3 })
	if _, err := two.Call(t.Context(), wire.OpAwaitArena, req, nil); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("a fourth of one client: %v", err)
	}
	modest := a.as("modest")
	wait(modest)
	eventually(t, "another client waits too", func() bool { return a.Stats().Waiting == 4 })
	one.Close()
	eventually(t, "those of a connection end with it", func() bool { return a.Stats().Waiting == 2 })
	wait(two)
	wait(two)
	eventually(t, "places are free again", func() bool { return a.Stats().Waiting == 4 })
}

// Coming anew for each request does not help over the rate.
func TestRealRateOfWhoComesAnew(t *testing.T) {
	const rate, times = 100, 40
	a := serveAccess(t, nil, greedyAndModest(), func(c *Config) { c.Limits.RequestsPerSecond = rate })
	began := time.Now()
	for range times {
		c := a.as("greedy")
		if _, err := c.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
			t.Fatal(err)
		}
		c.Close()
		eventually(t, "it is gone", func() bool { return a.Stats().Connections == 0 })
	}
	// Each costs two requests, and the burst is a tenth of a second's.
	least := time.Duration(2*times-rate/10-3) * time.Second / rate
	if took := time.Since(began); took < least {
		t.Errorf("%d connections with a request each took %v at %d a second, want %v or more", times, took, rate, least)
	}
	eventually(t, "who is gone is forgotten", func() bool {
		a.clients.mu.Lock()
		defer a.clients.mu.Unlock()
		return len(a.clients.mu.byName) == 0
	})
}

// Who is held up by its rate and loses its rights is cut off at once.
func TestRealPacedAndCutOff(t *testing.T) {
	const connections = 60
	a := serveAccess(t, nil, greedyAndModest(), func(c *Config) { c.Limits.RequestsPerSecond = 1 })
	for range connections { // each waits a second longer than the one before
		a.rawAs("greedy")
	}
	eventually(t, "all wait", func() bool { return a.counters.paced.Load() >= connections-1 })
	grants := greedyAndModest()
	delete(grants, "greedy")
	a.change(nil, grants)
	eventually(t, "nobody is left", func() bool { return a.Stats().Connections == 0 })
}

// Those who need not say who they are are told apart by their addresses.
func TestRealAnonymousConnections(t *testing.T) {
	a := serveAccess(t, nil, map[string]auth.Grant{"anonymous": {Read: auth.Patterns{"*"}}, "x": {}}, func(c *Config) { c.Limits.ClientConnections = 1 })
	from := func(ip string) error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := d.DialContext(t.Context(), "tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := wire.NewClient(t.Context(), nc, wire.Options{Name: "test"})
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	if err := from("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := from("127.0.0.1"); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("a second one from there: %v", err)
	}
	if err := from("127.0.0.2"); err != nil {
		t.Errorf("one from another address: %v", err)
	}
}

// at is a connection that says where it comes from.
type at struct {
	net.Conn
	from net.Addr
}

func (a at) RemoteAddr() net.Addr { return a.from }

func TestNetworkOf(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::1": "2001:db8:1:2::/64",
		"2001:db8:1:3::1": "2001:db8:1:3::/64", "::1": "::1", "fe80::1": "fe80::1",
	} {
		if got := networkOf(at{from: &net.TCPAddr{IP: net.ParseIP(from), Port: 7}}); got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
	if got := networkOf(at{from: &net.UnixAddr{Name: "x"}}); got != "x" {
		t.Errorf("a Unix socket: %q", got)
	}
}

// A connection ends with the certificate that it began with, and its rights with it;
// the others stay.
func TestRealCertificateExpires(t *testing.T) {
	ca := testca.New(t)
	node := ca.Node("node")
	s := serve(t, func(c *Config) {
		c.Guard = openGuard(t, auth.Settings{CA: ca.File, Cert: node.Cert, Key: node.Key}, auth.Options{})
	})
	long := ca.Client("carol")
	stays, err := dialAs(t, s, credentials(t, auth.Settings{CA: ca.File, Cert: long.Cert, Key: long.Key}))
	if err != nil {
		t.Fatal(err)
	}
	var ends *wire.Client
	for life := 2 * time.Second; ends == nil; life *= 2 { // a slow machine may need longer to connect
		short := ca.Until("bob", time.Now().Add(life))
		as := credentials(t, auth.Settings{CA: ca.File, Cert: short.Cert, Key: short.Key})
		if ends, err = dialAs(t, s, as); err != nil && life > patience/4 {
			t.Fatal(err)
		} else if err != nil {
			ends = nil
		}
	}
	select {
	case <-ends.Lost():
	case <-time.After(patience):
		t.Fatal("the connection outlives its certificate")
	}
	if _, err := stays.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("another client: %v", err)
	}
}
