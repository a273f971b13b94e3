package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// peer is who a client is and what it may do. It is set before the Hello is
// answered and does not change: when the rules about it do, its connection ends.
type peer struct {
	id      auth.Identity
	proof   auth.Proof
	grant   auth.Grant
	rules   *auth.Rules // by which the grant is; nil: there are none
	placing uint64      // the holdings' of then
	// memory is its tenant's; reads says whether it may read it.
	memory *memory
	reads  bool
	ticket string // opens the memory's socket; empty: none is wanted there
	// named are the tenants of the shards that it puts; nil: it need not say whose
	// they are. The serve goroutine's.
	named map[layout.Hash]string
}

// namesMax bounds the shards that one connection puts and has named.
const namesMax = 65536

// identify finds out who the client is, from its certificate or its token, and what
// it may do. After it, leave must be called.
func (c *conn) identify(token string) error {
	p := peer{id: auth.Anonymous, grant: auth.Everything()}
	held := c.s.memories.now.Load()
	p.placing = held.placing
	if g := c.s.cfg.Guard; g != nil && !within(c.nc) {
		if err := p.prove(g, c.nc, held.rules, token); err != nil {
			return err
		}
	}
	if p.memory = c.s.memories.enter(p.grant.Tenant); p.memory == nil {
		return errNoMemory
	}
	p.reads = p.rules.Covers(p.grant)
	if p.rules != nil && p.grant.Role >= auth.RoleProducer {
		p.named = map[layout.Hash]string{}
	}
	if c.s.cfg.Guard != nil && p.reads && !within(c.nc) {
		p.ticket = rand.Text()
		c.s.tickets.add(p.ticket, p.memory)
	}
	c.standing.Lock()
	c.peer, c.standing.known = p, true
	c.standing.Unlock()
	if end := c.proof.Until(); !end.IsZero() {
		c.expiry = time.AfterFunc(time.Until(end), c.expire)
	}
	if c.s.memories.now.Load().turn != held.turn {
		return errNoMemory // the rules have changed under it: see takeUp
	}
	client, err := c.s.clients.enter(c.clientName(), &c.s.cfg.Limits)
	c.client = client
	return err
}

func (p *peer) prove(g *auth.Guard, nc net.Conn, rules *auth.Rules, token string) (err error) {
	if p.proof, err = g.Show(nc, token); err == nil {
		p.id, err = g.Identify(p.proof)
	}
	if err != nil {
		return &wire.Error{Status: wire.StatusUnknownPeer, Message: err.Error()}
	}
	p.rules = rules
	grant, ok := p.rules.Grant(p.id)
	if !ok {
		return &wire.Error{Status: wire.StatusForbidden, Message: fmt.Sprintf("no rule is about %s", p.id)}
	}
	p.grant = grant
	return nil
}

// expire cuts off a client whose certificate has ended, with its queue pairs and its
// ticket. It comes back with a new one.
func (c *conn) expire() {
	c.s.log.Info("a certificate has expired: its connection ends", "client", c.nc.RemoteAddr().String(), "identity", string(c.id))
	c.cut()
}

// leave ends what identify began.
func (c *conn) leave() {
	if c.memory == nil {
		return
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.ticket != "" {
		c.s.tickets.remove(c.ticket)
	}
	c.memory.users.Done()
	if c.client != nil {
		c.s.clients.leave(c.client)
	}
}

// stale says whether the client would be somebody else now, or might do other
// things, by rules that are about to be in force.
// tenant is whose memory it reads; nil: nobody's.
func (c *conn) stale(rules *auth.Rules) (is bool, tenant *string) {
	c.standing.Lock()
	defer c.standing.Unlock()
	if !c.standing.known {
		return false, nil // it will go by what is new, or notice
	}
	if c.reads {
		tenant = &c.memory.tenant
	}
	if within(c.nc) {
		return false, nil
	}
	id, err := c.s.cfg.Guard.Identify(c.proof)
	grant, ok := rules.Grant(id)
	is = err != nil || !ok || id != c.id || !reflect.DeepEqual(grant, c.grant) || rules.Covers(grant) != c.reads || (rules == nil) != (c.peer.rules == nil)
	return is, tenant
}

// uses says whether the client reads a memory.
func (c *conn) uses(m *memory) bool {
	c.standing.Lock()
	defer c.standing.Unlock()
	return c.standing.known && c.memory == m
}

func (p *peer) forbidden(what string, shard layout.Shard) error {
	return &wire.Error{Status: wire.StatusForbidden, Message: fmt.Sprintf("%s %v, for %s", what, shard, p.id)}
}

// within says whether a stream is of the client's tenant. Who writes caches, as the
// nodes of a cluster do, is of all.
func (p *peer) within(stream string) bool {
	return p.grant.Role >= auth.RoleProducer || p.rules.TenantOf(stream) == p.grant.Tenant
}

func (p *peer) mayAppend(shard layout.Shard) error {
	if p.rules == nil || p.grant.Append.Match(shard.Stream) && p.within(shard.Stream) {
		return nil
	}
	return p.forbidden("append to", shard)
}

func (p *peer) mayRead(shard layout.Shard) error {
	if p.rules == nil || p.grant.Read.Match(shard.Stream) && p.within(shard.Stream) {
		return nil
	}
	return p.forbidden("read of", shard)
}

// mayDo refuses operations that are about no shard, for who may not do them at all.
func (p *peer) mayDo(op wire.Op) error {
	switch {
	case p.rules == nil:
		return nil
	case (op == wire.OpReadArena || op == wire.OpRDMAConnect || op == wire.OpAwaitArena) && !p.reads:
		return &wire.Error{Status: wire.StatusForbidden, Message: fmt.Sprintf("memory holds more than %s may read: a tenant for these streams would give them memory of their own", p.id)}
	case op == wire.OpNodeStat && p.grant.Role < auth.RoleAdmin:
		return &wire.Error{Status: wire.StatusForbidden, Message: fmt.Sprintf("statistics of the node, for %s, who is no admin", p.id)}
	}
	return nil
}

// cacheFor is where a client may write what is of a shard.
func (c *conn) cacheFor(shard layout.Shard) (arenaNode, error) {
	if c.peer.rules == nil {
		return c.cacheOfTenant("")
	}
	if c.grant.Role < auth.RoleProducer {
		return arenaNode{}, &wire.Error{Status: wire.StatusForbidden, Message: fmt.Sprintf("writing to caches, for %s, who is no producer", c.id)}
	}
	if err := c.mayAppend(shard); err != nil {
		return arenaNode{}, err
	}
	return c.cacheOfTenant(c.peer.rules.TenantOf(shard.Stream))
}

// leaseCache is where a lease is asked for. Who may read a shard, or is an admin, may
// ask who writes it.
func (c *conn) leaseCache(shard layout.Shard, action wire.LeaseAction) (arenaNode, error) {
	if action == wire.LeaseQuery && c.peer.rules != nil && (c.grant.Role == auth.RoleAdmin || c.mayRead(shard) == nil) {
		return c.cacheOfTenant(c.peer.rules.TenantOf(shard.Stream))
	}
	return c.cacheFor(shard)
}

// name takes in which shard a hash of later puts stands for.
func (c *conn) name(p []byte) error {
	req, err := wire.ParseName(p)
	if err != nil {
		return err
	}
	shard, err := parseShard(req.Shard)
	if err != nil || c.peer.rules == nil {
		return err // nobody asks for names here: nothing is wrong with one
	}
	if _, err := c.cacheFor(shard); err != nil {
		return err
	}
	if len(c.named) >= namesMax {
		return &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d shards have been named on this connection; connect anew", namesMax)}
	}
	c.named[shard.Hash(req.Incarnation)] = c.peer.rules.TenantOf(shard.Stream)
	return nil
}

// cacheOf is where a client may put what has a hash.
func (c *conn) cacheOf(h layout.Hash) (arenaNode, error) {
	if c.peer.rules == nil {
		return c.cacheOfTenant("")
	}
	tenant, known := c.named[h]
	if !known {
		return arenaNode{}, errNotNamed
	}
	return c.cacheOfTenant(tenant)
}

// cacheOfTenant is where the client's puts for a tenant go, as long as its idea of
// what is whose is that of now.
func (c *conn) cacheOfTenant(tenant string) (arenaNode, error) {
	held := c.s.memories.now.Load()
	m := held.of[tenant]
	if m == nil || held.placing != c.placing {
		return arenaNode{}, errNoMemory
	}
	return m.cache, nil
}

// errNotNamed refuses puts whose shard nobody knows, and those of clients that are no
// producers. It is made once.
var errNotNamed = &wire.Error{Status: wire.StatusForbidden, Message: "a put for a shard that this client has not named, or may not write to"}

// visible lists the shards that the client may read or append to.
func (c *conn) visible(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
	var out []durable.Entry
	for {
		entries, err := c.s.store.List(ctx, after, limit)
		if err != nil || c.peer.rules == nil {
			return entries, err
		}
		full := len(entries) == limit
		if len(entries) > 0 {
			after = entries[len(entries)-1].Shard
		}
		out = append(out, slices.DeleteFunc(entries, func(e durable.Entry) bool {
			shard, err := layout.ParseShard(e.Shard)
			return err != nil || c.mayRead(shard) != nil && c.mayAppend(shard) != nil
		})...)
		if !full || len(out) >= limit {
			return out[:min(len(out), limit)], nil
		}
	}
}

// Put implements producer.LocalNode.
func (l localCache) Put(shard layout.Shard, p layout.Put) error {
	c, err := l.of(shard)
	if err != nil {
		return err
	}
	return c.Put(p)
}

// Publish implements producer.LocalNode.
func (l localCache) Publish(p layout.Publication) error {
	c, err := l.of(p.Shard)
	if err != nil {
		return err
	}
	return c.Publish(p)
}

// Lease implements producer.LocalNode.
func (l localCache) Lease(req wire.Lease) (wire.LeaseReply, error) {
	shard, err := parseShard(req.Shard)
	if err != nil {
		return wire.LeaseReply{}, err
	}
	c, err := l.of(shard)
	if err != nil {
		return wire.LeaseReply{}, err
	}
	return c.Lease(req)
}

func (l localCache) of(shard layout.Shard) (arenaNode, error) {
	held := l.s.memories.now.Load()
	m := held.of[held.rules.TenantOf(shard.Stream)]
	if m == nil {
		return arenaNode{}, errNoMemory
	}
	return m.cache, nil
}

// errNoTicket denies the memory socket.
var errNoTicket = errors.New("no ticket for this memory, and no rule about its user")
