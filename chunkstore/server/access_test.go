package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	a.guard = openGuard(t, auth.Settings{Tokens: a.tokens, Access: a.file, Plain: auth.PlainAllowed}, auth.Options{
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
		if !strings.Contains(name, ":") && id != auth.Anonymous {
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
	return dialAs(a.t, a.Server, credentials(a.t, auth.Settings{Token: secretFile(a.t, "token", tokenOf(name)), Plain: auth.PlainAllowed}))
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
		for op, payload := range map[wire.Op][]byte{wire.OpNodeStat: nil, wire.OpReadArena: must(wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 64}})),
			wire.OpAwaitArena: encode(t, &wire.AwaitArena{Words: []wire.ArenaWord{{Off: a.main().waits.first}}, Reads: []wire.ArenaRead{{Off: 0, N: 64}}}), wire.OpRDMAConnect: []byte("offer")} {
			_, err := a.as(who).Call(t.Context(), op, payload, nil)
			if errors.Is(err, wire.ErrForbidden) == (who == "admin") || err != nil && who == "admin" && op != wire.OpRDMAConnect {
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

// Memory that cannot be had when rights are taken away is had later, without anybody's
// doing: the tenant's consumers come back, and so do those of nobody's streams, over TCP
// meanwhile.
func TestRealMemoryIsTriedAgain(t *testing.T) {
	a := &access{t: t, tokens: secretFile(t, "tokens", ""), file: secretFile(t, "access", "0")}
	grants := theGrants()
	grants["anna"], grants["chris"] = grants["alice"], grants["carol"]
	a.write(grants)
	a.rules = rulesOf(t, theTenants, grants)
	cfg := testConfig(t)
	cfg.RDMAMode, cfg.Arena.Epoch = RDMARequire, 7
	cfg.Guard = openGuard(t, auth.Settings{Tokens: a.tokens, Access: a.file}, auth.Options{Rules: func(string, []byte) (*auth.Rules, error) { return a.rules, nil }})
	a.guard = cfg.Guard
	var full, refused atomic.Int64
	a.Server = serveParts(t, cfg, parts{export: func(rdma.Config, []byte) (export, error) {
		if full.Load() != 0 {
			refused.Add(1)
			return nil, rdma.ErrMemlock
		}
		return fakeExport{connect: func([]byte) ([]byte, io.Closer, error) { return []byte("answer"), counted{&refused}, nil }}, nil
	}})
	if e := a.as("carol").Hello().Epoch; e != 7 {
		t.Fatalf("epoch %d", e)
	}
	a.as("alice")
	full.Store(1)
	delete(grants, "alice")
	delete(grants, "carol")
	a.change(theTenants, grants)
	eventually(t, "memory for both is refused", func() bool { return refused.Load() >= 2 })
	var meanwhile *wire.Client
	eventually(t, "memory of nobody's streams is read over TCP", func() bool {
		c, err := a.try("chris")
		meanwhile = c
		return err == nil && c.Hello().Features&wire.FeatureRDMA == 0
	})
	if _, err := a.try("anna"); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("anna, without memory: %v", err)
	}
	full.Store(0)
	var anna, chris *wire.Client
	eventually(t, "both have memory again", func() bool {
		var one, two error
		anna, one = a.try("anna")
		chris, two = a.try("chris")
		return one == nil && two == nil && chris.Hello().Features&anna.Hello().Features&wire.FeatureRDMA != 0
	})
	if e := chris.Hello().Epoch; e == 7 || e == anna.Hello().Epoch {
		t.Errorf("the new memory has epoch %x, as that before or another", e)
	}
	select {
	case <-meanwhile.Lost():
	case <-time.After(patience):
		t.Error("who read the old memory goes on")
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

// Who waits for news of its own tenant's memory gets that, and is not told of news in
// another's.
func TestRealTenantsWait(t *testing.T) {
	a := twoTenants(t, nil)
	admin := durable.NewRemote(a.as("admin"))
	alice := a.as("alice")
	if alice.Hello().Features&wire.FeatureAwait == 0 {
		t.Fatal("alice cannot wait")
	}
	m := a.memories.now.Load().of["a"]
	shard := shardOf("a-logs")
	g := m.arena.Geometry()
	var at uint64
	for _, set := range g.PageSetsOf(layout.StreamHash(shard.Stream), shard.Page()) {
		if way, _, ok := layout.FindIdentity(m.arena.Bytes()[g.PageSet(set):][:layout.SetSize], layout.StreamHash(shard.Stream), shard.Page()); ok {
			at = g.PageSlot(set*layout.Ways+uint32(way)) + uint64(shard.EntryOffset())
		}
	}
	req := encode(t, &wire.AwaitArena{Wait: 10 * time.Second, Words: []wire.ArenaWord{{Off: at, Value: layout.LoadWord(m.arena.Bytes(), at)}}, Reads: []wire.ArenaRead{{Off: 0, N: layout.HeaderSize}}})
	call, err := alice.Start(time.Now().Add(patience), wire.OpAwaitArena, req, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "alice waits", func() bool { return a.Stats().Waiting == 1 })
	appendPattern(t, admin, shardOf("b-logs"), 300_000, 300_100)
	if n := a.Stats().Waiting; n != 1 {
		t.Errorf("%d wait after another tenant's news", n)
	}
	appendPattern(t, admin, shard, 300_000, 300_100)
	p, err := call.Wait()
	if err != nil {
		t.Fatal(err)
	}
	h, err := layout.ParseHeader(p)
	if err != nil || h.Epoch != alice.Hello().Epoch {
		t.Errorf("alice reads the memory of epoch %x, %v; hers is %x", h.Epoch, err, alice.Hello().Epoch)
	}
}

// The node's page looks at the node from within, whoever else is asked for what.
func TestRealPageOfAGuardedNode(t *testing.T) {
	a := serveAccess(t, nil, map[string]auth.Grant{"nobody": {}}, nil)
	c, err := a.dialSelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), wire.OpNodeStat, nil, nil); err != nil {
		t.Error(err)
	}
	a.change(nil, map[string]auth.Grant{"somebody": {}})
	eventually(t, "the new rules are in force", func() bool { _, err := a.try("somebody"); return err == nil })
	if _, err := c.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
		t.Errorf("after a change of the rules: %v", err)
	}
}
