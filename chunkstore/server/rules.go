package server

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/rmatail/rmatail/auth"
)

// followRules takes up what changes in the guard's files.
func (s *Server) followRules() {
	changed, pause := s.memories.changed, memoryAgain
	again := time.NewTimer(pause)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-s.serving.Done():
			return
		case <-changed:
		case <-again.C:
		}
		var next *auth.Rules
		next, changed = s.cfg.Guard.Rules()
		if err := s.takeUp(next); err != nil {
			s.log.Error("memory was closed to consumers and not opened again", "err", err, "again_in", pause)
			again.Reset(pause)
			pause = min(2*pause, memoryAgainMax)
			continue
		}
		pause = memoryAgain
	}
}

// memoryAgain is after what time memory that could not be had is tried again, at first:
// the old one counts against the limit of locked memory until its last user has gone.
const (
	memoryAgain    = time.Second
	memoryAgainMax = time.Minute
)

// takeUp makes rules those in force. Whose standing has changed is cut off, and
// comes back as what it is now. The memory that it could read gets a new epoch: a
// new memory file, new registrations and keys. What it has kept opens nothing that is
// written from now on. Others that read the same memory are cut off with it, and come
// back by themselves.
//
// Clients come in meanwhile. One that came in by the old rules, and is not seen by a
// look at all connections, notices by the turn; one that is seen may have had a
// memory that was not replaced, and so this goes on until nobody is.
func (s *Server) takeUp(next *auth.Rules) error {
	var errs []error
	renewed, cut := map[string]bool{}, 0
	if old := s.memories.now.Load(); !reflect.DeepEqual(old.rules.Tenants(), next.Tenants()) {
		for _, t := range append(append([]auth.Tenant{{}}, old.rules.Tenants()...), next.Tenants()...) {
			renewed[t.Name] = true // whose bytes lie where has changed
		}
	}
	for _, tenant := range s.memories.now.Load().rules.UsersLost(next) {
		renewed[tenant] = true
	}
	for _, t := range append([]auth.Tenant{{}}, next.Tenants()...) {
		if m := s.memories.now.Load().of[t.Name]; m == nil || m.before != nil {
			renewed[t.Name] = true // it could not be had before
		}
	}
	for first := true; ; first = false {
		renew := map[string]bool{}
		if first {
			renew = maps.Clone(renewed)
		}
		var stale []*conn
		s.eachConn(func(c *conn) {
			is, tenant := c.stale(next)
			if is {
				stale = append(stale, c)
			}
			if is && tenant != nil && !renewed[*tenant] {
				renew[*tenant], renewed[*tenant] = true, true
			}
		})
		if first || len(renew) > 0 {
			errs = append(errs, s.renew(next, renew)...)
		}
		for _, c := range stale {
			c.cut()
		}
		cut += len(stale)
		if !first && len(renew) == 0 {
			break
		}
	}
	s.log.Info("rules are taken up", "cut_off", cut, "memories_renewed", len(renewed))
	return errors.Join(errs...)
}

// renew puts rules in force and gives tenants new memory, or none if there are no
// such tenants any more. Connections to the old memory are cut off.
func (s *Server) renew(rules *auth.Rules, names map[string]bool) (errs []error) {
	tenants := map[string]auth.Tenant{"": {}}
	for _, t := range rules.Tenants() {
		tenants[t.Name] = t
	}
	was := s.memories.now.Load()
	next := &holdings{rules: rules, of: maps.Clone(was.of), placing: was.placing, turn: was.turn + 1}
	if !reflect.DeepEqual(was.rules.Tenants(), rules.Tenants()) {
		next.placing++
	}
	var gone []*memory
	for name := range names {
		old := was.of[name]
		if old != nil {
			gone = append(gone, old)
			errs = append(errs, old.shut()) // first: the new one has the same socket path
		}
		delete(next.of, name)
		t, keep := tenants[name]
		if !keep {
			continue
		}
		m, err := s.newMemory(t, 0)
		if err == nil {
			next.of[name] = m
			s.deliver(m) // or the node ends, and nobody waits
			continue
		}
		errs = append(errs, fmt.Errorf("memory of tenant %q: %w", name, err))
		if name == "" {
			// The node needs one; it is for TCP alone, where everybody is asked who he is.
			next.of[""] = old.closed()
		}
	}
	s.memories.replace(next)
	for _, m := range gone {
		s.eachConn(func(c *conn) {
			if c.uses(m) {
				c.cut()
			}
		})
		if x := next.of[m.tenant]; x != nil && x.arena == m.arena {
			continue
		}
		if !s.serving.start(func() { s.bury(m) }) {
			s.memories.leave(m) // the node is going down, and closes it at the end
		}
	}
	return errs
}

// closed is a memory without its ways.
func (m *memory) closed() *memory {
	const why = "closed with the last change of the rules"
	return &memory{tenant: m.tenant, arena: m.arena, cache: m.cache, waits: m.waits, rdmaReason: why, socketReason: why, before: m}
}

// bury unmaps a memory when nobody reads it any more.
func (s *Server) bury(m *memory) {
	for x := m; x != nil; x = x.before {
		x.users.Wait()
	}
	close(m.waits.ended)
	for x := m; x != nil; x = x.before {
		x.deliverers.Wait()
	}
	if err := m.arena.Close(); err != nil {
		s.log.Warn("old memory was not closed cleanly", "tenant", m.tenant, "err", err)
	}
}
