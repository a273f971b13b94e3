package server

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/rdma/local"
)

// access is a node with tokens and rules, both in files that a test changes.
type access struct {
	*Server
	t      testing.TB
	guard  *auth.Guard
	tokens string
	rules  *auth.Rules // what the rules' file stands for
	file   string
	turn   int
}

func tokenOf(name string) string { return "token-of-the-test-" + name }

// serveAccess runs a node that knows clients by the tokens of their names.
func serveAccess(t testing.TB, tenants []auth.Tenant, grants map[string]auth.Grant, change func(*Config)) *access {
	t.Helper()
	a := &access{t: t, tokens: secretFile(t, "tokens", "nobody-yet "+tokenOf("none")), file: secretFile(t, "access", "0")}
	a.write(grants)
	a.rules = rulesOf(t, tenants, grants)
	a.guard = openGuard(t, auth.Settings{Tokens: a.tokens, Access: a.file}, auth.Options{
		Rules: func(string, []byte) (*auth.Rules, error) { return a.rules, nil },
	})
	a.Server = serve(t, func(c *Config) {
		c.Guard, c.Socket = a.guard, filepath.Join(t.TempDir(), "s.sock")
		if change != nil {
			change(c)
		}
	})
	return a
}

func rulesOf(t testing.TB, tenants []auth.Tenant, grants map[string]auth.Grant) *auth.Rules {
	t.Helper()
	var list []auth.Rule
	for name, g := range grants {
		id := auth.Identity(name)
		if !strings.Contains(name, ":") {
			id = auth.OfToken(name)
		}
		list = append(list, auth.Rule{Identity: id, Grant: g})
	}
	r, err := auth.NewRules(tenants, list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (a *access) write(grants map[string]auth.Grant) {
	var b strings.Builder
	for name := range grants {
		if !strings.Contains(name, ":") {
			fmt.Fprintln(&b, name, tokenOf(name))
		}
	}
	if err := errors.Join(os.WriteFile(a.tokens+".new", []byte(b.String()), 0o600), os.Rename(a.tokens+".new", a.tokens)); err != nil {
		a.t.Fatal(err)
	}
}

// change makes other rules those of the files, and the guard look.
func (a *access) change(tenants []auth.Tenant, grants map[string]auth.Grant) {
	a.t.Helper()
	next := rulesOf(a.t, tenants, grants)
	a.guard.Close() // its goroutine is not to look while a.rules changes
	a.write(grants)
	a.rules = next
	a.turn++
	if err := os.WriteFile(a.file, fmt.Append(nil, a.turn), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := a.guard.Reload(); err != nil {
		a.t.Fatal(err)
	}
}

func (a *access) as(name string) *wire.Client {
	a.t.Helper()
	c, err := a.try(name)
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	return c
}

func (a *access) try(name string) (*wire.Client, error) {
	return dialAs(a.t, a.Server, credentials(a.t, auth.Settings{Token: secretFile(a.t, "token", tokenOf(name))}))
}

func shardOf(stream string) layout.Shard { return layout.Shard{Stream: stream, Number: 1} }

// call is one request of a client.
type call struct {
	op      wire.Op
	payload []byte
}

func encode(t testing.TB, p interface {
	AppendTo([]byte) ([]byte, error)
}) []byte {
	t.Helper()
	b, err := p.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requestsAbout are all requests that name a shard, by name.
func requestsAbout(t testing.TB, shard layout.Shard, incarnation uint64) map[string]call {
	name := []byte(shard.String())
	data := []byte("forged")
	hash := shard.Hash(incarnation)
	put := wire.Put{ShardHash: hash, Chunk: 5, CRC: layout.ExtendCRC(layout.SeedCRC(hash, 5), data), Data: data}
	app := wire.Append{Shard: name, Offset: wire.NoOffset, Data: data}
	one := wire.Ballot{Sequence: 1, Nonce: 1}
	return map[string]call{
		"append":  {wire.OpAppend, append(encode(t, &app), data...)},
		"stat":    {wire.OpStat, encode(t, shardName(name))},
		"durable": {wire.OpReadDurable, encode(t, &wire.ReadDurable{Shard: name, Max: 100})},
		"fill":    {wire.OpFill, encode(t, &wire.Fill{Shard: name, Incarnation: incarnation})},
		"name":    {wire.OpName, encode(t, &wire.Name{Shard: name, Incarnation: incarnation})},
		"put":     {wire.OpPut, append(encode(t, &put), data...)},
		"publish": {wire.OpPublish, encode(t, &wire.Publish{Shard: name, Incarnation: incarnation, Length: 1, Ballot: one})},
		"acquire": {wire.OpLease, encode(t, &wire.Lease{Shard: name, Action: wire.LeaseAcquire, Ballot: one, TTL: time.Second, Owner: []byte("x")})},
		"query":   {wire.OpLease, encode(t, &wire.Lease{Shard: name, Action: wire.LeaseQuery})},
	}
}

// shardName is the payload of Stat.
type shardName []byte

func (n shardName) AppendTo(dst []byte) ([]byte, error) { return wire.AppendStat(dst, n) }

// Each operation that is about a shard, for who may and for who may not.
func TestRealWhoMayDoWhat(t *testing.T) {
	a := serveAccess(t, nil, map[string]auth.Grant{
		"writer":   {Append: auth.Patterns{"logs"}},
		"reader":   {Read: auth.Patterns{"logs", "metrics-*"}},
		"producer": {Role: auth.RoleProducer, Append: auth.Patterns{"logs"}},
		"admin":    {Role: auth.RoleAdmin, Append: auth.Patterns{"*"}, Read: auth.Patterns{"*"}},
		"nobody":   {},
	}, func(c *Config) { c.ReadThrough = 1 << 20 })
	logs, other := shardOf("logs"), shardOf("other")
	admin := durable.NewRemote(a.as("admin"))
	for _, s := range []layout.Shard{logs, other, shardOf("metrics-a"), shardOf("logs2")} {
		appendPattern(t, admin, s, 0, 5000)
	}
	incarnations := map[layout.Shard]uint64{}
	for _, s := range []layout.Shard{logs, other} {
		info, err := admin.Stat(t.Context(), s.String())
		if err != nil {
			t.Fatal(err)
		}
		incarnations[s] = info.Incarnation
	}
	allowed := map[string][]string{
		"writer":   {"append", "stat"},
		"reader":   {"stat", "durable", "fill", "query"},
		"producer": {"append", "stat", "name", "put", "publish", "acquire", "query"},
		"nobody":   {},
	}
	for who, may := range allowed {
		for _, shard := range []layout.Shard{logs, other} {
			requests := requestsAbout(t, shard, incarnations[shard])
			for what, r := range requests {
				c := a.as(who)
				if what == "put" && slices.Contains(may, "name") && shard == logs {
					if _, err := c.Call(t.Context(), wire.OpName, requests["name"].payload, nil); err != nil {
						t.Fatal(err)
					}
				}
				_, err := c.Call(t.Context(), r.op, r.payload, nil)
				if want := shard == logs && slices.Contains(may, what); errors.Is(err, wire.ErrForbidden) == want {
					t.Errorf("%s, %s of %v: %v; allowed: %v", who, what, shard, err, want)
				}
				c.Close()
			}
		}
	}
	for who, want := range map[string][]string{
		"writer": {"logs/0001"}, "reader": {"logs/0001", "metrics-a/0001"}, "producer": {"logs/0001"}, "nobody": nil,
		"admin": {"logs/0001", "logs2/0001", "metrics-a/0001", "other/0001"},
	} {
		remote := durable.NewRemote(a.as(who))
		var got []string
		for after := ""; ; { // page by page
			entries, err := remote.List(t.Context(), after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			after = entries[0].Shard
			got = append(got, after)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %v, want %v", who, got, want)
		}
		for op, payload := range map[wire.Op][]byte{wire.OpNodeStat: nil, wire.OpReadArena: must(wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 64}}))} {
			_, err := a.as(who).Call(t.Context(), op, payload, nil)
			if errors.Is(err, wire.ErrForbidden) == (who == "admin") || err != nil && who == "admin" {
				t.Errorf("%s, %v: %v", who, op, err)
			}
		}
	}
	if h := a.as("reader").Hello(); h.ShmPath != "" || h.Ticket != "" || h.Features&wire.FeatureNames != 0 {
		t.Errorf("who may not read memory is offered it: %+v", h)
	}
	if _, err := a.try("stranger"); !errors.Is(err, wire.ErrUnknownPeer) {
		t.Errorf("a stranger: %v", err)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// The ballot that nothing is above would lock a shard for ever: it takes a producer
// of that shard.
func TestRealLastBallot(t *testing.T) {
	a := serveAccess(t, nil, map[string]auth.Grant{
		"admin":  {Role: auth.RoleAdmin, Append: auth.Patterns{"*"}, Read: auth.Patterns{"*"}},
		"reader": {Read: auth.Patterns{"*"}}, "writer": {Append: auth.Patterns{"*"}},
		"other": {Role: auth.RoleProducer, Append: auth.Patterns{"other"}},
	}, nil)
	logs := shardOf("logs")
	last := wire.Ballot{Sequence: math.MaxUint64, Nonce: 1}
	lease := encode(t, &wire.Lease{Shard: []byte(logs.String()), Action: wire.LeaseAcquire, Ballot: last, TTL: time.Minute, Owner: []byte("evil")})
	publish := encode(t, &wire.Publish{Shard: []byte(logs.String()), Incarnation: 1, Length: 1 << 40, Ballot: last})
	for _, who := range []string{"reader", "writer", "other"} {
		c := a.as(who)
		for op, p := range map[wire.Op][]byte{wire.OpLease: lease, wire.OpPublish: publish} {
			if _, err := c.Call(t.Context(), op, p, nil); !errors.Is(err, wire.ErrForbidden) {
				t.Errorf("%s, %v: %v", who, op, err)
			}
		}
	}
	store := durable.NewRemote(a.as("admin"))
	appendPattern(t, store, logs, 0, 1000)
	info, err := store.Stat(t.Context(), logs.String())
	if err != nil {
		t.Fatal(err)
	}
	if e := overTCP(t, a.as("admin")).entry(t, logs); !e.Valid(logs.Hash(info.Incarnation)) || e.Length != 1000 {
		t.Errorf("the node's own appender cannot publish: %+v", e)
	}
}

// twoTenants is a node with streams of two tenants and of none.
func twoTenants(t testing.TB, change func(*Config)) *access {
	a := serveAccess(t, theTenants, theGrants(), change)
	admin := durable.NewRemote(a.as("admin"))
	for _, s := range []string{"a-logs", "b-logs", "public"} {
		appendPattern(t, admin, shardOf(s), 0, 300_000)
	}
	return a
}

var theTenants = []auth.Tenant{{Name: "a", Streams: auth.Patterns{"a-*"}, Arena: 4 << 20}, {Name: "b", Streams: auth.Patterns{"b-*"}, Arena: 4 << 20}}

func theGrants() map[string]auth.Grant {
	return map[string]auth.Grant{
		"alice": {Read: auth.Patterns{"*"}, Tenant: "a"}, "bob": {Read: auth.Patterns{"b-*"}, Tenant: "b"}, "carol": {Read: auth.Patterns{"*"}},
		"admin": {Role: auth.RoleAdmin, Append: auth.Patterns{"*"}, Read: auth.Patterns{"*"}},
	}
}

// secretOf is a piece of a stream's bytes that is in no other's.
func scan(t testing.TB, mem func(off uint64, n int) []byte, size uint64, shard layout.Shard, incarnation uint64) (found []string) {
	t.Helper()
	hash := shard.Hash(incarnation)
	stream := layout.StreamHash(shard.Stream)
	const piece = 1 << 16
	for off := uint64(0); off < size; off += piece {
		p := mem(off, int(min(piece, size-off)))
		for what, b := range map[string][]byte{"shard hash": hash[:], "stream hash": stream[:]} {
			if bytes.Contains(p, b) {
				found = append(found, fmt.Sprintf("%s in [%d, %d)", what, off, off+piece))
			}
		}
	}
	return found
}

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

// Each tenant's memory is exported by itself, and a client's queue pairs are made at
// its own tenant's: nobody else's key is ever sent to it.
func TestRealTenantsOverRDMA(t *testing.T) {
	a := &access{t: t, tokens: secretFile(t, "tokens", ""), file: secretFile(t, "access", "0")}
	a.write(theGrants())
	a.rules = rulesOf(t, theTenants, theGrants())
	cfg := testConfig(t)
	cfg.RDMAMode = RDMARequire
	cfg.Guard = openGuard(t, auth.Settings{Tokens: a.tokens, Access: a.file}, auth.Options{Rules: func(string, []byte) (*auth.Rules, error) { return a.rules, nil }})
	a.guard = cfg.Guard
	var exports atomic.Int64
	a.Server = serveParts(t, cfg, parts{export: func(_ rdma.Config, mem []byte) (export, error) {
		exports.Add(1)
		return fakeExport{connect: func([]byte) ([]byte, io.Closer, error) {
			h, err := layout.ParseHeader(mem)
			return binary.LittleEndian.AppendUint64(nil, h.Epoch), counted{&exports}, err
		}}, nil
	}})
	if n := exports.Load(); n != 3 {
		t.Fatalf("%d exports, want one for each tenant and one for the rest", n)
	}
	seen := map[uint64]string{}
	for _, who := range []string{"alice", "bob", "carol"} {
		c := a.as(who)
		answer, err := c.Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil)
		if err != nil {
			t.Fatal(err)
		}
		epoch := binary.LittleEndian.Uint64(answer)
		if epoch != c.Hello().Epoch || seen[epoch] != "" {
			t.Errorf("%s is connected to the memory of epoch %x, its own is %x; seen before: %q", who, epoch, c.Hello().Epoch, seen[epoch])
		}
		seen[epoch] = who
	}
	grants := theGrants()
	delete(grants, "bob")
	before := a.memories.now.Load().of["b"]
	a.change(theTenants, grants)
	eventually(t, "the memory of who was shut out is exported anew", func() bool { return a.memories.now.Load().of["b"] != before })
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
	for who, want := range map[string]error{"alice": nil, "bob": local.ErrDenied, "carol": local.ErrDenied} {
		conn, err := local.Dial(t.Context(), a.as(who).Hello().ShmPath, 0)
		if !errors.Is(err, want) {
			t.Errorf("this user at %s's socket: %v, want %v", who, err, want)
		}
		if err == nil {
			conn.Close()
		}
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

// A stream that becomes another tenant's leaves the memory that it was in.
func TestRealStreamsMoveBetweenTenants(t *testing.T) {
	a := twoTenants(t, nil)
	before := a.as("carol")
	grants := theGrants()
	tenants := append(slices.Clone(theTenants), auth.Tenant{Name: "p", Streams: auth.Patterns{"public"}, Arena: 4 << 20})
	grants["paul"] = auth.Grant{Read: auth.Patterns{"public"}, Tenant: "p"}
	a.change(tenants, grants)
	select {
	case <-before.Lost():
	case <-time.After(patience):
		t.Fatal("carol is not cut off")
	}
	var admin *durable.Remote
	eventually(t, "admin comes in", func() bool {
		c, err := a.try("admin")
		admin = durable.NewRemote(c)
		return err == nil
	})
	appendPattern(t, admin, shardOf("public"), 300_000, 400_000)
	info, err := admin.Stat(t.Context(), shardOf("public").String())
	if err != nil {
		t.Fatal(err)
	}
	var paul *wire.Client
	eventually(t, "paul comes in", func() bool {
		paul, err = a.try("paul")
		return err == nil
	})
	carol := a.as("carol")
	if found := scan(t, overTCP(t, carol).read, carol.Hello().ArenaSize, shardOf("public"), info.Incarnation); found != nil {
		t.Errorf("the memory of nobody's streams still has public: %v", found)
	}
	if found := scan(t, overTCP(t, paul).read, paul.Hello().ArenaSize, shardOf("public"), info.Incarnation); found == nil {
		t.Error("the new tenant's memory has nothing of public")
	}
	// A tenant that goes takes its memory along.
	delete(grants, "bob")
	a.change(tenants[:1], map[string]auth.Grant{"alice": grants["alice"], "admin": grants["admin"], "carol": grants["carol"]})
	eventually(t, "memories are those of two", func() bool { return len(a.memories.now.Load().of) == 2 })
}
