package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math"
	"os"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma/local"
	"github.com/rmatail/rmatail/reader"
)

// A consumer of tenant A reads all that it can get over TCP and shared memory, with
// its own offsets and tickets and with those of B, and finds not one byte of B.
func TestRealTenantsOverTCPAndSharedMemory(t *testing.T) {
	a := twoTenants(t, nil)
	admin := durable.NewRemote(a.as("admin"))
	incarnation := func(stream string) uint64 {
		info, err := admin.Stat(t.Context(), shardOf(stream).String())
		if err != nil {
			t.Fatal(err)
		}
		return info.Incarnation
	}
	own := map[string]string{"alice": "a-logs", "bob": "b-logs", "carol": "public"}
	clients := map[string]*wire.Client{}
	for who := range own {
		clients[who] = a.as(who)
	}
	for who, stream := range own {
		c := clients[who]
		h := c.Hello()
		// Its own bytes are there, by both ways.
		if got := overTCP(t, c).check(t, shardOf(stream), incarnation(stream), 300_000); got != 74 {
			t.Errorf("%s over tcp: %d chunks", who, got)
		}
		conn, err := local.Dialer{Ticket: []byte(h.Ticket)}.Dial(t.Context(), h.ShmPath, h.Epoch)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		defer conn.Close()
		b, err := conn.NewBatch(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		if got := overBatch(t, b).check(t, shardOf(stream), incarnation(stream), 300_000); got != 74 {
			t.Errorf("%s over shm: %d chunks", who, got)
		}
		// Nobody else's are, wherever it looks.
		for other, theirs := range own {
			if other == who {
				continue
			}
			for way, mem := range map[string]func(uint64, int) []byte{"tcp": overTCP(t, c).read, "shm": overBatch(t, b).read} {
				if found := scan(t, mem, h.ArenaSize, shardOf(theirs), incarnation(theirs)); found != nil {
					t.Errorf("%s finds %s's over %s: %v", who, other, way, found)
				}
				if found := scan(t, mem, h.ArenaSize, shardOf(stream), incarnation(stream)); found == nil {
					t.Errorf("%s does not find its own over %s: the search is blind", who, way)
				}
			}
			// With the other's socket, and its own ticket, no ticket, a guessed one, and the
			// other's epoch.
			path := clients[other].Hello().ShmPath
			for _, ticket := range []string{h.Ticket, "", rand.Text()} {
				x, err := local.Dialer{Ticket: []byte(ticket)}.Dial(t.Context(), path, 0)
				if !errors.Is(err, local.ErrDenied) {
					t.Errorf("%s at %s's socket with ticket %q: %v", who, other, ticket, err)
				}
				if x != nil {
					x.Close()
				}
			}
			// Past the end of its own memory, over TCP.
			for _, off := range []uint64{h.ArenaSize, h.ArenaSize - 8, 1 << 40, math.MaxUint64 - 100} {
				p := must(wire.AppendReadArena(nil, []wire.ArenaRead{{Off: off, N: 64}}))
				if _, err := c.Call(t.Context(), wire.OpReadArena, p, nil); !errors.Is(err, wire.ErrBadRequest) {
					t.Errorf("%s at %d: %v", who, off, err)
				}
			}
			// By the durable store.
			if _, err := durable.NewRemote(c).ReadAt(t.Context(), shardOf(theirs).String(), 0, make([]byte, 100)); !errors.Is(err, wire.ErrForbidden) {
				t.Errorf("%s reads %s's durable bytes: %v", who, other, err)
			}
		}
	}
}

// A ticket of one memory opens no other one, not even the one that has taken its
// place while the connection has not quite ended.
func TestTicketsAreOfOneMemory(t *testing.T) {
	var ts tickets
	old, next := &memory{tenant: "a"}, &memory{tenant: "a"}
	ts.add("ticket", old)
	if !ts.opens([]byte("ticket"), old) || ts.opens([]byte("ticket"), next) || ts.opens([]byte("other"), old) {
		t.Error("a ticket is not its memory's")
	}
	ts.remove("ticket")
	if ts.opens([]byte("ticket"), old) {
		t.Error("a ticket that was taken back opens")
	}
}

// A ticket is worth nothing after its connection.
func TestRealTicketEndsWithItsConnection(t *testing.T) {
	a := twoTenants(t, nil)
	c := a.as("alice")
	h := c.Hello()
	c.Close()
	eventually(t, "the ticket is dead", func() bool {
		conn, err := local.Dialer{Ticket: []byte(h.Ticket)}.Dial(t.Context(), h.ShmPath, 0)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, local.ErrDenied)
	})
}

// Processes of a user that a rule is about get the memory without a ticket.
func TestRealUsersAtTheSocket(t *testing.T) {
	grants := theGrants()
	grants[string(auth.OfUser(uint32(os.Getuid())))] = auth.Grant{Read: auth.Patterns{"a-*"}, Tenant: "a"}
	a := serveAccess(t, theTenants, grants, nil)
	var lost <-chan struct{}
	for who, want := range map[string]error{"alice": nil, "bob": local.ErrDenied, "carol": local.ErrDenied} {
		conn, err := local.Dial(t.Context(), a.as(who).Hello().ShmPath, 0)
		if !errors.Is(err, want) {
			t.Errorf("this user at %s's socket: %v, want %v", who, err, want)
		}
		if err == nil {
			defer conn.Close()
			lost = conn.Lost()
		}
	}
	// Without the rule the mapping ends, and the new memory is not for this user.
	before := a.memories.now.Load().of["a"]
	a.change(theTenants, theGrants())
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("a user without a rule keeps the memory")
	}
	eventually(t, "the memory is another", func() bool { return a.memories.now.Load().of["a"] != before })
	if _, err := local.Dial(t.Context(), a.memories.now.Load().of["a"].socketPath, 0); !errors.Is(err, local.ErrDenied) {
		t.Errorf("this user, without a rule: %v", err)
	}
}

// Who is no longer known is cut off and stays out; its memory gets another epoch, and
// the others of its tenant come back by themselves. Those of another tenant notice
// nothing.
func TestRealRevocation(t *testing.T) {
	grants := theGrants()
	grants["anna"] = auth.Grant{Read: auth.Patterns{"*"}, Tenant: "a"}
	grants["writer"] = auth.Grant{Append: auth.Patterns{"a-*"}, Tenant: "a"}
	a := serveAccess(t, theTenants, grants, nil)
	alice, anna, bob := a.as("alice"), a.as("anna"), a.as("bob")
	lone := serveAccess(t, theTenants, grants, nil) // a node of which only who reads nothing loses something
	writer, reader := lone.as("writer"), lone.as("anna")
	without := maps.Clone(grants)
	delete(without, "writer")
	lone.change(theTenants, without)
	select {
	case <-writer.Lost():
	case <-time.After(patience):
		t.Fatal("who only appends is not cut off")
	}
	if _, err := reader.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("a reader is cut off with who reads nothing: %v", err)
	}
	admin := durable.NewRemote(a.as("admin"))
	appendPattern(t, admin, shardOf("a-logs"), 0, 100_000)
	kept, err := local.Dialer{Ticket: []byte(alice.Hello().Ticket)}.Dial(t.Context(), alice.Hello().ShmPath, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	delete(grants, "alice")
	a.change(theTenants, grants)
	for who, c := range map[string]*wire.Client{"alice": alice, "anna": anna} {
		select {
		case <-c.Lost():
		case <-time.After(patience):
			t.Fatalf("%s is not cut off", who)
		}
	}
	select {
	case <-kept.Lost():
	case <-time.After(patience):
		t.Fatal("the mapping does not end")
	}
	if _, err := a.try("alice"); !errors.Is(err, wire.ErrUnknownPeer) {
		t.Errorf("alice comes back: %v", err)
	}
	if _, err := (local.Dialer{Ticket: []byte(alice.Hello().Ticket)}).Dial(t.Context(), alice.Hello().ShmPath, 0); err == nil {
		t.Error("alice's ticket still opens the socket")
	}
	var again *wire.Client
	eventually(t, "anna comes back", func() bool {
		again, err = a.try("anna")
		return err == nil
	})
	if again.Hello().Epoch == anna.Hello().Epoch {
		t.Error("the memory has the epoch of before")
	}
	// What is appended from now on is in the new memory alone.
	appendPattern(t, admin, shardOf("a-logs"), 100_000, 200_000)
	info, err := admin.Stat(t.Context(), shardOf("a-logs").String())
	if err != nil {
		t.Fatal(err)
	}
	r := overTCP(t, again)
	hash := shardOf("a-logs").Hash(info.Incarnation)
	if e := r.entry(t, shardOf("a-logs")); !e.Valid(hash) || e.Length != 200_000 {
		t.Errorf("new memory: length %d, valid %v", e.Length, e.Valid(hash))
	}
	if got := r.chunk(t, hash, 40); !bytes.Equal(got, pattern(40*4096, 4096)) {
		t.Error("new memory lacks what was appended")
	}
	if _, err := bob.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("bob: %v", err)
	}
}

// A Reader of a tenant whose memory is renewed comes back by itself, over shared
// memory as before, and misses nothing.
func TestRealReaderComesBack(t *testing.T) {
	grants := theGrants()
	grants["anna"] = auth.Grant{Read: auth.Patterns{"*"}, Tenant: "a"}
	a := serveAccess(t, theTenants, grants, nil)
	admin := durable.NewRemote(a.as("admin"))
	shard := shardOf("a-logs")
	appendPattern(t, admin, shard, 0, 50_000)
	cluster, err := reader.Open(t.Context(), reader.Config{Server: a.Addr().String(), Credentials: credentials(t, auth.Settings{Token: secretFile(t, "token", tokenOf("anna"))})})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	r, err := cluster.Reader(t.Context(), shard.String(), reader.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at, last := uint64(0), reader.FromDurable
	readTo := func(end uint64) {
		t.Helper()
		for at < end {
			b, err := r.Next(ctx)
			if err != nil {
				t.Fatalf("at %d: %v", at, err)
			}
			if b.Position != at || !bytes.Equal(b.Data, pattern(at, len(b.Data))) {
				t.Fatalf("wrong bytes at %d", at)
			}
			at += uint64(len(b.Data))
			last = b.Source
		}
	}
	readTo(50_000)
	for turn := range 3 {
		before := a.memories.now.Load().of["a"]
		if turn%2 == 0 {
			delete(grants, "alice")
		} else {
			grants["alice"] = auth.Grant{Read: auth.Patterns{"*"}, Tenant: "a"}
			before = nil
		}
		alice, err := a.try("alice")
		if err == nil {
			defer alice.Close()
		}
		a.change(theTenants, grants)
		if before != nil {
			eventually(t, "the memory is another", func() bool { return a.memories.now.Load().of["a"] != before })
		}
		end := at + 30_000
		appendPattern(t, admin, shard, at, end)
		readTo(end)
	}
	eventually(t, "it reads over shared memory again", func() bool {
		appendPattern(t, admin, shard, at, at+100)
		readTo(at + 100)
		return last == reader.FromSHM
	})
}
